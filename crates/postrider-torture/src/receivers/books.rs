//! What effects there are.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::ConsumerKind;
use super::hands::{CONSUMER, connect, entity};
use crate::Fallible;
use crate::record::Effects;

const ROWS: &str = "select message_id, count(*) from torture_effect group by message_id";
const REFUSED: &str = "select count(*) from postrider_inbox_refused";
const COUNTS: &str = "select name, (json->>'state')::bigint from postrider_document where collection = $1";

/// The effects that each message, or each entity, has had.
pub async fn effects(kind: ConsumerKind, url: &str) -> Fallible<Effects> {
    let client = connect(url).await?;
    let (mut counts, mut refused) = (BTreeMap::new(), None);
    match kind {
        ConsumerKind::Inbox => {
            for row in client.query(ROWS, &[]).await? {
                let (id, count): (Uuid, i64) = (row.get(0), row.get(1));
                counts.insert(id.to_string(), u64::try_from(count)?);
            }
            refused = Some(u64::try_from(client.query_one(REFUSED, &[]).await?.get::<_, i64>(0))?);
        }
        ConsumerKind::Processor | ConsumerKind::KnownIds => {
            for row in client.query(COUNTS, &[&CONSUMER]).await? {
                let (name, count): (String, Option<i64>) = (row.get(0), row.get(1));
                counts.insert(name, u64::try_from(count.unwrap_or_default())?);
            }
        }
    }
    Ok(Effects { counts, refused, kills: 0 })
}

/// What an effect of this message counts for.
pub fn counted_for(kind: ConsumerKind, id: Uuid) -> String {
    match kind {
        ConsumerKind::Inbox => id.to_string(),
        ConsumerKind::Processor | ConsumerKind::KnownIds => entity(id).to_string(),
    }
}
