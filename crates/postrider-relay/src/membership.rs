//! Under which membership the loop acts: what the leaseholder says of another one is not heard.

use postrider_core::machine::{Event, Machine};
use postrider_core::{RelayId, Result, Tick};

use crate::leaseholder::LeaseNews;
use crate::report::Report;
use crate::telemetry;

/// The membership. Without one the machine holds no lane.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    me: Option<RelayId>,
    /// So often the leaseholder was told to leave and has not said yet that it did: all that it says until then is of
    /// a membership that was given up here.
    leaving: usize,
}

impl Membership {
    pub(crate) const fn me(&self) -> Option<RelayId> {
        self.me
    }

    /// No lease can be trusted any more. The leaseholder is to be told to join again.
    pub(crate) fn give_up(&mut self, now: Tick, machine: &mut Machine) {
        self.leaving += 1;
        self.stand_down(now, machine, None);
    }

    /// Hears what the leaseholder found out.
    ///
    /// # Errors
    /// Before the first round that was answered whole, a store that can never work as it is ends the relay.
    pub(crate) fn hear(
        &mut self,
        now: Tick,
        news: LeaseNews,
        machine: &mut Machine,
        report: &mut Report,
    ) -> Result<()> {
        if self.leaving == 0 {
            telemetry::membership(&news);
        }
        match news {
            LeaseNews::Away(error) => report.store_away(error)?,
            LeaseNews::Left => self.leaving = self.leaving.saturating_sub(1),
            _ if self.leaving > 0 => {}
            LeaseNews::Joined(me) => self.stand_down(now, machine, Some(me)),
            LeaseNews::Evicted => self.stand_down(now, machine, None),
            LeaseNews::Answered => report.store_answers(),
            LeaseNews::Trusted(until) => machine.on(now, Event::Trusted(until)),
            LeaseNews::Gained(lanes) => machine.on(now, Event::Gained(lanes)),
            LeaseNews::Lost(lanes) => machine.on(now, Event::Lost(lanes)),
            LeaseNews::Surplus(lanes) => machine.on(now, Event::HandBack(lanes)),
        }
        Ok(())
    }

    /// Every lane is lost. A new membership begins like this too.
    fn stand_down(&mut self, now: Tick, machine: &mut Machine, me: Option<RelayId>) {
        self.me = me;
        let lanes = machine.held().into_iter().map(|held| held.lane).collect();
        machine.on(now, Event::Lost(lanes));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_core::machine::Settings;
    use postrider_core::{Error, ErrorKind, HeldLane, Lane, Start, Term};
    use uuid::Uuid;

    use super::*;
    use crate::observed::logged;

    struct Scene {
        membership: Membership,
        machine: Machine,
        report: Report,
    }

    impl Scene {
        fn new() -> Self {
            let machine = Machine::new(Settings::new(Vec::new(), Vec::new()));
            let report = Report::new(false, Duration::ZERO, None);
            Self { membership: Membership::default(), machine, report }
        }

        fn hear(&mut self, news: LeaseNews) {
            self.membership.hear(Tick::ZERO, news, &mut self.machine, &mut self.report).unwrap();
        }

        fn give_up(&mut self) {
            self.membership.give_up(Tick::ZERO, &mut self.machine);
        }

        fn held(&self) -> usize {
            self.machine.held().len()
        }
    }

    fn gained(term: i64) -> LeaseNews {
        LeaseNews::Gained(vec![HeldLane { lane: Lane(0), term: Term(term), start: Start::Clean }])
    }

    fn me(n: u128) -> RelayId {
        RelayId(Uuid::from_u128(n))
    }

    #[test]
    fn lanes_of_a_membership_that_was_given_up_are_not_taken_in() {
        let mut scene = Scene::new();
        scene.hear(LeaseNews::Joined(me(1)));
        scene.give_up();
        scene.hear(LeaseNews::Trusted(Tick::FAR));
        scene.hear(gained(1));
        assert_eq!((scene.held(), scene.membership.me()), (0, None), "it was said before it was told to leave");
        assert!(!scene.machine.is_trusted(Tick::ZERO));
        scene.hear(LeaseNews::Evicted);
        scene.hear(LeaseNews::Joined(me(2)));
        scene.hear(gained(2));
        assert_eq!((scene.held(), scene.membership.me()), (0, None), "this one too will be left");
        scene.hear(LeaseNews::Left);
        scene.hear(LeaseNews::Joined(me(3)));
        scene.hear(gained(3));
        assert_eq!((scene.held(), scene.membership.me()), (1, Some(me(3))));
    }

    #[test]
    fn giving_up_twice_is_answered_twice() {
        let mut scene = Scene::new();
        scene.hear(LeaseNews::Joined(me(1)));
        scene.give_up();
        scene.give_up();
        scene.hear(LeaseNews::Left);
        scene.hear(LeaseNews::Joined(me(2)));
        scene.hear(gained(2));
        assert_eq!(scene.held(), 0);
        scene.hear(LeaseNews::Left);
        scene.hear(LeaseNews::Joined(me(3)));
        scene.hear(gained(3));
        assert_eq!(scene.held(), 1);
    }

    #[test]
    fn a_store_that_is_away_is_heard_of_while_leaving_too() {
        let mut scene = Scene::new();
        scene.give_up();
        let error = Error::new(ErrorKind::Config, "no tables");
        let heard = scene.membership.hear(Tick::ZERO, LeaseNews::Away(error), &mut scene.machine, &mut scene.report);
        assert!(heard.is_err(), "it can never work as it is");
    }

    #[test]
    fn what_is_said_of_a_membership_that_was_given_up_is_not_logged() {
        let mut scene = Scene::new();
        let lines = |scene: &mut Scene, term| logged(|| scene.hear(gained(term))).len();
        assert_eq!(lines(&mut scene, 1), 1);
        scene.give_up();
        assert_eq!(lines(&mut scene, 2), 0);
        scene.hear(LeaseNews::Left);
        assert_eq!(lines(&mut scene, 3), 1);
    }
}
