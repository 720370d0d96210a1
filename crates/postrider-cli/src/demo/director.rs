//! Runs the demo: lets the script happen, looks at everybody, and shows what it sees.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use postrider_core::{DeadFilter, MessageId, Operator, Position, RowId};

use super::consumer::Consumer;
use super::faults::Faults;
use super::numbers::{grouped, latency};
use super::picture::{Ink, Moment, clock};
use super::record::Record;
use super::relays::Relays;
use super::screen::Screen;
use super::script::{Act, outage, script};
use super::service::Service;
use crate::failure::{Failure, Outcome};

/// How often it looks.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// The time that a sample of the rate stands for.
const SAMPLE: Duration = Duration::from_millis(500);
/// Counts of the outbox are exact up to here.
const BOUND: u32 = 100_000;
/// How many answers must be under way when a relay is killed.
const UNDER_WAY: usize = 3;
/// How long to wait for them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The outbox in numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Outbox {
    backlog: u64,
    retrying: u64,
    set_aside: u64,
    dead: u64,
}

/// Everybody, and how far the demo has come.
#[derive(Debug)]
pub(super) struct Director {
    pub(super) began: Instant,
    pub(super) length: Duration,
    pub(super) expected: u64,
    pub(super) service: Service,
    pub(super) consumer: Consumer,
    pub(super) relays: Relays,
    pub(super) operator: Box<dyn Operator>,
    pub(super) screen: Screen,
    script: VecDeque<(Duration, Act)>,
    /// Since when a relay is to be killed as soon as enough answers are under way.
    to_be_killed: Option<Instant>,
    /// A relay that was started after a crash and has no lanes yet.
    heir: Option<String>,
    in_doubt: Vec<std::collections::HashSet<MessageId>>,
    outbox: Outbox,
    rates: Vec<u64>,
    sampled: (Instant, u64),
}

/// Who takes part.
#[derive(Debug)]
pub(super) struct Cast {
    /// The order service.
    pub(super) service: Service,
    /// The consumer.
    pub(super) consumer: Consumer,
    /// The relays.
    pub(super) relays: Relays,
    /// The operator's side of the outbox.
    pub(super) operator: Box<dyn Operator>,
    /// Where it is shown.
    pub(super) screen: Screen,
}

impl Director {
    /// Ready to begin.
    pub(super) fn new(began: Instant, length: Duration, expected: u64, cast: Cast) -> Self {
        let Cast { service, consumer, relays, operator, screen } = cast;
        Self {
            began,
            length,
            expected,
            service,
            consumer,
            relays,
            operator,
            screen,
            script: script(length).into(),
            to_be_killed: None,
            heir: None,
            in_doubt: Vec::new(),
            outbox: Outbox::default(),
            rates: Vec::new(),
            sampled: (began, 0),
        }
    }

    /// One look: what is due happens, and the picture is renewed.
    ///
    /// # Errors
    /// When a relay ended with an error, or the outbox cannot be read.
    pub(super) async fn turn(&mut self) -> Outcome<()> {
        while let Some((_, act)) = self.script.pop_front_if(|(at, _)| self.began.elapsed() >= *at) {
            self.perform(act).await?;
        }
        self.kill_when_ready().await?;
        self.hear_the_relays().await?;
        self.count().await?;
        self.sample();
        let moment = self.moment();
        let ink = Ink(self.screen.has_colours());
        self.screen.show(|| moment.lines(ink), || moment.line());
        Ok(())
    }

    /// Nothing of the script happens any more; the consumer works.
    pub(super) fn end_the_script(&mut self) {
        if self.script.drain(..).any(|(_, act)| act == Act::Up) {
            self.consumer.misbehave(Faults::come_back);
        }
    }

    /// Whether everything is delivered, but for dead letters.
    pub(super) fn all_is_done(&self) -> bool {
        self.outbox.backlog == 0 && self.to_be_killed.is_none()
    }

