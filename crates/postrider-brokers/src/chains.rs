//! The order of a batch: one message of a key at a time, different keys at once.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream;
use futures_util::{FutureExt, StreamExt};
use postrider_core::{Outgoing, Published};

/// Sends a batch, up to `concurrency` messages at once, and returns one result per message in the batch's order.
///
/// The messages of one key go one after another; after one that was not accepted, or once `patience` has passed, the
/// later ones of its key are [`Published::NotSent`]. So a call takes at most `patience` and one more `send`, for as
/// many keys as there may be at once.
pub(crate) async fn publish<'a, F>(
    batch: &'a [Outgoing],
    concurrency: usize,
    patience: Duration,
    send: impl Fn(&'a Outgoing) -> F + Sync,
) -> Vec<Published>
where
    F: Future<Output = Published> + Send,
{
    // One of these takes kilobytes: it is put where it stays.
    let mut sending: Vec<BoxFuture<'_, Vec<(usize, Published)>>> = Vec::with_capacity(batch.len());
    for chain in chains(batch) {
        sending.push(one_after_another(chain, patience, &send).boxed());
    }
    let mut answers: Vec<(usize, Published)> = Vec::with_capacity(batch.len());
    let mut chains = stream::iter(sending).buffer_unordered(concurrency);
    while let Some(results) = chains.next().await {
        answers.extend(results);
    }
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, result)| result).collect()
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
fn chains(batch: &[Outgoing]) -> Vec<Vec<(usize, &Outgoing)>> {
    let mut chains: Vec<Vec<(usize, &Outgoing)>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(batch.len());
    for entry in batch.iter().enumerate() {
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
