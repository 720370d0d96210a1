//! Tokens of messages, where sender and receiver share the database.
//!
//! A token is deleted without a look before: a look in an older snapshot would miss it, and its message would be lost.

use super::Names;
use crate::dialog::Turn;
use crate::received::{IssueToken, TakeToken};

const ISSUE: &str = "insert ignore into {inbox_token} (message_id, consumer) values (?, ?)";

const TAKE: &str = "delete from {inbox_token} where message_id = ? and consumer = ?";

/// Lets a consumer handle a message once.
pub fn issue(names: &Names, IssueToken(claim): IssueToken) -> Turn<()> {
    Turn::change(names.fill(ISSUE), claim.values(), |_| Turn::Done(()))
}

/// Takes the token; whether it was there.
pub fn take(names: &Names, TakeToken(claim): TakeToken) -> Turn<bool> {
    Turn::change(names.fill(TAKE), claim.values(), |taken| Turn::Done(taken > 0))
}
