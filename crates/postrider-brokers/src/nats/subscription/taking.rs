//! One take: the consumer is found or made, and asked until something is there or a moment is over.

use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Result};

use super::durable::{self, Found};
use super::incarnations::{Incarnations, KNOWN};
use super::pull::{Bound, Came, Pull, Step};
use super::question::Desk;
use super::reading::Reading;
use super::stream;
use crate::nats::settings::Settings;

/// How long a take waits for the first message.
const MOMENT: Duration = Duration::from_secs(1);
/// How long a take that has something waits for more of its request.
const LULL: Duration = Duration::from_millis(50);
/// The shortest time between two requests where the first brought nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where others had asked for what there was: all of them are to have a share.
const TURN: Duration = Duration::from_millis(10);
/// What one take leaves to the next.
pub(super) struct Taking {
    bound: Option<Bound>,
    /// Whether the consumer has been found or made before.
    was_there: bool,
    pull: Pull,
}

impl Taking {
    pub(super) fn new(incarnations: Incarnations) -> Self {
        Self { bound: None, was_there: false, pull: Pull::new(incarnations) }
    }

    /// Takes at most so many messages.
    ///
    /// # Errors
    /// What keeps the consumer from being found, made or asked.
    pub(super) async fn take(
        &mut self,
        settings: &Settings,
        reading: &Reading,
        desk: &mut Desk<'_>,
        at_most: usize,
    ) -> Result<Vec<Came>> {
        // What came is known to be ours from the moment in which it was asked for; so that moment is short beside the time for
        // which it is ours, and what is nearly another's is left to come again.
        let (moment, stale) = (MOMENT.min(reading.ack_wait / 4), stale(reading));
        let until = Instant::now() + moment;
        let (mut asked, mut lulled, mut gone, mut pause) = (false, false, None, PAUSE);
        loop {
            if lulled || !self.pull.is_asking() || self.pull.len() >= at_most {
                let taken = self.pull.take(at_most, stale);
                if !taken.is_empty() {
                    return Ok(taken);
                }
            }
            self.bind(settings, reading, desk).await?;
            let Some(bound) = &self.bound else { return Ok(Vec::new()) };
            if !self.pull.is_asking() {
                let left = until.saturating_duration_since(Instant::now());
                if asked && self.pull.since_asked() < PAUSE {
                    tokio::time::sleep(pause.min(left)).await;
                }
                let left = until.saturating_duration_since(Instant::now());
                if asked && left < TURN {
                    return gone.map_or(Ok(Vec::new()), Err);
                }
                let client = desk.context.client();
                self.pull.ask(&client, &desk.watch, bound, at_most, (left, settings.timeout)).await?;
                asked = true;
            }
            let first = self.pull.len() == 0;
            let wait = Instant::now() + if first { moment + settings.timeout } else { LULL };
            let step = self.pull.next(&mut desk.watch, &bound.next, wait).await;
            lulled = !first && Instant::now() >= wait;
            match step {
                Ok(Step::On) => {}
                Ok(Step::Ended | Step::TooLarge) => pause = PAUSE,
                Ok(Step::Busy) => pause = TURN,
                Ok(Step::Gone(words)) => {
                    if words.to_ascii_lowercase().contains("deleted") {
                        self.pull.incarnations.gone();
                    }
                    gone = Some(unfit(settings, reading, bound, ErrorKind::Unavailable, &words));
                    self.bound = None;
                }
                Ok(Step::Refused(words)) => {
                    let error = unfit(settings, reading, bound, ErrorKind::Config, &words);
                    self.bound = None;
                    return Err(error);
                }
                Ok(Step::Silent) if first => {
                    let error = unfit(settings, reading, bound, ErrorKind::Unavailable, "no word of it in time");
                    self.bound = None;
                    // Of a consumer that was deleted meanwhile, an old server says nothing to those who wait.
                    self.bind(settings, reading, desk).await?;
                    return Err(error);
                }
                Err(broken) if first => return Err(desk.broken(&bound.next, &broken)),
                // What came before it is given first.
                Ok(Step::Silent) | Err(_) => lulled = true,
            }
        }
    }

    /// Finds the consumer, or makes it, where that was not done on this connection and lately: somebody may have changed it.
    async fn bind(&mut self, settings: &Settings, reading: &Reading, desk: &mut Desk<'_>) -> Result<()> {
        let losses = desk.watch.losses();
        if self.bound.as_ref().is_some_and(|bound| bound.losses == losses && bound.since.elapsed() < KNOWN) {
            return Ok(());
        }
        self.bound = None;
        let stream = stream::name(settings, reading, desk).await?;
        let consumer = match durable::find(settings, reading, desk, &stream).await? {
            Found::There(consumer) => consumer,
            // Said once, for somebody to see it: who reads everything anew must know why.
            Found::Missing if std::mem::take(&mut self.was_there) => {
                self.pull.incarnations.gone();
                return Err(durable::gone(settings, reading, &stream));
            }
            Found::Missing => durable::make(settings, reading, desk, &stream).await?,
        };
        self.pull.incarnations.seen(&consumer.created);
        self.was_there = true;
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", reading.consumer);
        self.bound = Some(Bound { stream, next, shape: consumer.config, losses, since: Instant::now() });
        Ok(())
    }

    /// Asks for nothing more, and gives what came, is still ours and nobody has taken.
    pub(super) fn leave(&mut self, reading: &Reading) -> Vec<Came> {
        self.pull.leave(stale(reading))
    }
}

/// After how long what came is nearly another's.
fn stale(reading: &Reading) -> Duration {
    reading.ack_wait * 3 / 4
}

fn unfit(settings: &Settings, reading: &Reading, bound: &Bound, kind: ErrorKind, words: &str) -> Error {
    let text = format!(
        "asking the consumer {:?} of the stream {:?} at {} for messages: {words}",
        reading.consumer, bound.stream, settings.shown
    );
    Error::new(kind, text)
}
