//! What effects there are.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::counting::{entity, is_passed_on};
use super::hands::connect;
use super::stage::Stage;
use super::{ConsumerKind, Place};
use crate::Fallible;
use crate::record::Effects;

const ROWS: &str = "select message_id, count(*) from torture_effect group by message_id";
const REFUSED_BY_INBOX: &str = "select count(*) from postrider_inbox_refused";
const REFUSED: &str = "select count(*) from torture_refused";
const COUNTS: &str = "\
select collection || '/' || name, (json->>'state')::bigint from postrider_document
 where collection in ('effects', 'outputs')";
const TOKENS: &str = "select count(*) from postrider_document where collection = 'tokens'";
const CURSORS: &str = "select count(*) from postrider_inbox_cursor";
/// Entities with something to send, and tokens that are not valid yet.
const UNFINISHED: &str = "\
select count(*) from postrider_document
 where collection in ('effects', 'outputs') and due is not null
    or collection = 'tokens' and json->>'state' = 'pending'";

/// The effects that each message, or each entity, has had, and what else there is.
pub(super) async fn effects(place: &Place) -> Fallible<Effects> {
    let client = connect(&place.url).await?;
    let number = async |statement: &str| -> Fallible<u64> {
        Ok(u64::try_from(client.query_one(statement, &[]).await?.get::<_, i64>(0))?)
    };
    let mut counts = BTreeMap::new();
    match place.kind {
        ConsumerKind::Inbox | ConsumerKind::Cursor => {
            for row in client.query(ROWS, &[]).await? {
                let (id, count): (Uuid, i64) = (row.get(0), row.get(1));
                counts.insert(id.to_string(), u64::try_from(count)?);
            }
        }
        ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
            for row in client.query(COUNTS, &[]).await? {
                let (name, count): (String, Option<i64>) = (row.get(0), row.get(1));
                counts.insert(name, u64::try_from(count.unwrap_or_default())?);
            }
        }
    }
    // An entity that was only touched has had no effect.
    counts.retain(|_, count| *count > 0);
    let refused = match place.kind {
        ConsumerKind::Inbox | ConsumerKind::Cursor => number(REFUSED_BY_INBOX).await?,
        ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => number(REFUSED).await?,
    };
    let tokens = if place.kind == ConsumerKind::Token { number(TOKENS).await? } else { 0 };
    let cursors = if place.kind == ConsumerKind::Cursor { number(CURSORS).await? } else { 0 };
    Ok(Effects { counts, refused, tokens, cursors, ..Effects::default() })
}

/// How much the processors left that is to be finished.
pub(super) async fn unfinished(place: &Place) -> Fallible<i64> {
    Ok(match place.kind {
        ConsumerKind::Inbox | ConsumerKind::Cursor => 0,
        ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
            connect(&place.url).await?.query_one(UNFINISHED, &[]).await?.get(0)
        }
    })
}

/// What the effects of this message count for, in each stage that it goes through.
pub fn counted_for(kind: ConsumerKind, id: Uuid) -> Vec<String> {
    let in_entity = |stage: &Stage| format!("{}/{}", stage.name(), entity(id));
    match kind {
        ConsumerKind::Inbox | ConsumerKind::Cursor => vec![id.to_string()],
        ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
            let goes_through = |stage: &&Stage| **stage == Stage::First || is_passed_on(id);
            kind.stages().iter().filter(goes_through).map(in_entity).collect()
        }
    }
}
