//! Statements and answers in turn, decided without a driver: what the SDK asks through whichever driver an application has.

use std::fmt;

use crate::keys::FoundKey;

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// Text, or null.
    Maybe(Option<String>),
    /// An integer of 64 bits.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// One statement with its values, in the order of its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The text, with names in place.
    pub sql: String,
    /// The values.
    pub values: Vec<Value>,
}

/// What goes on when an answer is there.
pub type Then<A, T> = Box<dyn FnOnce(A) -> Turn<T> + Send>;

/// Whose turn it is: the driver's, which is to carry out a statement and hand its answer on, or the caller's, with the
/// outcome.
///
/// A statement carries what its answer is handed to, so that none can be taken for another's.
pub enum Turn<T> {
    /// Carry it out, and say how many rows it changed.
    Change(Statement, Then<u64, T>),
    /// Carry it out, and say what its first row has in its one column, named `answer`, an integer of 64 bits; none where
    /// there is no row or no value.
    Number(Statement, Then<Option<i64>, T>),
    /// Carry it out, and say what its first row has in the columns of [`KeyColumns`](crate::keys::KeyColumns); none where
    /// there is no row.
    Key(Statement, Then<Option<FoundKey>, T>),
    /// It is over.
    Done(T),
}

impl<T> Turn<T> {
    /// A statement whose changed rows are handed on.
    pub fn change(sql: String, values: impl Into<Vec<Value>>, then: impl FnOnce(u64) -> Self + Send + 'static) -> Self {
        Self::Change(Statement { sql, values: values.into() }, Box::new(then))
    }

    /// A statement whose one number is handed on.
    pub fn number(
        sql: String,
        values: impl Into<Vec<Value>>,
        then: impl FnOnce(Option<i64>) -> Self + Send + 'static,
    ) -> Self {
        Self::Number(Statement { sql, values: values.into() }, Box::new(then))
    }

    /// A statement whose row of a key is handed on.
    pub fn key(
        sql: String,
        values: impl Into<Vec<Value>>,
        then: impl FnOnce(Option<FoundKey>) -> Self + Send + 'static,
    ) -> Self {
        Self::Key(Statement { sql, values: values.into() }, Box::new(then))
    }
}

impl<T: fmt::Debug> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(statement, _) | Self::Number(statement, _) | Self::Key(statement, _) => statement.fmt(f),
            Self::Done(outcome) => outcome.fmt(f),
        }
    }
}
