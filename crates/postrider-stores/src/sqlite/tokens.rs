//! Tokens of messages, where sender and receiver share the database.

use super::upgrade::named;
use crate::dialog::Turn;
use crate::received::{IssueToken, TakeToken};

const ISSUE: &str = r#"insert into "{p}inbox_token" (message_id, consumer) values (?1, ?2) on conflict do nothing"#;

const TAKE: &str = r#"delete from "{p}inbox_token" where message_id = ?1 and consumer = ?2"#;

/// Lets a consumer handle a message once.
pub fn issue(prefix: &str, IssueToken(claim): IssueToken) -> Turn<()> {
    Turn::change(named(ISSUE, prefix), claim.values(), |_| Turn::Done(()))
}

/// Takes the token; whether it was there.
pub fn take(prefix: &str, TakeToken(claim): TakeToken) -> Turn<bool> {
    Turn::change(named(TAKE, prefix), claim.values(), |taken| Turn::Done(taken > 0))
}
