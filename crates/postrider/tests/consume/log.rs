//! What the log says of it.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use postrider::ErrorKind;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::queue::Queue;
use crate::scene::{Act, Scene};

/// Every line, with its level and its fields.
#[derive(Debug, Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    /// What this thread logs from now on.
    fn begin() -> (Self, DefaultGuard) {
        let journal = Self::default();
        let guard = tracing::subscriber::set_default(journal.clone());
        (journal, guard)
    }

    fn lines(&self, having: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|line| line.contains(having)).cloned().collect()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("postrider")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("span {}", span.metadata().name()));
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_the_broker_is_told_once_for_each_change() {
    let (journal, _guard) = Journal::begin();
    let queue = Queue::new();
    let away = [ErrorKind::Unavailable; 5].into_iter().chain([ErrorKind::Config; 5]);
    queue.fail_takes(away.chain([ErrorKind::Unavailable]));
    queue.put("a", "book");
    let scene = Scene::start(&queue, |_, _| Act::Done);
    scene.until_empty().await;
    scene.stopped().await;
    let told = journal.lines("no messages can be taken");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].starts_with("WARN") && told[1].contains("kind=config"), "{told:?}");
    assert_eq!(journal.lines("messages can be taken again").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_line_names_the_message_and_its_place_and_shows_nothing_of_what_it_carries() {
    let (journal, _guard) = Journal::begin();
    let queue = Queue::new();
    let message = queue.put("a", "canary");
    queue.put_unreadable("canary");
    queue.fail_acknowledgements([ErrorKind::Unknown]);
    let scene = Scene::start(&queue, |_, nth| if nth == 1 { Act::Again } else { Act::Fail });
    scene.until_empty().await;
    scene.stopped().await;
    let of_it = journal.lines(&message.id.to_string());
    for line in ["span message", "message will be tried again", "message is given up and goes to the dead letters"] {
        assert!(of_it.iter().any(|one| one.contains(line) && one.contains("place=queue/1")), "{line}: {of_it:?}");
    }
    let of_the_other = journal.lines("place=queue/2");
    assert!(of_the_other.iter().any(|line| line.contains("given up unhandled")), "{of_the_other:?}");
    assert_eq!(journal.lines("not acknowledged").len(), 1);
    assert_eq!(journal.lines("canary"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_place_for_dead_letters_it_says_what_to_do() {
    let (journal, _guard) = Journal::begin();
    let queue = Queue::new();
    queue.put("a", "book");
    queue.put_unreadable("?");
    let scene = Scene::start_bare(&queue, |_, _| Act::GiveUp, |builder| builder);
    scene.until(|scene| scene.record.ended().len() == 2).await;
    scene.stopped().await;
    let said = journal.lines("ConsumerBuilder::dead_letters");
    for (place, level, count) in [("queue/1", "ERROR", 2), ("queue/2", "ERROR", 2), ("no place", "WARN", 1)] {
        let lines = said.iter().filter(|line| line.contains(place) && line.starts_with(level)).count();
        assert!((count - 1..=count).contains(&lines) && lines > 0, "{place}: {said:?}");
    }
}
