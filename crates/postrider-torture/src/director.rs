//! Carries out the plan: each fault in a task of its own, so that they overlap as they come.

use std::sync::Arc;
use std::time::Duration;

use postrider_testkit::proxy::Passage;
use postrider_testkit::servers::process::Signal;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, timeout};

use crate::Fallible;
use crate::fleet::{Fleet, Held, Report, Slot};
use crate::moment::Moment;
use crate::place::broker::Broker;
use crate::place::store::{Numbers, Store};
use crate::plan::{Kind, Plan, Planned};
use crate::record::Recorder;
use crate::ways::Ways;

/// An hour, ahead or behind.
const CLOCK_OFF: i64 = 3600;
/// How long a fault waits for a target that nothing else is being done to.
const WAITS: Duration = Duration::from_secs(10);
/// How long a fault that proves something only in the midst of work waits for it.
const AIMS: Duration = Duration::from_secs(1);

/// Everything that can be hurt.
#[derive(Debug, Clone)]
pub struct Director {
    /// The record.
    pub recorder: Arc<Recorder>,
    /// The relays.
    pub fleet: Arc<Fleet>,
    /// The database.
    pub store: Arc<Store>,
    /// The broker.
    pub broker: Arc<Broker>,
    /// One fault of the database or the broker as a whole at a time.
    pub servers: Arc<tokio::sync::Mutex<()>>,
}

