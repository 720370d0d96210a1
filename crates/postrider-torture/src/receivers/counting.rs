//! The effect in a store of documents: messages are counted in entities, and one of four is passed on.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::{self, BrokerConfig};
use postrider::documents;
use postrider::{
    Delivery, DestinationTemplate, EntityKey, Handler, Invalid, KnownIds, Message, Outputs, Processor,
    ProcessorBuilder, Tokens,
};
use uuid::Uuid;

use super::stage::{OUTPUT, Stage};
use super::{ConsumerKind, Place};
use crate::Fallible;

/// The topic of a message that has its entity written, and no effect.
pub const TOUCH: &str = "touch";
/// How many entities there are.
pub const ENTITIES: u16 = 1024;
/// One message of so many has an output.
const PASSED_ON: u8 = 4;
/// For how long ids are kept: longer than any run.
pub const KEPT: Duration = Duration::from_secs(86_400);
/// A message that was committed and not finished is left to its own next delivery for so long.
const RESUMES: Duration = Duration::from_secs(3);
/// A token that is not valid is looked at when it is so old.
const SWEPT: Duration = Duration::from_secs(2);

/// Counts.
pub struct Counting(Stage);

impl Handler for Counting {
    type State = u64;
    type Error = Invalid;

    fn entity(&self, message: &Delivery) -> EntityKey {
        match (self.0, &message.message.key) {
            // An output has its key from the message that it comes from.
            (Stage::Second, Some(key)) => EntityKey::new(key.as_str()),
            (Stage::First, _) | (Stage::Second, None) => EntityKey::new(entity(message.id().0)),
        }
    }

    async fn handle(&self, count: &mut u64, message: &Delivery, out: &mut Outputs) -> Result<(), Invalid> {
        if message.message.topic.as_str() == TOUCH {
            return Ok(());
        }
        *count += 1;
        let id = message.id().0;
        if self.0 == Stage::First && is_passed_on(id) {
            out.send(Message::new(OUTPUT, "").key(entity(id)))?;
        }
        Ok(())
    }
}

/// The entity of a message, by its last bytes.
pub fn entity(id: Uuid) -> u16 {
    let [.., high, low] = *id.as_bytes();
    u16::from_be_bytes([high, low]) % ENTITIES
}

/// Whether a message has an output.
pub fn is_passed_on(id: Uuid) -> bool {
    id.as_bytes()[13].is_multiple_of(PASSED_ON)
}

/// The processor of a stage, to be built.
///
/// # Errors
/// When store or broker cannot be opened.
pub async fn processor(place: &Place, stage: Stage) -> Fallible<ProcessorBuilder<Counting>> {
    let store = documents::open(&place.url).await?;
    let broker = brokers::open(&BrokerConfig::new(place.broker.as_str()))?;
    let builder = Processor::builder(stage.name(), Arc::clone(&store), Counting(stage))
        .collection(stage.name())
        .keep(KEPT)
        .resume_after(RESUMES)
        .broker(broker, DestinationTemplate::topic());
    Ok(match place.kind {
        ConsumerKind::KnownIds => builder.known_ids(KnownIds::new(store, KEPT)?),
        ConsumerKind::Token => builder.tokens(tokens(place).await?),
        ConsumerKind::Inbox | ConsumerKind::Processor | ConsumerKind::Cursor => builder,
    })
}

/// The tokens of writers and both stages.
///
/// # Errors
/// When the store cannot be opened.
pub async fn tokens(place: &Place) -> Fallible<Tokens> {
    Ok(Tokens::new(documents::open(&place.url).await?)?.sweep_after(SWEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_of_four_is_passed_on_and_every_entity_has_its_share() {
        let ids: Vec<Uuid> = (0..20_000).map(|_| Uuid::now_v7()).collect();
        let passed_on = ids.iter().filter(|id| is_passed_on(**id)).count();
        assert!((4_000..6_000).contains(&passed_on), "{passed_on}");
        let low = ids.iter().filter(|id| entity(**id) < ENTITIES / 2).count();
        assert!((9_000..11_000).contains(&low), "{low}");
    }
}
