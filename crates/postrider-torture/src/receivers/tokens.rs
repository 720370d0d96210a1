//! What becomes of tokens whose messages never come.

use std::collections::HashSet;

use futures_util::{StreamExt, TryStreamExt, stream};
use postrider::Token;
use uuid::Uuid;

use super::{Place, counting};
use crate::Fallible;
use crate::record::Recorder;

/// How many are asked for at once.
const PAGE: usize = 1000;
/// How many are revoked at once.
const AT_ONCE: usize = 8;

/// Revokes the tokens of messages that were not delivered, as their sender does who knows it: they were rolled back, given
/// up, or never written. How many there were.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn revoke(place: &Place, recorder: &Recorder) -> Fallible<u64> {
    let tokens = counting::tokens(place).await?;
    let needless = needless(recorder);
    let (mut revoked, mut after) = (0, None);
    loop {
        let page = tokens.outstanding(after, PAGE).await?;
        after = page.last().copied();
        let to_revoke: Vec<Token> = page.iter().copied().filter(|token| needless.contains(&token.0)).collect();
        revoked += to_revoke.len() as u64;
        stream::iter(to_revoke).map(Ok).try_for_each_concurrent(AT_ONCE, |token| tokens.revoke(token)).await?;
        if page.len() < PAGE {
            return Ok(revoked);
        }
    }
}

fn needless(recorder: &Recorder) -> HashSet<Uuid> {
    let record = recorder.open();
    let delivered: HashSet<Uuid> = record.delivered.iter().map(|delivered| delivered.id).collect();
    let never_came = record.written.iter().filter(|(id, _)| !delivered.contains(id));
    never_came.filter_map(|(_, written)| written.token).chain(record.spare_tokens.iter().copied()).collect()
}
