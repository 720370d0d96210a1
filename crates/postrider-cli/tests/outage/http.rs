//! An HTTP endpoint that can be told what to answer.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

/// What makes the endpoint drop the connection.
pub const MARK: &str = "this one is poison";

pub struct Endpoint {
    receiver: HttpReceiver,
    status: Arc<AtomicU16>,
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    pub async fn start() -> Self {
        let receiver = HttpReceiver::start().await.unwrap();
        let (status, accepted) = (Arc::new(AtomicU16::new(204)), Arc::<Mutex<Vec<String>>>::default());
        let (answer, kept) = (Arc::clone(&status), Arc::clone(&accepted));
        receiver.script(move |request, _| {
            if request.body.windows(MARK.len()).any(|window| window == MARK.as_bytes()) {
                return Answer::Close;
            }
            let status = answer.load(Ordering::SeqCst);
            if status == 204 {
                kept.lock().unwrap().push(request.header("webhook-id").unwrap_or_default().to_owned());
            }
            Answer::Status(status)
        });
        Self { receiver, status, accepted }
    }

    pub fn broker(&self) -> String {
        format!("url = \"{}\"\ntimeout = \"5s\"", self.receiver.url())
    }

    pub fn answers_500(&self) {
        self.status.store(500, Ordering::SeqCst);
    }

    pub fn answers_204(&self) {
        self.status.store(204, Ordering::SeqCst);
    }

    /// How often it dropped a connection.
    pub fn dropped(&self) -> usize {
        let poisoned = |body: &[u8]| body.windows(MARK.len()).any(|window| window == MARK.as_bytes());
        self.receiver.requests().iter().filter(|request| poisoned(&request.body)).count()
    }

    /// The ids that it accepted, in the order of their arrival.
    pub fn ids(&self) -> Vec<String> {
        self.accepted.lock().unwrap().clone()
    }
}
