//! The limit: what this machine can do at all with the same table and the same client.
//!
//! A minimal pipeline reads pages by primary key, publishes each message with its acknowledgement, and deletes the
//! page: no decisions, no order, no retries, no fence, no leases. It runs on two connections with prepared statements,
//! and reading, publishing and deleting overlap.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use postrider_bench::drain::Drained;
use postrider_bench::load::Load;
use postrider_bench::witness::{Book, Moments};
use tokio::sync::mpsc;
use tokio_postgres::{Client, Row};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::database::connect;

/// Rows of one page.
const PAGE: i64 = 4_096;
/// Pages under way between two steps.
const AHEAD: usize = 2;
const READ: &str = "\
select id, message_id, topic, key, payload from postrider_outbox where id > $1 order by id limit $2";
const DELETE: &str = "delete from postrider_outbox where id = any($1)";

/// When a pipeline that reads what comes reads again.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// At once while it finds something; so long after it found nothing.
    Eager(Duration),
    /// So long after every page that was not full.
    Even(Duration),
}

/// Reads and deletes; publishes in between where there is a broker. All of the load, or it panics.
pub async fn pipeline(url: &str, load: &Load, broker: Option<&Context>) -> Drained {
    let book = Arc::new(Book::new(load.messages, Moments::NotKept));
    let began = Instant::now();
    let (to_publish, pages) = mpsc::channel(AHEAD);
    let (to_delete, published) = mpsc::channel(AHEAD);
    let reading = tokio::spawn(read(url.to_owned(), to_publish));
    let deleting = tokio::spawn(delete(connect(url).await, published, mpsc::unbounded_channel().0));
    match broker {
        None => pass_on(pages, to_delete, &book).await,
        Some(context) => publish(context.clone(), pages, to_delete, &book).await,
    }
    reading.await.unwrap();
    deleting.await.unwrap();
    let mut verdict = book.verdict(load.messages);
    // The limit keeps no order, so it has none to break.
    verdict.order = None;
    Drained { took: began.elapsed(), verdict }.as_limit().unwrap()
}

/// Reads whatever has come, publishes it where there is a broker, and deletes it, until it is told to stop: the limit of
/// how soon a message that was written just now is acknowledged, and of what that costs the application. Like the relay
/// it does not wait until the disk has what it deleted.
pub async fn steadily(url: String, broker: Option<Context>, pace: Pace, book: Arc<Book>, stop: CancellationToken) {
    let (to_publish, pages) = mpsc::channel(AHEAD);
    let (to_delete, published) = mpsc::channel(AHEAD);
    let (deleted, gone) = mpsc::unbounded_channel();
    let deleter = connect(&url).await;
    deleter.batch_execute("set synchronous_commit = off").await.unwrap();
    let reading = tokio::spawn(read_as_they_come(url.clone(), pace, to_publish, gone, stop));
    let deleting = tokio::spawn(delete(deleter, published, deleted));
    match broker {
        None => pass_on(pages, to_delete, &book).await,
        Some(context) => publish(context, pages, to_delete, &book).await,
    }
    reading.await.unwrap();
    deleting.await.unwrap();
}

