//! Tokens of messages, where sender and receiver share the database.
//!
//! Both are calls of functions that every other language calls as well. Whoever takes a token second waits for the first, and
//! finds none; in an older snapshot it is told to run again (40001), also where the token is younger than the snapshot.

use super::Names;
use crate::dialog::Turn;
use crate::received::{IssueToken, TakeToken};

const ISSUE: &str = "select {issue_token}($2::text, $1::text::uuid)::integer::bigint as answer";

const TAKE: &str = "select {take_token}($2::text, $1::text::uuid)::integer::bigint as answer";

/// Lets a consumer handle a message once.
pub fn issue(names: &Names, IssueToken(claim): IssueToken) -> Turn<()> {
    Turn::number(names.fill(ISSUE), claim.values(), |_| Turn::Done(()))
}

/// Takes the token; whether it was there.
pub fn take(names: &Names, TakeToken(claim): TakeToken) -> Turn<bool> {
    Turn::number(names.fill(TAKE), claim.values(), |taken| Turn::Done(taken == Some(1)))
}
