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
