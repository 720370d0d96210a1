//! The crash matrix: a relay dies at every call that it makes to a store or a broker, and a second one takes over.
//!
//! The testkit knows no relay, so the test hands in how to run one. What is promised (P1 to P4) is checked here.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::join_all;
use postrider_core::{Message, MessageId, Outgoing};

use crate::dying::Moment;

/// What the matrix found.
#[derive(Debug, Default)]
pub struct Matrix {
    /// Crash points hit, by the name of the call and the moment.
    pub points: BTreeMap<(&'static str, &'static str), usize>,
    /// Messages delivered more than once, over all crashes.
    pub repeats: usize,
}

impl Matrix {
    /// The number of crash points.
    pub fn hit(&self) -> usize {
        self.points.values().sum()
    }
}

/// One crash: what was enqueued, in order, and what the broker has after the second relay is done.
#[derive(Debug)]
pub struct Outcome {
    /// The call in which the first relay died; none when it reached its end alive.
    pub died_in: Option<&'static str>,
    /// What was committed, in order.
    pub committed: Vec<Message>,
    /// What the broker accepted, in order, repeats included.
    pub delivered: Vec<Outgoing>,
    /// Rows left in the outbox.
    pub left: usize,
}

/// Crashes that are played at the same time.
const AT_ONCE: usize = 8;

/// Runs `crash(call, moment)` for every `stride`-th call at both moments, several at once, until a whole row of runs
/// reaches its end alive, and checks each outcome.
///
/// # Panics
/// When a promise is broken, with the call and the moment.
pub async fn run(stride: usize, crash: impl AsyncFn(usize, Moment) -> Outcome) -> Matrix {
    let mut matrix = Matrix::default();
    for (moment, name) in [(Moment::Before, "before"), (Moment::After, "after")] {
        for row in 0.. {
            let calls: Vec<_> = (row * AT_ONCE..(row + 1) * AT_ONCE).map(|place| place * stride.max(1)).collect();
            let outcomes = join_all(calls.iter().map(|call| crash(*call, moment))).await;
            let mut died = false;
            for (call, outcome) in calls.iter().zip(outcomes) {
                let at = format!("call {call} ({}), {name} its effect", outcome.died_in.unwrap_or("none"));
                matrix.repeats += check(&outcome, &at);
                if let Some(died_in) = outcome.died_in {
                    died = true;
                    *matrix.points.entry((died_in, name)).or_insert(0) += 1;
                }
            }
            if !died {
                break;
            }
        }
    }
    matrix
}

/// Checks P1 to P4 and returns the number of repeats.
fn check(outcome: &Outcome, at: &str) -> usize {
    assert_eq!(outcome.left, 0, "{at}: rows are left in the outbox");
    let committed: HashMap<MessageId, &Message> = outcome.committed.iter().map(|m| (m.id, m)).collect();
    let mut times: HashMap<MessageId, usize> = HashMap::new();
    let mut firsts: HashMap<String, Vec<MessageId>> = HashMap::new();
    for outgoing in &outcome.delivered {
        let message = &outgoing.message;
        let original = committed.get(&message.id);
        let original = original.unwrap_or_else(|| panic!("{at}: {} was never committed", message.id));
        assert_eq!(
            (&original.topic, &original.key, &original.payload, &original.headers),
            (&message.topic, &message.key, &message.payload, &message.headers),
            "{at}: a delivery differs from what was committed"
        );
        let seen = times.entry(message.id).or_insert(0);
        *seen += 1;
        if *seen == 1
            && let Some(key) = &message.key
        {
            firsts.entry(key.to_string()).or_default().push(message.id);
        }
    }
    for message in &outcome.committed {
        assert!(times.contains_key(&message.id), "{at}: {} ({:?}) was lost", message.id, message.payload);
    }
    for (key, delivered) in firsts {
        let order: Vec<_> = outcome
            .committed
            .iter()
            .filter(|message| message.deliver_at.is_none())
            .filter(|message| message.key.as_ref().is_some_and(|own| own.as_str() == key))
            .map(|message| message.id)
            .collect();
        let delivered: Vec<_> = delivered.into_iter().filter(|id| order.contains(id)).collect();
        assert_eq!(delivered, order, "{at}: the order of key {key} is broken");
    }
    times.values().map(|times| times - 1).sum()
}
