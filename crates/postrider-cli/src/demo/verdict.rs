//! Whether what was promised was kept, computed from the [`Record`] alone: the relay is not asked.

use std::collections::{HashMap, HashSet};

use postrider_core::MessageId;

use super::numbers::grouped;
use super::record::{Answer, Delivery, Order, Record};

/// Deliveries of messages that the consumer had taken before, by what explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Repeats {
    /// The delivery before it was taken and its answer broke off.
    pub(super) after_a_lost_answer: u64,
    /// The message stood in the outbox when a relay was killed, and another relay sent it.
    pub(super) after_a_crash: u64,
    /// Neither.
    pub(super) unexplained: u64,
}

impl Repeats {
    fn all(self) -> u64 {
        self.explained() + self.unexplained
    }

    fn explained(self) -> u64 {
        self.after_a_lost_answer + self.after_a_crash
    }
}

/// The verdict and its figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Verdict {
    committed: u64,
    rolled_back: u64,
    delivered: u64,
    lost: u64,
    ghosts: u64,
    misordered: u64,
    altered: u64,
    unsigned: u64,
    waiting: u64,
    repeats: Repeats,
    dead: u64,
    dead_expected: u64,
    dead_unexpected: u64,
    shipped: Option<Shipped>,
}

/// What the consumer did with orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shipped {
    /// Orders that were shipped.
    orders: u64,
    /// Orders that it took and did not ship once: never, or more often.
    wrong: u64,
}

impl Verdict {
    /// Judges a record.
    pub(super) fn of(record: &Record) -> Self {
        let orders: HashMap<MessageId, &Order> = record.orders.iter().map(|order| (order.id, order)).collect();
        let taken: HashSet<MessageId> = record.deliveries.iter().filter(|it| it.was_taken()).map(|it| it.id).collect();
        let refusable = |id: &MessageId| orders.get(id).is_some_and(|order| order.quantity == 0);
        let strange = |it: &&Delivery| match orders.get(&it.id) {
            Some(order) => order.customer != it.customer || order.number != it.number,
            None => false,
        };
        Self {
            committed: count(orders.keys()),
            rolled_back: count(record.rolled_back.iter()),
            delivered: count(taken.iter().filter(|id| orders.contains_key(id))),
            lost: count(orders.keys().filter(|id| !taken.contains(id) && !record.dead.contains(id))),
            ghosts: count(record.deliveries.iter().filter(|it| !orders.contains_key(&it.id))),
            misordered: misordered(&record.deliveries),
            altered: count(record.deliveries.iter().filter(strange)),
            unsigned: record.unsigned,
            waiting: record.waiting,
            repeats: repeats(record),
            dead: count(record.dead.iter()),
            dead_expected: count(record.orders.iter().filter(|order| order.quantity == 0)),
            shipped: record.shipped.as_ref().map(|shipped| Shipped {
                orders: count(shipped.keys()),
                wrong: count(taken.iter().filter(|id| shipped.get(id) != Some(&1)))
                    + count(shipped.keys().filter(|id| !taken.contains(id))),
            }),
            dead_unexpected: count(record.dead.iter().filter(|id| !refusable(id) || taken.contains(id))),
        }
    }

    /// What was broken, in words; empty when everything was kept.
    pub(super) fn broken(&self) -> Vec<String> {
        let counts = [
            (self.lost, "committed but not delivered"),
            (self.ghosts, "delivered though never committed"),
            (self.misordered, "out of order"),
            (self.altered, "with another key or content than was written"),
            (self.unsigned, "with a bad signature"),
            (self.repeats.unexplained, "repeated without a reason"),
            (self.dead_unexpected, "given up on though nothing was wrong with them"),
            (self.waiting, "still waiting at the end"),
            (self.shipped.map_or(0, |shipped| shipped.wrong), "not shipped once"),
        ];
        let mut broken: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if self.committed == 0 {
            broken.push("no order was written, so nothing was shown".to_owned());
        }
        broken
    }

    /// Whether every promise was kept.
    pub(super) fn holds(&self) -> bool {
        self.broken().is_empty()
    }

