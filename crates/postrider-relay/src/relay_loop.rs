//! The one loop of the relay: signals in, actions out.

use std::sync::Arc;

use postrider_core::machine::{Action, DestinationIndex, Event, Machine, Note};
use postrider_core::{Result, Tick};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::builder::{Ending, Plan};
use crate::clock::Clock;
use crate::events::Teller;
use crate::hands::{Hands, Signal};
use crate::housekeeper::Duty;
use crate::leaseholder::LeaseOrder;
use crate::membership::Membership;
use crate::report::Report;
use crate::settler::Asked;
use crate::snapshot::{Shared, Summary};
use crate::telemetry;

pub(crate) struct RelayLoop {
    plan: Plan,
    machine: Machine,
    clock: Clock,
    stop: CancellationToken,
    shared: Arc<Shared>,
    membership: Membership,
    hands: Hands,
    report: Report,
    teller: Teller,
}

impl RelayLoop {
    pub(crate) fn new(
        plan: Plan,
        machine: Machine,
        shared: Arc<Shared>,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        let hands = Hands::new(&plan, clock);
        let report = Report::new(plan.ending == Ending::WhenEmpty, plan.patience, plan.watch.clone());
        let teller = Teller::new(Arc::clone(&shared.listeners));
        Self { plan, machine, clock, stop, shared, membership: Membership::default(), hands, report, teller }
    }

    pub(crate) async fn run(mut self) -> Result<Summary> {
        telemetry::begin();
        (0..self.plan.outlets.len()).for_each(|place| self.hands.publisher.check(DestinationIndex::new(place)));
        let mut deadline: Option<Tick> = None;
        loop {
            let now = self.clock.now();
            for action in self.machine.actions(now) {
                self.perform(action);
            }
            self.show(now);
            if self.report.wants_count(now, &self.machine) {
                self.hands.counts.send(()).unwrap_or_default();
            }
            let stopping = deadline.is_some();
            if stopping && (self.machine.is_drained() || deadline <= Some(now)) {
                break;
            }
            let wake = self.report.wake(self.machine.wake_at(now)).min(deadline.unwrap_or(Tick::FAR));
            tokio::select! {
                Some(signal) = self.hands.signals.recv() => self.hear(signal)?,
                error = self.hands.tasks.broken() => return Err(error),
                () = self.shared.hint.notified() => self.machine.on(self.clock.now(), Event::Hint),
                () = self.stop.cancelled(), if !stopping => deadline = Some(self.begin_stop()),
                () = sleep_until(self.clock.instant(wake)) => {}
            }
            if deadline.is_none() && self.report.has_ended() {
                deadline = Some(self.begin_stop());
            }
        }
        Ok(self.end().await)
    }

    fn begin_stop(&mut self) -> Tick {
        let now = self.clock.now();
        self.report.stopping();
        self.machine.on(now, Event::Stop);
        now + self.plan.stop_deadline
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Read(read) => drop(self.hands.reads.send(read)),
            Action::Publish(destination, flight, batch) => self.hands.publisher.publish(destination, flight, batch),
            Action::Check(destination) => self.hands.publisher.check(destination),
            Action::Release(lanes) => drop(self.hands.leases.send(LeaseOrder::Release(lanes))),
            Action::Settle(settle) => {
                if let Some(me) = self.membership.me() {
                    drop(self.hands.settles.send(Asked { me, settle }));
                }
            }
        }
    }

    fn hear(&mut self, signal: Signal) -> Result<()> {
        self.take_in(signal)?;
        // What has come meanwhile is taken in together, so that its actions go out in larger batches.
        while let Ok(signal) = self.hands.signals.try_recv() {
            self.take_in(signal)?;
        }
        Ok(())
    }

    fn take_in(&mut self, signal: Signal) -> Result<()> {
        let now = self.clock.now();
        match signal {
            Signal::Machine(event) => self.machine.on(now, event),
            Signal::Counted(count) => self.report.counted(now, count),
            Signal::Discontinued => {
                self.membership.give_up(now, &mut self.machine);
                drop(self.hands.leases.send(LeaseOrder::Rejoin));
            }
            Signal::Lease(news) => self.membership.hear(now, news, &mut self.machine, &mut self.report)?,
        }
        Ok(())
    }

    fn show(&mut self, now: Tick) {
        self.teller.begin(now, &mut self.machine);
        for note in self.machine.take_notes() {
            if let Note::Fenced(held) | Note::NumbersCameAgain(held) = note {
                drop(self.hands.leases.send(LeaseOrder::Release(vec![held])));
            }
            self.teller.hear(&note);
            self.report.note(&note);
        }
        self.teller.end(now, &self.machine);
        if let Some(snapshot) = self.report.show(now, &self.machine) {
            let duty = Duty::of(&snapshot.lanes);
            self.hands.duty.send_if_modified(|was| std::mem::replace(was, duty) != duty);
            self.shared.set(snapshot);
        }
    }

    async fn end(mut self) -> Summary {
        let summary = self.report.summary(&self.machine);
        self.hands.put_down(self.machine.held()).await;
        self.teller.finish();
        self.shared.set(self.report.last());
        summary
    }
}
