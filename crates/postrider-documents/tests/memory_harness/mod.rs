//! A store in this process, which an outage that is played takes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{DocumentStore, ErrorKind};
use postrider_testkit::suites::documents::{DocumentHarness, Exclusion};
use postrider_testkit::troubled_documents::{Trouble, TroubledDocuments};

/// One store, whose clients are one and the same.
pub struct Harness {
    store: Arc<dyn DocumentStore>,
    away: Arc<AtomicBool>,
}

impl Harness {
    /// A harness around a store.
    pub fn new(store: impl DocumentStore + 'static) -> Self {
        let away = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&away);
        let store = TroubledDocuments::wrap(Arc::new(store), move |_| match asked.load(Ordering::SeqCst) {
            true => Trouble::FailBefore(ErrorKind::Unavailable),
            false => Trouble::None,
        });
        Self { store, away }
    }
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        Arc::clone(&self.store)
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        Arc::clone(&self.store)
    }

    async fn stop(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    async fn start(&self) {
        self.away.store(false, Ordering::SeqCst);
    }

    async fn crash(&self) {}

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[
            Exclusion { case: "what_is_not_prepared_says_what_to_do", reason: "there is nothing to prepare" },
            Exclusion { case: "what_was_answered_survives_a_crash", reason: "it ends with its process" },
        ]
    }
}
