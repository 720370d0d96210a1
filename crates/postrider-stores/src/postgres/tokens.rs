//! Tokens of messages, where sender and receiver share the database.
//!
//! Whoever takes a token second waits for the first, and finds none; in an older snapshot it is told to run again (40001).

use super::Names;
use crate::dialog::Turn;
use crate::received::{IssueToken, TakeToken};

const ISSUE: &str = "\
insert into {inbox_token} (message_id, consumer) values ($1::text::uuid, $2::text) on conflict do nothing";

const TAKE: &str = "delete from {inbox_token} where message_id = $1::text::uuid and consumer = $2::text";

/// Lets a consumer handle a message once.
pub fn issue(names: &Names, IssueToken(claim): IssueToken) -> Turn<()> {
    Turn::change(names.fill(ISSUE), claim.values(), |_| Turn::Done(()))
}

/// Takes the token; whether it was there.
pub fn take(names: &Names, TakeToken(claim): TakeToken) -> Turn<bool> {
    Turn::change(names.fill(TAKE), claim.values(), |taken| Turn::Done(taken > 0))
}