async fn read_as_they_come(
    url: String,
    pace: Pace,
    pages: mpsc::Sender<Vec<Row>>,
    mut gone: mpsc::UnboundedReceiver<Vec<i64>>,
    stop: CancellationToken,
) {
    let client = connect(&url).await;
    let statement = client.prepare(READ).await.unwrap();
    let mut in_hand: HashSet<i64> = HashSet::new();
    while !stop.is_cancelled() {
        // Before the reading, so that nothing is forgotten that it still sees.
        while let Ok(ids) = gone.try_recv() {
            for id in ids {
                in_hand.remove(&id);
            }
        }
        let mut rows = client.query(&statement, &[&0_i64, &PAGE]).await.unwrap();
        let is_full = i64::try_from(rows.len()).is_ok_and(|rows| rows == PAGE);
        rows.retain(|row| in_hand.insert(row.get(0)));
        let pause = match pace {
            Pace::Eager(pause) => Some(pause).filter(|_| rows.is_empty()),
            Pace::Even(pause) => Some(pause).filter(|_| !is_full),
        };
        if !rows.is_empty() {
            pages.send(rows).await.unwrap();
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

async fn read(url: String, pages: mpsc::Sender<Vec<Row>>) {
    let client = connect(&url).await;
    let statement = client.prepare(READ).await.unwrap();
    let mut last = 0_i64;
    loop {
        let rows = client.query(&statement, &[&last, &PAGE]).await.unwrap();
        let Some(row) = rows.last() else { return };
        last = row.get(0);
        pages.send(rows).await.unwrap();
    }
}

async fn delete(client: Client, mut published: mpsc::Receiver<Vec<i64>>, deleted: mpsc::UnboundedSender<Vec<i64>>) {
    let statement = client.prepare(DELETE).await.unwrap();
    while let Some(ids) = published.recv().await {
        assert_eq!(client.execute(&statement, &[&ids]).await.unwrap(), ids.len() as u64);
        // Who reads a backlog once does not listen.
        let _ = deleted.send(ids);
    }
}

async fn pass_on(mut pages: mpsc::Receiver<Vec<Row>>, to_delete: mpsc::Sender<Vec<i64>>, book: &Book) {
    while let Some(rows) = pages.recv().await {
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(row.get(0));
            book.note(row.get(4), None);
        }
        to_delete.send(ids).await.unwrap();
    }
}

async fn publish(
    context: Context,
    mut pages: mpsc::Receiver<Vec<Row>>,
    to_delete: mpsc::Sender<Vec<i64>>,
    book: &Arc<Book>,
) {
    let (sent, mut awaited) = mpsc::channel::<Vec<(i64, Bytes, PublishAckFuture)>>(AHEAD);
    let book = Arc::clone(book);
    let acknowledging = tokio::spawn(async move {
        while let Some(page) = awaited.recv().await {
            let mut ids = Vec::with_capacity(page.len());
            for (id, payload, acknowledged) in page {
                acknowledged.await.unwrap();
                book.note(&payload, None);
                ids.push(id);
            }
            to_delete.send(ids).await.unwrap();
        }
    });
    while let Some(rows) = pages.recv().await {
        // Smaller than the number in flight, so that one page is acknowledged while the next is sent.
        for chunk in rows.chunks(1_000) {
            let mut page = Vec::with_capacity(chunk.len());
            for row in chunk {
                let payload = Bytes::copy_from_slice(row.get(4));
                let (id, topic, key) = (row.get::<_, Uuid>(1).to_string(), row.get::<_, &str>(2), row.get(3));
                let message = PublishMessage::build().payload(payload.clone()).headers(wire(&id, topic, key));
                page.push((row.get(0), payload, context.send_publish(topic.to_owned(), message).await.unwrap()));
            }
            sent.send(page).await.unwrap();
        }
    }
    drop(sent);
    acknowledging.await.unwrap();
}

/// The message on the wire is the product's: the same headers.
fn wire(id: &str, topic: &str, key: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("postrider-id", id);
    headers.insert("postrider-topic", topic);
    headers.insert("postrider-key", key);
    headers.insert("postrider-attempt", "1");
    headers.insert("postrider-lane", "1");
    headers.insert("postrider-term", "1");
    headers.insert("Nats-Msg-Id", id);
    headers
}

/// The server deletes page after page by itself: no client, no reading, nothing on the wire.
pub async fn server_side(url: &str, load: &Load) -> Duration {
    let client = connect(url).await;
    let began = Instant::now();
    client
        .batch_execute(&format!(
            "do $$ declare last bigint := (select min(id) from postrider_outbox); n bigint; begin
               loop
                 delete from postrider_outbox where id >= last and id < last + {PAGE};
                 get diagnostics n = row_count; exit when n = 0; last := last + {PAGE}; commit;
               end loop; end $$"
        ))
        .await
        .unwrap();
    let took = began.elapsed();
    let left: i64 = client.query_one("select count(*) from postrider_outbox", &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "of {}", load.messages);
    took
}

/// The client publishes with acknowledgements and nothing else happens.
pub async fn client_alone(context: &Context, load: &Load) -> Duration {
    let (sent, mut awaited) = mpsc::channel::<Vec<PublishAckFuture>>(AHEAD);
    let began = Instant::now();
    let acknowledging = tokio::spawn(async move {
        while let Some(page) = awaited.recv().await {
            for acknowledged in page {
                acknowledged.await.unwrap();
            }
        }
    });
    let mut page = Vec::new();
    for number in 0..load.messages {
        let message = load.message(number);
        let id = message.id.to_string();
        let headers = wire(&id, message.topic.as_str(), message.key.as_ref().map_or("", |key| key.as_str()));
        let publish = PublishMessage::build().payload(message.payload).headers(headers);
        page.push(context.send_publish(message.topic.to_string(), publish).await.unwrap());
        if page.len() == 1_000 {
            sent.send(std::mem::take(&mut page)).await.unwrap();
        }
    }
    sent.send(page).await.unwrap();
    drop(sent);
    acknowledging.await.unwrap();
    began.elapsed()
}

/// Deletes rows every ten milliseconds until so many are gone.
pub async fn delete_as_they_come(url: String, messages: u64) {
    let client = connect(&url).await;
    let sql =
        "delete from postrider_outbox where id = any(array(select id from postrider_outbox order by id limit 4096))";
    let statement = client.prepare(sql).await.unwrap();
    let mut gone = 0;
    while gone < messages {
        gone += client.execute(&statement, &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
