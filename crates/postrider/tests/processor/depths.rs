//! States that are nested deeper than what is read again may be.

use std::sync::Arc;

use postrider::{Delivery, EntityKey, Handler, Message, Outputs, Processed, Processor};
use serde::{Deserialize, Serialize};

use crate::scene::{Mode, Scene};

/// Keeps a list in a list, as many as the message says.
struct Nest;

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Egg(Vec<Egg>);

impl Handler for Nest {
    type State = Egg;
    type Error = String;

    fn entity(&self, _: &Delivery) -> EntityKey {
        EntityKey::new("7")
    }

    async fn handle(&self, egg: &mut Egg, message: &Delivery, _: &mut Outputs) -> Result<(), String> {
        *egg = nested(String::from_utf8_lossy(&message.message.payload).parse().map_err(|_| "no number")?);
        Ok(())
    }
}

fn nested(levels: usize) -> Egg {
    (1..levels).fold(Egg::default(), |inner, _| Egg(vec![inner]))
}

fn delivery(levels: usize) -> Delivery {
    Message::new("nested", levels.to_string()).key(7).into()
}

#[tokio::test]
async fn a_state_that_could_not_be_read_again_fails_its_message_and_leaves_the_state_as_it_was() {
    let scene = Scene::new(Mode::InDocument);
    let nest = Processor::builder("nest", Arc::clone(&scene.store), Nest).build().unwrap();
    // The deepest that a reader of JSON takes, with the document around it.
    assert!(matches!(nest.process(&delivery(126)).await, Processed::Applied));
    assert_eq!(nest.state(&EntityKey::new("7")).await.unwrap(), Some(nested(126)));
    for levels in [127, 128, 300] {
        let processed = nest.process(&delivery(levels)).await;
        assert!(
            matches!(&processed, Processed::Failed(error) if error.to_string().contains("126 levels")),
            "{processed}"
        );
    }
    assert!(matches!(nest.process(&delivery(2)).await, Processed::Applied));
    assert_eq!(nest.state(&EntityKey::new("7")).await.unwrap(), Some(nested(2)));
}

/// Keeps the number that came last, and nothing around it.
struct Gauge;

impl Handler for Gauge {
    type State = f64;
    type Error = String;

    fn entity(&self, _: &Delivery) -> EntityKey {
        EntityKey::new("7")
    }

    async fn handle(&self, gauge: &mut f64, message: &Delivery, _: &mut Outputs) -> Result<(), String> {
        *gauge = String::from_utf8_lossy(&message.message.payload).parse().map_err(|_| "no number")?;
        Ok(())
    }
}

#[tokio::test]
async fn a_state_that_would_be_read_as_the_default_fails_its_message() {
    let scene = Scene::new(Mode::InDocument);
    let gauge = Processor::builder("gauge", Arc::clone(&scene.store), Gauge).build().unwrap();
    let said = |text: &str| Message::new("said", text.to_owned()).key(7).into();
    assert!(matches!(gauge.process(&said("1.5")).await, Processed::Applied));
    let processed = gauge.process(&said("NaN")).await;
    assert!(processed.to_string().contains("read as the default"), "{processed}");
    assert_eq!(gauge.state(&EntityKey::new("7")).await.unwrap().map(f64::to_bits), Some(1.5_f64.to_bits()));
}
