//! The service behind an HTTP endpoint, which can be away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Keep};

use crate::application::now;
use crate::timeline::Arrival;

/// How it is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Nobody listens.
    Closed,
    /// Requests are taken and not answered.
    Silent,
}

pub struct Endpoint {
    receiver: HttpReceiver,
    is_silent: Arc<AtomicBool>,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Endpoint {
    pub async fn start() -> Self {
        let receiver = HttpReceiver::start_keeping(Keep::Nothing).await.unwrap();
        let (arrivals, is_silent) = (Arc::<Mutex<Vec<Arrival>>>::default(), Arc::new(AtomicBool::new(false)));
        let (kept, silent) = (Arc::clone(&arrivals), Arc::clone(&is_silent));
        receiver.script(move |request, _| {
            if silent.load(Ordering::SeqCst) {
                return Answer::Hang;
            }
            let id = request.header("webhook-id").unwrap_or_default().to_owned();
            kept.lock().unwrap().push(Arrival { id, at: now() });
            Answer::Status(204)
        });
        Self { receiver, is_silent, arrivals }
    }

    pub fn url(&self) -> String {
        self.receiver.url()
    }

    pub async fn goes_away(&self, how: Absence) {
        match how {
            Absence::Closed => self.receiver.stop().await,
            Absence::Silent => self.is_silent.store(true, Ordering::SeqCst),
        }
    }

    pub async fn comes_back(&self, from: Absence) {
        match from {
            Absence::Closed => self.receiver.restart().await.unwrap(),
            Absence::Silent => self.is_silent.store(false, Ordering::SeqCst),
        }
    }

    /// Everything that arrived, in the order of its arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }
}
