//! An HTTP receiver that records what it accepts, and can be told to refuse or to stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Keep, Request};

use tokio::runtime::Handle;

use super::broker::Health;
use crate::Fallible;
use crate::record::{Delivered, Recorder, print};
use crate::writers::NUMBER;

const ACCEPTS: u64 = u64::MAX;
const HANGS: u64 = u64::MAX - 1;

/// The receiver.
#[derive(Debug)]
pub struct HttpPlace {
    receiver: Arc<HttpReceiver>,
    /// The runtime in which it lives, whoever opens it again.
    home: Handle,
    mood: Arc<AtomicU64>,
    most_bytes: Arc<AtomicUsize>,
}

impl HttpPlace {
    /// Starts it.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(recorder: &Arc<Recorder>) -> Fallible<Self> {
        let receiver = Arc::new(HttpReceiver::start_keeping(Keep::Nothing).await?);
        let mood = Arc::new(AtomicU64::new(ACCEPTS));
        let most_bytes = Arc::new(AtomicUsize::new(Health::Usual.most_bytes()));
        let (recorder, now, most) = (Arc::clone(recorder), Arc::clone(&mood), Arc::clone(&most_bytes));
        receiver.script(move |request, _| {
            if request.body.len() > most.load(Ordering::SeqCst) {
                return Answer::Status(422);
            }
            answer(&recorder, now.load(Ordering::SeqCst), request)
        });
        Ok(Self { receiver, home: Handle::current(), mood, most_bytes })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.receiver.port()
    }

    /// From now on everything is taken.
    pub fn accept(&self) {
        self.mood.store(ACCEPTS, Ordering::SeqCst);
    }

    /// From now on everything is taken, and nothing answered.
    pub fn hang(&self) {
        self.mood.store(HANGS, Ordering::SeqCst);
    }

    /// From now on nothing is taken.
    pub fn refuse(&self, draw: u64) {
        self.mood.store(draw % 3, Ordering::SeqCst);
    }

    /// From now on messages of this size are taken.
    pub fn set_health(&self, health: Health) {
        self.most_bytes.store(health.most_bytes(), Ordering::SeqCst);
    }

    /// Closes the port.
    pub async fn stop(&self) {
        self.receiver.stop().await;
    }

    /// Opens it again.
    ///
    /// # Errors
    /// When somebody else has it.
    pub async fn restart(&self) -> Fallible<()> {
        let receiver = Arc::clone(&self.receiver);
        Ok(self.home.spawn(async move { receiver.restart().await }).await??)
    }
}

fn answer(recorder: &Recorder, mood: u64, request: &Request) -> Answer {
    let header = |name: &str| request.header(name).unwrap_or_default();
    if mood < HANGS {
        return Answer::Status([500, 503, 429][usize::try_from(mood).unwrap_or(0).min(2)]);
    }
    let delivered = Delivered {
        id: header("postrider-id").parse().unwrap_or_default(),
        at: recorder.now(),
        lane: header("postrider-lane").parse().unwrap_or(u16::MAX),
        term: header("postrider-term").parse().unwrap_or(-1),
        attempt: header("postrider-attempt").parse().unwrap_or(0),
        print: print(header("postrider-topic"), header("postrider-key"), header(NUMBER), &request.body),
    };
    recorder.open().delivered.push(delivered);
    if mood == HANGS { Answer::Hang } else { Answer::Status(204) }
}
