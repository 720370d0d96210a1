//! States with numbers that JSON cannot have, or that are easily read as their neighbour.

use std::sync::Arc;

use postrider::{Delivery, EntityKey, Handler, Message, Outputs, Processed, Processor};
use serde::{Deserialize, Serialize};

use crate::scene::{DAY, Mode, Scene};

/// Keeps the number that came last.
struct Scales;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Weight {
    grams: f64,
}

impl Handler for Scales {
    type State = Weight;
    type Error = String;

    fn entity(&self, _: &Delivery) -> EntityKey {
        EntityKey::new("7")
    }

    async fn handle(&self, weight: &mut Weight, message: &Delivery, _: &mut Outputs) -> Result<(), String> {
        let text = String::from_utf8_lossy(&message.message.payload);
        weight.grams = text.parse().map_err(|_| format!("{text:?} is no number"))?;
        Ok(())
    }
}

async fn processor_and_scene() -> (Processor<Scales>, Scene) {
    let scene = Scene::new(Mode::InDocument);
    let builder = Processor::builder("scales", Arc::clone(&scene.store), Scales).keep(7 * DAY);
    (builder.build().unwrap(), scene)
}

fn delivery(text: &str) -> Delivery {
    Message::new("weighed", text.to_owned()).key(7).into()
}

async fn grams(processor: &Processor<Scales>) -> f64 {
    processor.state(&EntityKey::new("7")).await.unwrap().unwrap().grams
}

#[tokio::test]
async fn a_state_that_json_cannot_have_fails_its_message_and_leaves_the_state_as_it_was() {
    let (processor, _scene) = processor_and_scene().await;
    assert!(matches!(processor.process(&delivery("1.5")).await, Processed::Applied));
    for text in ["NaN", "inf"] {
        let processed = processor.process(&delivery(text)).await;
        assert!(processed.to_string().contains("cannot be kept as JSON"), "{processed}");
        assert!((grams(&processor).await - 1.5).abs() < f64::EPSILON);
    }
    assert!(matches!(processor.process(&delivery("2.5")).await, Processed::Applied));
}

#[tokio::test]
async fn a_float_is_read_as_it_was_written() {
    let (processor, _scene) = processor_and_scene().await;
    let mut bits = 0x3ff0_0000_0000_0001_u64;
    for _ in 0..300 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(bits);
        if !number.is_finite() {
            continue;
        }
        let processed = processor.process(&delivery(&number.to_string())).await;
        assert!(matches!(processed, Processed::Applied), "{processed}");
        assert_eq!(grams(&processor).await.to_bits(), number.to_bits(), "{number}");
    }
}
