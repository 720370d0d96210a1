//! The order of a batch: one message of a key at a time, different keys at once.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use postrider_core::{Outgoing, Published};

/// A batch in two parts: messages whose key no other one of the batch has, and the chains of the others.
#[cfg(feature = "nats")]
pub(crate) struct Parted<'a> {
    /// Each with its place in the batch.
    pub(crate) alone: Vec<(usize, &'a Outgoing)>,
    /// The messages of one key together and in order.
    pub(crate) chained: Vec<Vec<(usize, &'a Outgoing)>>,
}

/// Parts a batch.
#[cfg(feature = "nats")]
pub(crate) fn part(batch: &[Outgoing]) -> Parted<'_> {
    let mut of_key: HashMap<&str, usize> = HashMap::with_capacity(batch.len());
    for key in batch.iter().filter_map(|outgoing| outgoing.message.key.as_ref()) {
        *of_key.entry(key.as_str()).or_default() += 1;
    }
    let is_alone = |outgoing: &Outgoing| match &outgoing.message.key {
        None => true,
        Some(key) => of_key.get(key.as_str()) == Some(&1),
    };
    let (alone, others): (Vec<_>, Vec<_>) = batch.iter().enumerate().partition(|(_, outgoing)| is_alone(outgoing));
    Parted { alone, chained: chains(others) }
}

/// Sends a batch, up to `concurrency` messages at once, and returns one result per message in the batch's order.
///
/// The messages of one key go one after another; after one that was not accepted, or once `patience` has passed, the
/// later ones of its key are [`Published::NotSent`]. So a call takes at most `patience` and one more `send`, for as
/// many keys as there may be at once.
#[cfg(feature = "http")]
pub(crate) async fn publish<'a, F>(
    batch: &'a [Outgoing],
    concurrency: usize,
    patience: Duration,
    send: impl Fn(&'a Outgoing) -> F,
) -> Vec<Published>
where
    F: Future<Output = Published>,
{
    let mut answers = send_all(chains(batch.iter().enumerate()), concurrency, patience, send).await;
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, result)| result).collect()
}

/// Sends chains, up to `concurrency` at once; the results come in any order, each with its place in the batch.
pub(crate) async fn send_all<'a, F>(
    chains: Vec<Vec<(usize, &'a Outgoing)>>,
    concurrency: usize,
    patience: Duration,
    send: impl Fn(&'a Outgoing) -> F,
) -> Vec<(usize, Published)>
where
    F: Future<Output = Published>,
{
    let mut sending = Vec::new();
    for chain in chains {
        sending.push(one_after_another(chain, patience, &send));
    }
    stream::iter(sending).buffer_unordered(concurrency).concat().await
}

async fn one_after_another<'a, F>(
    chain: Vec<(usize, &'a Outgoing)>,
    patience: Duration,
    send: &impl Fn(&'a Outgoing) -> F,
) -> Vec<(usize, Published)>
where
    F: Future<Output = Published>,
{
    let began = Instant::now();
    let mut results: Vec<(usize, Published)> = Vec::with_capacity(chain.len());
    let mut broken = false;
    for (index, outgoing) in chain {
        let late = !results.is_empty() && began.elapsed() > patience;
        let result = if broken || late { Published::NotSent } else { send(outgoing).await };
        broken |= !matches!(result, Published::Accepted(_));
        results.push((index, result));
    }
    results
}

/// The messages of one key together and in order, with their places in the batch; one without a key stands alone.
fn chains<'a>(batch: impl IntoIterator<Item = (usize, &'a Outgoing)>) -> Vec<Vec<(usize, &'a Outgoing)>> {
    let mut chains: Vec<Vec<(usize, &Outgoing)>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for entry in batch {
        let place = match &entry.1.message.key {
            None => chains.len(),
            Some(key) => *places.entry(key.as_str()).or_insert(chains.len()),
        };
        match chains.get_mut(place) {
            Some(chain) => chain.push(entry),
            None => chains.push(vec![entry]),
        }
    }
    chains
}