    /// Asks the operator's side for what is left, and everybody else for what they wrote down.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) async fn record(&mut self) -> Outcome<Record> {
        self.count().await?;
        let all = Position { after: RowId(0), limit: u32::MAX };
        let dead = self.operator.dead(&DeadFilter::default(), all).await.map_err(|error| Failure::store(&error))?;
        let (deliveries, unsigned) = self.consumer.record();
        Ok(Record {
            orders: self.service.orders()?,
            rolled_back: self.service.rolled_back(),
            deliveries,
            in_doubt: self.in_doubt.clone(),
            shipped: self.consumer.shipped()?,
            dead: dead.into_iter().map(|row| row.message.id).collect(),
            waiting: self.outbox.backlog,
            unsigned,
        })
    }

    async fn perform(&mut self, act: Act) -> Outcome<()> {
        match act {
            Act::BadOrder => {
                self.service.place_a_bad_order();
                self.say("an order of 0 pieces comes in; the consumer can only refuse it");
            }
            Act::TooMany => {
                self.consumer.misbehave(Faults::ask_for_patience);
                self.say("the consumer asks for patience: 429, Retry-After: 1");
            }
            Act::Down => {
                self.consumer.misbehave(Faults::go_down);
                self.say(&format!("the consumer goes down for {}: 503 to everything", latency(outage(self.length))));
            }
            Act::Up => {
                self.consumer.misbehave(Faults::come_back);
                self.say("the consumer is back");
            }
            Act::HandOver => {
                let name = self.relays.hand_over().await?;
                self.say(&format!("{name} starts and the one before is asked to stop, as in a rolling update"));
            }
            Act::Crash => {
                self.consumer.misbehave(Faults::slow_down);
                self.to_be_killed = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// A relay that is killed between two messages would show nothing: wait until some are under way.
    async fn kill_when_ready(&mut self) -> Outcome<()> {
        let under_way = self.consumer.late_answers();
        let Some(since) = self.to_be_killed.filter(|since| under_way >= UNDER_WAY || since.elapsed() > PATIENCE) else {
            return Ok(());
        };
        tracing::debug!(waited = ?since.elapsed(), under_way, "killing the relay");
        self.to_be_killed = None;
        let Some(killed) = self.relays.crash().await else { return Ok(()) };
        self.in_doubt.push(self.service.in_outbox()?);
        self.consumer.misbehave(Faults::speed_up);
        let heir = self.relays.start().await?;
        self.say(&format!(
            "{killed} is killed with {under_way} answers under way; {heir} waits until its lease has run out"
        ));
        self.heir = Some(heir);
        Ok(())
    }

    async fn hear_the_relays(&mut self) -> Outcome<()> {
        for (name, summary) in self.relays.ended().await? {
            let (delivered, left) = (grouped(summary.delivered), summary.abandoned);
            self.say(&format!("{name} has stopped gracefully: delivered {delivered}, left in flight {left}"));
        }
        if let Some(heir) = self.heir.take_if(|_| self.relays.are_relaying()) {
            self.say(&format!("{heir} has taken over"));
        }
        Ok(())
    }

    async fn count(&mut self) -> Outcome<()> {
        let status = self.operator.status(BOUND).await.map_err(|error| Failure::store(&error))?;
        let dead = status.dead.value();
        for _ in self.outbox.dead..dead {
            self.say("an order is given up on: a dead letter; that customer's next orders go on");
        }
        self.outbox = Outbox {
            backlog: status.pending.value(),
            retrying: status.retrying.value(),
            set_aside: status.set_aside.value(),
            dead,
        };
        Ok(())
    }

    fn sample(&mut self) {
        if self.sampled.0.elapsed() >= SAMPLE {
            let taken = self.consumer.seen().taken;
            self.rates.push(taken - self.sampled.1);
            self.sampled = (Instant::now(), taken);
        }
    }

    fn moment(&self) -> Moment {
        let written = self.service.written();
        Moment {
            elapsed: self.began.elapsed(),
            length: self.length,
            expected: self.expected,
            committed: written.committed,
            rolled_back: written.rolled_back,
            slowest: written.slowest,
            seen: self.consumer.seen(),
            backlog: self.outbox.backlog,
            retrying: self.outbox.retrying,
            set_aside: self.outbox.set_aside,
            dead: self.outbox.dead,
            retried: self.relays.retried(),
            relays: self.relays.standing(),
            rates: self.rates.clone(),
        }
    }

    fn say(&mut self, event: &str) {
        let line = format!("{}  {event}", clock(self.began.elapsed()));
        self.screen.say(&line);
    }
}
