//! A relay and its leaseholder: what the one finds out and the other does.

use std::time::Duration;

use postrider_core::machine::Event;
use postrider_core::{ErrorKind, Lane, RelayId, Start, Tick};

use super::coverage::Sight;
use super::holder::{LeaseAnswer, LeaseCall, News, Order};
use super::process::Life;
use super::wire::Request;
use super::world::{Op, World};

impl World {
    /// An id that grows with every use, as the relay's own do.
    fn next_member(&self) -> RelayId {
        RelayId(uuid::Uuid::from_u128(self.last_member + 1))
    }

    /// The leaseholder's turn.
    pub(super) fn keep(&mut self, place: usize, epoch: u32) {
        let now = self.now;
        let relay = &mut self.relays[place];
        if relay.epoch != epoch || relay.life == Life::Down || relay.paused_until.is_some() {
            return;
        }
        if relay.keeps_at <= now {
            relay.keeps_at = u64::MAX;
        }
        let local = relay.local(now);
        if relay.holder.is_late(local) {
            if relay.holder.acquires() {
                self.see(Sight::AcquireUnanswered);
            } else if relay.holder.gives() {
                self.see(Sight::ReleaseUnanswered);
            }
            self.relays[place].lease_call = None;
            let news = self.relays[place].holder.failed(local);
            self.hear(place, news);
        }
        if self.relays[place].epoch == epoch && self.relays[place].leaves_by <= local {
            self.hear(place, vec![News::Left]);
        }
        if self.relays[place].epoch != epoch {
            return;
        }
        let id = self.next_member();
        let (news, next) = self.relays[place].holder.poll(local, id);
        self.go_on(place, news, next);
        if self.relays[place].epoch != epoch {
            return;
        }
        let relay = &mut self.relays[place];
        let wake = relay.holder.wake_at().min(relay.leaves_by);
        let at = relay.true_time(wake).max(now + 1);
        if at < relay.keeps_at {
            relay.keeps_at = at;
            self.at(at, Op::Keep(place, epoch));
        }
    }

    /// The next call is made, and what is new is passed on.
    fn go_on(&mut self, place: usize, news: Vec<News>, next: Option<LeaseCall>) {
        if let Some(call) = next {
            self.lease_call(place, call);
        }
        self.hear(place, news);
    }

    fn lease_call(&mut self, place: usize, call: LeaseCall) {
        if let LeaseCall::Join(id) = call {
            self.last_member = self.last_member.max(id.0.as_u128());
        }
        let number = self.call(place, Request::Lease(call));
        self.relays[place].lease_call = Some(number);
    }

    /// What the leaseholder found out.
    fn hear(&mut self, place: usize, news: Vec<News>) {
        let any = !news.is_empty();
        for one in news {
            self.history.tell(self.now, || format!("{place} <- {one:?}"));
            if matches!(one, News::Left) {
                let relay = &mut self.relays[place];
                relay.life = Life::Down;
                relay.epoch += 1;
                let down = relay.restart_after;
                self.after(down, Op::Start(place));
                return;
            }
            let relay = &mut self.relays[place];
            if matches!(one, News::Parted) {
                relay.leaving = relay.leaving.saturating_sub(1);
            }
            if relay.life != Life::Running || relay.leaving > 0 {
                continue;
            }
            match one {
                News::Joined(me) => self.stand_down(place, Some(me)),
                News::Trusted(until) => {
                    self.relays[place].trusted_until = until;
                    self.tell(place, Event::Trusted(Tick::after_start(Duration::from_micros(until))));
                }
                News::Gained(lanes) => {
                    let others = self.relays.iter().filter(|relay| relay.lanes() > 0 && relay.place != place);
                    if others.count() > 0 {
                        self.see(Sight::SeveralRelays);
                    }
                    for held in &lanes {
                        self.see(match held.start {
                            Start::Clean if held.term.0 > 1 => Sight::CleanTakeOver,
                            Start::Careful => Sight::CarefulTakeOver,
                            Start::Clean => continue,
                        });
                        self.takeovers[usize::from(held.lane.0)] += u32::from(held.start == Start::Careful);
                    }
                    self.takes_over_holds(&lanes);
                    self.tell(place, Event::Gained(lanes));
                }
                News::Lost(lanes) => self.tell(place, Event::Lost(lanes)),
                News::Compared => self.see(Sight::Compared),
                News::Surplus(lanes) => {
                    if !self.relays[place].flights.is_empty() || self.relays[place].settling.is_some() {
                        self.see(Sight::WantedInFlight);
                    }
                    self.tell(place, Event::HandBack(lanes));
                }
                News::Evicted => {
                    self.see(Sight::Evicted);
                    self.stand_down(place, None);
                }
                News::Parted | News::Left => {}
            }
        }
        if any {
            self.turn(place);
        }
    }

    /// No lease can be trusted any more.
    pub(super) fn rejoin(&mut self, place: usize) {
        self.relays[place].leaving += 1;
        self.stand_down(place, None);
        self.relays[place].holder.order(Order::Rejoin);
    }

    /// Every lane is lost.
    fn stand_down(&mut self, place: usize, me: Option<RelayId>) {
        let relay = &mut self.relays[place];
        relay.me = me;
        let in_flight = !relay.flights.is_empty();
        let lanes: Vec<Lane> = relay.machine.held().into_iter().map(|held| held.lane).collect();
        if in_flight && !lanes.is_empty() {
            self.see(Sight::LostInFlight);
        }
        self.tell(place, Event::Lost(lanes));
    }

    pub(super) fn lease_answered(&mut self, place: usize, number: u64, answer: Result<LeaseAnswer, ErrorKind>) {
        let (now, id) = (self.now, self.next_member());
        let relay = &mut self.relays[place];
        if relay.lease_call.take_if(|known| *known == number).is_none() {
            self.see(Sight::ReplyLate);
            return;
        }
        let (local, epoch) = (relay.local(now), relay.epoch);
        let (news, next) = match answer {
            Ok(answer) => relay.holder.answered(local, answer, id),
            Err(_) => (relay.holder.failed(local), None),
        };
        self.go_on(place, news, next);
        self.keep(place, epoch);
    }
}
