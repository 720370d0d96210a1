//! Carries out publish calls and looks at destinations, several at once.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::{DestinationIndex, Event, Flight};
use postrider_core::{Broker, Destination, DestinationTemplate, Error, ErrorKind, Outgoing, Published};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::builder::Outlet;
use crate::hands::Signal;
use crate::telemetry;

/// How long one call may take, whatever the broker's own deadline is: longer than any that can be set, of which the longest are
/// five minutes for a request of HTTP, and twice a minute for a batch of NATS.
const DEADLINE: Duration = Duration::from_secs(360);

/// The calls under way. Dropping it abandons them.
#[derive(Debug)]
pub(crate) struct Publisher {
    outlets: Vec<Outlet>,
    calls: JoinSet<()>,
    signals: mpsc::UnboundedSender<Signal>,
}

impl Publisher {
    pub(crate) fn new(outlets: Vec<Outlet>, signals: mpsc::UnboundedSender<Signal>) -> Self {
        Self { outlets, calls: JoinSet::new(), signals }
    }

    /// Starts a publish call; its end comes as a signal.
    pub(crate) fn publish(&mut self, destination: DestinationIndex, flight: Flight, batch: Vec<Outgoing>) {
        self.forget_ended();
        let Some(outlet) = self.outlets.get(destination.get()) else { return };
        let (broker, name) = (Arc::clone(&outlet.broker), outlet.name.clone());
        let signals = self.signals.clone();
        self.calls.spawn(async move {
            let started = telemetry::started();
            let results = call(broker, batch).await;
            telemetry::publish_took(&name, started);
            drop(signals.send(Signal::Machine(Event::Published(flight, results))));
        });
    }

    /// Looks at a destination without sending anything; the answer comes as a signal.
    pub(crate) fn check(&mut self, destination: DestinationIndex) {
        self.forget_ended();
        let Some(outlet) = self.outlets.get(destination.get()).cloned() else { return };
        let signals = self.signals.clone();
        self.calls.spawn(async move {
            let places = place_of_all(&outlet.template);
            let broker = Arc::clone(&outlet.broker);
            let checked = guarded(async move { broker.check(&places).await }).await;
            let answer = checked
                .unwrap_or_else(|text| Err(Error::new(ErrorKind::Unavailable, text)))
                .map(|findings| telemetry::findings(&outlet.name, &findings));
            drop(signals.send(Signal::Machine(Event::Checked(destination, answer))));
        });
    }

    fn forget_ended(&mut self) {
        while self.calls.try_join_next().is_some() {}
    }

    /// Abandons what is under way: nothing more is sent.
    pub(crate) async fn abandon(&mut self) {
        self.calls.shutdown().await;
    }

    /// Disconnects, each broker once, however many destinations it has.
    pub(crate) async fn close(mut self) {
        let mut brokers: Vec<Arc<dyn Broker>> = Vec::new();
        for outlet in self.outlets {
            if !brokers.iter().any(|known| Arc::ptr_eq(known, &outlet.broker)) {
                brokers.push(outlet.broker);
            }
        }
        for broker in brokers {
            self.calls.spawn(async move { broker.close().await });
        }
        while self.calls.join_next().await.is_some() {}
    }
}

/// Where every message goes, if that is one place: of several among which messages choose, one that is missing says
/// nothing of the others.
fn place_of_all(template: &DestinationTemplate) -> Vec<Destination> {
    template.places().filter(|places| places.len() == 1).unwrap_or_default()
}

async fn call(broker: Arc<dyn Broker>, batch: Vec<Outgoing>) -> Vec<Published> {
    let count = batch.len();
    let answer = guarded(async move { broker.publish(&batch).await }).await;
    let all = |text| (0..count).map(|_| Published::Failed(Error::new(ErrorKind::Unknown, text))).collect();
    answer.unwrap_or_else(all)
}

/// One call in a task of its own, so that a panic in a broker's client is an unknown outcome and no crash. The task
/// ends with the call: a relay whose future was dropped must not go on publishing beside its successor.
async fn guarded<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Result<T, &'static str> {
    let mut task = JoinSet::new();
    task.spawn(call);
    match tokio::time::timeout(DEADLINE, task.join_next()).await {
        Ok(Some(Ok(answer))) => Ok(answer),
        Ok(_) => Err("the broker's client ended unexpectedly; see the log for its panic"),
        Err(_) => Err("the broker did not answer in time"),
    }
}

#[cfg(test)]
mod tests {
    use postrider_brokers::memory::MemoryBroker;
    use postrider_core::{AllowList, DestinationName, Placeholder};

    use super::*;

    /// A place that only some messages would go to, and that is missing, must not keep the pause of the others from ending.
    #[test]
    fn a_look_asks_for_a_place_only_where_every_message_goes_there() {
        let places = |text: &str, allowed: AllowList| {
            place_of_all(&DestinationTemplate::allowing(text, &allowed).unwrap()).len()
        };
        let regions = AllowList::default().allow(Placeholder::Key, ["eu", "us"]).unwrap();
        assert_eq!(places("orders", AllowList::default()), 1);
        assert_eq!(places("orders.{key}", regions), 0);
        assert_eq!(places("{topic}", AllowList::default()), 0);
    }

    /// A receiver that needs as long as its broker may be told to wait is not cut off.
    #[tokio::test(start_paused = true)]
    async fn a_slow_call_comes_to_its_end_and_one_that_hangs_is_given_up() {
        for (takes, expected) in [(299, Ok(())), (3_600, Err("the broker did not answer in time"))] {
            assert_eq!(guarded(tokio::time::sleep(Duration::from_secs(takes))).await, expected);
        }
    }

    /// A destination may pause for weeks, and all that is done then is looking at it.
    #[tokio::test]
    async fn looks_that_were_answered_are_not_kept() {
        let (name, template) = (DestinationName::new("out"), DestinationTemplate::topic());
        let outlet = Outlet { name, broker: Arc::new(MemoryBroker::counting()), template };
        let (signals, mut heard) = mpsc::unbounded_channel();
        let mut publisher = Publisher::new(vec![outlet], signals);
        for _ in 0..100 {
            publisher.check(DestinationIndex::new(0));
            let answer = heard.recv().await.unwrap();
            assert!(matches!(answer, Signal::Machine(Event::Checked(_, Ok(())))), "{answer:?}");
        }
        assert!(publisher.calls.len() <= 2, "{}", publisher.calls.len());
    }
}