    /// The table; the last line says `verdict: holds` or `verdict: BROKEN (why)`.
    pub(super) fn lines(&self) -> Vec<String> {
        let Repeats { after_a_lost_answer, after_a_crash, .. } = self.repeats;
        let rows = [
            ("committed", self.committed, "orders in the application's own table".to_owned()),
            ("rolled back", self.rolled_back, "messages written and taken back with their transaction".to_owned()),
            ("delivered", self.delivered, "distinct orders that the consumer took".to_owned()),
            ("dead letters", self.dead, format!("{} expected: the consumer can never take them", self.dead_expected)),
            ("lost", self.lost, "committed, but neither delivered nor a dead letter".to_owned()),
            ("ghosts", self.ghosts, "arrived, but never committed".to_owned()),
            ("out of order", self.misordered, "of one customer, by first delivery".to_owned()),
            ("altered", self.altered, "another key or content than was written".to_owned()),
            (
                "repeats",
                self.repeats.all(),
                format!(
                    "{} explained: {after_a_lost_answer} after a lost answer, {after_a_crash} after a crash",
                    grouped(self.repeats.explained())
                ),
            ),
        ];
        let shipped = self.shipped.map(|shipped| {
            let repeats = grouped(self.repeats.all());
            ("shipped", shipped.orders, format!("orders, each once: the inbox told {repeats} repeats from first ones"))
        });
        let mut lines: Vec<String> = rows
            .iter()
            .chain(&shipped)
            .map(|(name, count, what)| format!("  {name:<13}{:>9}  {what}", grouped(*count)))
            .collect();
        let broken = self.broken();
        lines.push(if broken.is_empty() {
            "verdict: holds".to_owned()
        } else {
            format!("verdict: BROKEN ({})", broken.join("; "))
        });
        lines
    }
}

/// First deliveries that came after a later one of the same customer.
fn misordered(deliveries: &[Delivery]) -> u64 {
    let mut seen: HashSet<MessageId> = HashSet::new();
    let mut highest: HashMap<&str, i64> = HashMap::new();
    let mut wrong = 0;
    for delivery in deliveries.iter().filter(|it| it.was_taken()) {
        if !seen.insert(delivery.id) {
            continue;
        }
        let highest = highest.entry(&delivery.customer).or_insert(0);
        if delivery.number <= *highest {
            wrong += 1;
        }
        *highest = delivery.number.max(*highest);
    }
    wrong
}

