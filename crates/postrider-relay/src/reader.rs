//! Carries out reads, one after another on one connection.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::machine::{Answer, Event, Read, Wanted};
use postrider_core::{Error, ErrorKind, Page, Result, Source, Store};
use tokio::sync::mpsc;

use crate::hands::Signal;
use crate::telemetry;
use crate::unanswered::answered;

/// How long one read may take. A read that takes longer is given up with its connection.
const DEADLINE: Duration = Duration::from_secs(60);

/// Reads what it is asked to, until the asking end is dropped.
pub(crate) async fn read_all(
    store: Arc<dyn Store>,
    mut asked: mpsc::UnboundedReceiver<Read>,
    signals: mpsc::UnboundedSender<Signal>,
) {
    let mut source: Option<Box<dyn Source>> = None;
    let mut goes_on = false;
    while let Some(read) = asked.recv().await {
        let answer = match read.ahead && !goes_on {
            true => Answer::NotMade,
            false => make(&store, &mut source, &read).await,
        };
        goes_on = read.goes_on(&answer);
        if let Answer::Page(Page { discontinued: true, .. }) = &answer
            && signals.send(Signal::Discontinued).is_err()
        {
            return;
        }
        if signals.send(Signal::Machine(Event::Answered(read, answer))).is_err() {
            return;
        }
    }
}

async fn make(store: &Arc<dyn Store>, source: &mut Option<Box<dyn Source>>, read: &Read) -> Answer {
    let started = telemetry::started();
    let work = answered(carry_out(store, source, read), |since| telemetry::unanswered("read", since));
    let answer = tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| {
        let text = format!("reading took longer than {DEADLINE:?}; look for locks on the outbox table");
        Err(Error::new(ErrorKind::Unavailable, text))
    });
    telemetry::read_took(started);
    answer.unwrap_or_else(|error| {
        // The reader's memory of what it has read dies with its connection.
        *source = None;
        Answer::Failed(error)
    })
}

async fn carry_out(store: &Arc<dyn Store>, source: &mut Option<Box<dyn Source>>, read: &Read) -> Result<Answer> {
    let source = match source {
        Some(source) => source,
        None => source.insert(store.source().await?),
    };
    let Read { wanted, lanes, room, .. } = read;
    Ok(match wanted {
        Wanted::New => Answer::Page(source.read(lanes, *room).await?),
        Wanted::Due(window) => Answer::Page(source.due(lanes, *room, window).await?),
        Wanted::Key(lane, key) => match read.held(*lane) {
            Some(lane) => Answer::Page(source.key(lane, key, *room).await?),
            None => Answer::Page(Page::EMPTY),
        },
        Wanted::Walk(lane, after) => Answer::Keys(source.exceptional_keys(*lane, after.as_ref(), room.rows).await?),
        Wanted::Sweep(after) => Answer::Page(source.sweep(lanes, *after, *room).await?),
        Wanted::Rows(rows) => Answer::Page(source.load(rows, *room).await?),
    })
}

#[cfg(test)]
mod tests {
    use postrider_core::machine::{Action, Machine, Settings};
    use postrider_core::{HeldLane, Lane, LaneCount, Message, Room, Start, Term, Tick};
    use postrider_stores::History;
    use postrider_stores::memory::MemoryStore;

    use super::*;

    /// A read of new rows of the only lane, two at most.
    fn look(ahead: bool) -> Read {
        let mut machine = Machine::new(Settings::new(Vec::new(), Vec::new()));
        let held = HeldLane { lane: Lane(0), term: Term(1), start: Start::Clean };
        machine.on(Tick::ZERO, Event::Gained(vec![held]));
        machine.on(Tick::ZERO, Event::Trusted(Tick::FAR));
        let asked = machine.actions(Tick::ZERO).into_iter().find_map(|action| match action {
            Action::Read(read) => Some(read),
            _ => None,
        });
        Read { wanted: Wanted::New, room: Room { rows: 2, bytes: 1 << 20 }, ahead, ..asked.unwrap() }
    }

    /// Else the machine takes a page for the next one that is not.
    #[tokio::test]
    async fn what_was_asked_for_ahead_is_read_only_where_the_read_before_it_goes_on() {
        let store = MemoryStore::new(LaneCount::ONE, History::Off);
        store.enqueue_committed(&vec![Message::new("t", ""); 5]);
        let (ask, asked) = mpsc::unbounded_channel();
        let (signals, mut heard) = mpsc::unbounded_channel();
        [false, true, true, true, true, false].into_iter().for_each(|ahead| ask.send(look(ahead)).unwrap());
        drop(ask);
        read_all(Arc::new(store), asked, signals).await;
        let mut rows = Vec::new();
        while let Some(signal) = heard.recv().await {
            let Signal::Machine(Event::Answered(_, answer)) = signal else { panic!("{signal:?}") };
            rows.push(match answer {
                Answer::Page(page) => Some(page.rows.len()),
                Answer::NotMade => None,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(rows, [Some(2), Some(2), Some(1), None, None, Some(0)]);
    }
}
