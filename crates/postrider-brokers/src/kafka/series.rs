//! A series: what stands behind an accepted message of its key, handed over at once.
//!
//! **Why nothing of it is stored behind what failed.** Its requests are numbered, and a server that [knows](Line::known)
//! their producer in a partition takes none that does not follow the last one that it stored. So where the producer is not
//! known, a single message goes first. librdkafka would number those behind a refused one anew and send them again: a
//! refusal ends the producer instead (`enable.gapless.guarantee`; librdkafka asks for that before each request, in
//! `rd_kafka_toppar_producer_serve`). No message times out by itself (`message.timeout.ms` 0), because what is behind it
//! would be numbered anew then too: when the time of a series is up, its producer is given up, and one that was given up
//! takes nothing more.
//!
//! **Why not from the first message of a key.** A producer that ends takes along what others have with it. So the first
//! message goes by the ordinary producer, where what is refused, or waits for a partition without a leader, harms nobody.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::DeliveryFuture;
use tokio::time::{Instant, sleep, sleep_until};

use super::line::Line;
use super::window::{Delivered, delivered};

/// The fewest messages behind an accepted one that are sent as a series: a single one is as fast by the ordinary producer.
pub(super) const SHORTEST: usize = 2;

/// How often a series looks whether its producer failed for good.
const LOOK: Duration = Duration::from_millis(50);

/// What became of the messages of a series for one topic, in its order. When its time is up, its producer is given up.
pub(super) async fn answers(
    line: Arc<Line>,
    topic: String,
    sent: Vec<(usize, DeliveryFuture)>,
    until: Instant,
) -> Vec<(usize, Delivered)> {
    let (indexes, deliveries): (Vec<usize>, Vec<DeliveryFuture>) = sent.into_iter().unzip();
    let mut all = pin!(join_all(deliveries));
    let mut is_late = false;
    let reports = loop {
        tokio::select! {
            reports = &mut all => break reports,
            () = sleep_until(until), if !is_late => {
                is_late = true;
                line.give_up();
            }
            () = sleep(LOOK) => {
                if line.is_over() {
                    line.give_back();
                }
            }
        }
    };
    let told: Vec<Delivered> = reports
        .into_iter()
        .map(|report| match delivered(report) {
            Err(code) if is_late && is_given_back(code) => Err(Some(RDKafkaErrorCode::MessageTimedOut)),
            delivered => delivered,
        })
        .collect();
    if let Some(partition) = told.iter().find_map(|delivered| delivered.ok()) {
        line.known().note((topic, partition), (), Instant::now());
    }
    indexes.into_iter().zip(told).collect()
}

/// Whether a message comes back because its producer ended: on its way, or not.
fn is_given_back(code: Option<RDKafkaErrorCode>) -> bool {
    matches!(code, None | Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight))
}