/// Every delivery that was taken of a message that had been taken before, with its explanation. One fault explains
/// one repeat.
fn repeats(record: &Record) -> Repeats {
    let mut last: HashMap<MessageId, &Delivery> = HashMap::new();
    let mut spent: HashSet<(usize, MessageId)> = HashSet::new();
    let mut repeats = Repeats::default();
    for delivery in record.deliveries.iter().filter(|it| it.was_taken()) {
        let Some(before) = last.insert(delivery.id, delivery) else { continue };
        let mut crashes = record.in_doubt.iter().enumerate().filter(|(_, left)| left.contains(&delivery.id));
        if before.answer == Answer::Lost {
            repeats.after_a_lost_answer += 1;
        } else if before.term < delivery.term && crashes.any(|(crash, _)| spent.insert((crash, delivery.id))) {
            repeats.after_a_crash += 1;
        } else {
            repeats.unexplained += 1;
        }
    }
    repeats
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two customers with two good orders each, and one order that can only die; all as it should be.
    fn kept() -> Record {
        let order = |customer: &str, number, quantity| Order {
            id: MessageId::fresh(),
            customer: customer.to_owned(),
            number,
            quantity,
        };
        let orders =
            vec![order("ann", 1, 1), order("bob", 1, 2), order("ann", 2, 0), order("ann", 3, 1), order("bob", 2, 5)];
        let deliveries = orders
            .iter()
            .map(|order| delivery(order, 1, if order.quantity == 0 { Answer::Refused(422) } else { Answer::Taken }));
        let deliveries = deliveries.collect();
        let dead = HashSet::from([orders[2].id]);
        let rolled_back = HashSet::from([MessageId::fresh()]);
        Record { orders, rolled_back, deliveries, dead, ..Record::default() }
    }

    fn delivery(order: &Order, term: u64, answer: Answer) -> Delivery {
        Delivery { id: order.id, customer: order.customer.clone(), number: order.number, term, answer }
    }

    #[track_caller]
    fn broken(record: &Record, because: &str) {
        let verdict = Verdict::of(record);
        let line = verdict.lines().pop().unwrap();
        assert!(!verdict.holds());
        assert!(line.starts_with("verdict: BROKEN (") && line.contains(because), "{line}");
        assert_eq!(verdict.broken().len(), 1, "only this is broken: {line}");
    }

    #[test]
    fn a_record_without_a_flaw_holds() {
        let verdict = Verdict::of(&kept());
        assert_eq!(verdict.lines().pop().unwrap(), "verdict: holds");
        assert_eq!((verdict.committed, verdict.delivered, verdict.dead, verdict.rolled_back), (5, 4, 1, 1));
    }

    #[test]
    fn an_order_that_never_arrived_breaks_it() {
        let mut record = kept();
        record.deliveries.pop();
        broken(&record, "1 committed but not delivered");
    }

    #[test]
    fn an_order_that_was_only_refused_is_not_delivered() {
        let mut record = kept();
        record.deliveries[4].answer = Answer::Refused(503);
        broken(&record, "1 committed but not delivered");
    }

    #[test]
    fn a_message_of_a_rolled_back_transaction_breaks_it_even_when_it_was_refused() {
        let mut record = kept();
        let ghost = *record.rolled_back.iter().next().unwrap();
        let mut arrived = record.deliveries[4].clone();
        (arrived.id, arrived.number, arrived.answer) = (ghost, 3, Answer::Refused(500));
        record.deliveries.push(arrived);
        broken(&record, "1 delivered though never committed");
    }

    #[test]
    fn an_order_that_was_shipped_twice_never_or_without_a_message_breaks_it() {
        let shipped =
            |record: &Record| record.deliveries.iter().filter(|it| it.was_taken()).map(|it| (it.id, 1)).collect();
        let mut record = kept();
        let each: HashMap<MessageId, u64> = shipped(&record);
        let id = record.deliveries[0].id;
        record.shipped = Some(each.clone());
        assert!(Verdict::of(&record).holds());
        assert!(Verdict::of(&record).lines().iter().any(|line| line.contains("shipped              4  orders")));
        for wrong in [
            each.keys().map(|one| (*one, if *one == id { 2 } else { 1 })).collect(),
            each.iter().filter(|(one, _)| **one != id).map(|(one, _)| (*one, 1)).collect(),
            each.keys().map(|one| (*one, 1)).chain([(MessageId::fresh(), 1)]).collect(),
        ] {
            record.shipped = Some(wrong);
            broken(&record, "1 not shipped once");
        }
    }

    #[test]
    fn two_orders_of_one_customer_that_changed_places_break_it() {
        let mut record = kept();
        record.deliveries.swap(0, 3);
        broken(&record, "1 out of order");
        let mut record = kept();
        record.deliveries.swap(0, 1);
        assert!(Verdict::of(&record).holds(), "different customers have no order");
    }

    #[test]
    fn a_repeat_without_a_fault_breaks_it() {
        let mut record = kept();
        let again = delivery(&record.orders[0], 1, Answer::Taken);
        record.deliveries.push(again);
        broken(&record, "1 repeated without a reason");
    }

    #[test]
    fn a_lost_answer_explains_one_repeat_and_no_second() {
        let mut record = kept();
        record.deliveries[0].answer = Answer::Lost;
        let again = delivery(&record.orders[0], 1, Answer::Taken);
        record.deliveries.push(again.clone());
        assert!(Verdict::of(&record).holds());
        record.deliveries.push(again);
        broken(&record, "1 repeated without a reason");
    }

    #[test]
    fn a_crash_explains_only_what_stood_in_the_outbox_and_was_sent_by_the_next_relay() {
        let mut record = kept();
        record.deliveries.push(delivery(&record.orders[0], 2, Answer::Taken));
        broken(&record, "1 repeated without a reason");
        record.in_doubt = vec![HashSet::from([record.orders[0].id])];
        assert!(Verdict::of(&record).holds());
        record.deliveries.push(delivery(&record.orders[0], 3, Answer::Taken));
        broken(&record, "1 repeated without a reason");
        record.deliveries.truncate(5);
        record.deliveries.push(delivery(&record.orders[0], 1, Answer::Taken));
        broken(&record, "1 repeated without a reason");
    }

    #[test]
    fn a_good_order_among_the_dead_letters_breaks_it() {
        let mut record = kept();
        record.deliveries[4].answer = Answer::Refused(500);
        record.dead.insert(record.orders[4].id);
        broken(&record, "1 given up on");
    }

    #[test]
    fn what_is_altered_unsigned_or_still_waiting_breaks_it() {
        let mut record = kept();
        record.deliveries[4].customer = "eve".to_owned();
        broken(&record, "1 with another key");
        broken(&Record { unsigned: 1, ..kept() }, "1 with a bad signature");
        broken(&Record { waiting: 7, ..kept() }, "7 still waiting");
    }

    #[test]
    fn nothing_written_is_nothing_shown() {
        broken(&Record::default(), "no order was written");
    }
}