impl Director {
    /// Carries out the plan to its end on this thread, and returns when everything has healed.
    ///
    /// A thread of its own: stopping a server blocks, and nobody else should wait for it.
    ///
    /// # Errors
    /// When there is no runtime to be had.
    pub fn direct(self, plan: Plan) -> Fallible<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(LocalSet::new().run_until(self.carry_out(plan)));
        Ok(())
    }

    async fn carry_out(self, plan: Plan) {
        let mut tasks = JoinSet::new();
        for planned in plan.faults {
            self.recorder.clock.until(planned.at).await;
            let director = self.clone();
            tasks.spawn_local(async move {
                let kind = planned.kind.name();
                if let Err(error) = director.fault(&planned).await {
                    eprintln!("{}: {kind} could not be carried out: {error}", director.recorder.now());
                }
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn fault(&self, planned: &Planned) -> Fallible<()> {
        let (kind, lasts, draw) = (planned.kind, planned.lasts, planned.draw);
        match kind {
            Kind::RelayKill | Kind::RelayTerm | Kind::RelayPause | Kind::RelayClock => {
                let Ok(Some((slot, held))) = timeout(WAITS, self.target(planned)).await else { return Ok(()) };
                self.relay(kind, lasts, draw, &slot, held).await
            }
            Kind::RelayAdded => {
                let Some(slot) = self.fleet.spare() else { return Ok(()) };
                let Some(mut held) = slot.try_hold() else { return Ok(()) };
                let fault = self.recorder.fault(kind, "a further relay".to_owned(), self.in_flight().await);
                self.fleet.start(slot, &mut held, 0)?;
                sleep(lasts).await;
                let from = self.recorder.now();
                self.terminate(slot, &mut held, from).await;
                self.recorder.healed(fault);
                Ok(())
            }
            Kind::StoreCut | Kind::StoreHole | Kind::StoreSlow | Kind::StoreAnswer => {
                let slot = self.any(draw);
                self.network(kind, lasts, draw, &slot, &slot.store).await
            }
            Kind::BrokerCut | Kind::BrokerHole | Kind::BrokerSlow | Kind::BrokerAnswer => {
                let slot = self.any(draw);
                self.network(kind, lasts, draw, &slot, &slot.broker).await
            }
            Kind::WriterCut => {
                let Some(writers) = self.store.writers() else { return Ok(()) };
                let fault = self.recorder.fault(kind, "the application".to_owned(), self.in_flight().await);
                for _ in 0..3 {
                    writers.lose_answer();
                    sleep(Duration::from_millis(30)).await;
                }
                if draw.is_multiple_of(2) {
                    writers.cut();
                }
                self.recorder.healed(fault);
                Ok(())
            }
            Kind::DatabaseKill
            | Kind::DatabaseRestart
            | Kind::DatabaseBackend
            | Kind::DatabaseLock
            | Kind::DatabaseDeadlock
            | Kind::DatabaseNumbers
            | Kind::BrokerRestart
            | Kind::BrokerKill
            | Kind::BrokerPause
            | Kind::BrokerRefuses => {
                let Ok(_alone) = timeout(WAITS, self.servers.lock()).await else { return Ok(()) };
                self.server(kind, lasts, draw).await
            }
        }
    }

    /// A relay that runs and to which nothing else is being done; mostly one that has lanes.
    async fn target(&self, planned: &Planned) -> Option<(Arc<Slot>, Held)> {
        let slots = self.fleet.regular();
        loop {
            let mut candidates = Vec::new();
            for step in 0..slots.len() {
                let index = (usize::try_from(planned.draw % 1024).unwrap_or(0) + step) % slots.len();
                let Some(slot) = slots.get(index) else { continue };
                let lanes = slot.report().await.map_or(0, |report| report.lanes);
                candidates.push((lanes == 0, Arc::clone(slot)));
            }
            if planned.wants_lanes() {
                candidates.sort_by_key(|(idle, _)| *idle);
            }
            for (_, slot) in candidates {
                if let Some(held) = slot.try_hold().filter(|held| held.is_some()) {
                    return Some((slot, held));
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn any(&self, draw: u64) -> Arc<Slot> {
        let slots = self.fleet.regular();
        let count = slots.len().max(1) as u64;
        Arc::clone(&slots[usize::try_from(draw / 7 % count).unwrap_or(0)])
    }

    async fn in_flight(&self) -> u64 {
        let mut sum = 0;
        for slot in self.fleet.slots() {
            sum += in_hand(slot).await.window;
        }
        sum
    }

    async fn relay(&self, kind: Kind, lasts: Duration, draw: u64, slot: &Slot, mut held: Held) -> Fallible<()> {
        let name = held.as_ref().map(|running| running.name.clone()).unwrap_or_default();
        let in_flight = if kind.wants_flight() { in_the_midst(slot).await } else { in_hand(slot).await.window };
        let fault = self.recorder.fault(kind, name, in_flight);
        match kind {
            Kind::RelayKill => {
                Fleet::kill(slot, &mut held);
                self.recorder.healed(fault);
                sleep(lasts).await;
                self.fleet.start(slot, &mut held, 0)?;
            }
            Kind::RelayPause => {
                slot.signal(Signal::Stop);
                sleep(lasts).await;
                slot.signal(Signal::Continue);
                self.recorder.healed(fault);
                // It finds out what it has lost.
                sleep(Duration::from_millis(500)).await;
            }
            Kind::RelayClock => {
                let from = self.recorder.now();
                self.terminate(slot, &mut held, from).await;
                let ahead = draw.is_multiple_of(2);
                self.fleet.start(slot, &mut held, if ahead { CLOCK_OFF } else { -CLOCK_OFF })?;
                sleep(lasts).await;
                if draw.is_multiple_of(3) {
                    // Its lease was given by its clock, if anybody's was: nobody may wait an hour for its end.
                    let name = held.as_ref().map(|running| running.name.clone()).unwrap_or_default();
                    let kill = self.recorder.fault(Kind::RelayKill, name, in_the_midst(slot).await);
                    Fleet::kill(slot, &mut held);
                    self.recorder.healed(kill);
                } else {
                    let from = self.recorder.now();
                    self.terminate(slot, &mut held, from).await;
                }
                self.fleet.start(slot, &mut held, 0)?;
                self.recorder.healed(fault);
            }
            _ => {
                let from = self.recorder.now();
                self.terminate(slot, &mut held, from).await;
                self.recorder.healed(fault);
                sleep(lasts).await;
                self.fleet.start(slot, &mut held, 0)?;
            }
        }
        Ok(())
    }

    /// Ends a relay in good order, and writes down if it does not end well without an excuse.
    async fn terminate(&self, slot: &Slot, held: &mut Held, from: Moment) {
        if let Some(wrong) = Fleet::terminate(slot, held).await
            && !self.disturbed_since(from)
        {
            self.recorder.wrong("I15", wrong);
        }
    }

    /// Whether something else than graceful stops went on since then, or shortly before: a stop may then end badly.
    fn disturbed_since(&self, from: Moment) -> bool {
        let early = from.before(Duration::from_secs(12));
        let record = self.recorder.open();
        record.faults.iter().any(|fault| {
            !matches!(fault.kind, Kind::RelayTerm | Kind::RelayAdded | Kind::RelayClock) && fault.until >= early
        })
    }

    async fn network(&self, kind: Kind, lasts: Duration, draw: u64, slot: &Slot, ways: &Ways) -> Fallible<()> {
        let name = slot.facts().map(|facts| facts.name).unwrap_or_default();
        let fault = self.recorder.fault(kind, name, in_hand(slot).await.window);
        match kind {
            Kind::StoreCut | Kind::BrokerCut => ways.cut(),
            Kind::StoreAnswer | Kind::BrokerAnswer => {
                for _ in 0..=draw % 3 {
                    ways.lose_answer();
                }
            }
            Kind::StoreHole | Kind::BrokerHole => {
                let held = [Passage::Held, Passage::HeldToServer, Passage::HeldToClient];
                ways.pass(held[usize::try_from(draw % 3).unwrap_or(0)]);
                sleep(lasts).await;
                // Half of the holes end with what they held, half with a cut.
                if draw.is_multiple_of(2) {
                    ways.cut();
                }
                slot.calm();
            }
            _ => {
                ways.pass(Passage::Slow(Duration::from_millis(100 + draw % 400)));
                sleep(lasts).await;
                slot.calm();
            }
        }
        self.recorder.healed(fault);
        Ok(())
    }

    async fn server(&self, kind: Kind, lasts: Duration, draw: u64) -> Fallible<()> {
        let fault = self.recorder.fault(kind, "the server".to_owned(), self.in_flight().await);
        let done = self.hurt_server(kind, lasts, draw).await;
        self.recorder.healed(fault);
        done
    }

    async fn hurt_server(&self, kind: Kind, lasts: Duration, draw: u64) -> Fallible<()> {
        match kind {
            Kind::DatabaseKill => {
                self.store.kill().await;
                sleep(lasts).await;
                self.store.restart(Numbers::GoOn).await?;
            }
            Kind::DatabaseRestart | Kind::DatabaseNumbers => {
                let numbers = if kind == Kind::DatabaseNumbers { Numbers::GoBack } else { Numbers::GoOn };
                self.store.stop().await;
                sleep(lasts).await;
                self.store.restart(numbers).await?;
            }
            Kind::DatabaseBackend => self.store.terminate_backends(draw).await?,
            Kind::DatabaseLock => self.store.lock(lasts).await?,
            Kind::DatabaseDeadlock => {
                let won = self.store.deadlock(lasts).await?;
                self.recorder.open().deadlocks += won;
            }
            Kind::BrokerRestart | Kind::BrokerKill => {
                // A server that would lose what it acknowledged is never killed.
                if kind == Kind::BrokerKill && self.broker.survives_kill() {
                    self.broker.kill().await;
                } else {
                    self.broker.stop().await;
                }
                sleep(lasts).await;
                self.broker.restart().await?;
            }
            Kind::BrokerPause => {
                self.broker.pause().await;
                sleep(lasts).await;
                self.broker.resume().await;
            }
            Kind::BrokerRefuses => {
                let refused = self.broker.refuse(draw).await;
                sleep(lasts).await;
                self.broker.accept().await?;
                refused?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What a relay has in its hands; nothing while it does not answer.
async fn in_hand(slot: &Slot) -> Report {
    slot.report().await.unwrap_or_default()
}

/// Waits a moment until a relay that has lanes has messages in its hands too, and says how many.
async fn in_the_midst(slot: &Slot) -> u64 {
    let until = Instant::now() + AIMS;
    loop {
        let report = in_hand(slot).await;
        if report.window > 0 || report.lanes == 0 || Instant::now() > until {
            return report.window;
        }
        sleep(Duration::from_millis(1)).await;
    }
}
