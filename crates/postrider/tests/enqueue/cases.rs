//! The behaviour that every driver has, written once.

use postrider::{EnqueueError, Message, MessageId, RetryOverride, Timestamp};
use uuid::Uuid;

/// How the caller's transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    Rollback,
}

/// What an application asks for in one transaction.
#[expect(clippy::large_enum_variant, reason = "a handful of them, in tests")]
pub enum Asked {
    One(Message),
    Many(Vec<Message>),
}

/// A row as a foreign reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub row: i64,
    pub id: Uuid,
    pub topic: String,
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub content_type: Option<String>,
    pub headers: Option<String>,
    pub attributes: Option<String>,
    pub deliver_at: Option<i64>,
    pub retry: Option<String>,
    pub state: i16,
}

/// A driver under test: one transaction that asks for each of these in turn.
///
/// A transaction in which an answer was [`EnqueueError::Invalid`] goes on and ends as asked.
pub trait Driver {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>>;
    async fn written(&self) -> Vec<Written>;
}

/// What an asynchronous transaction answers when it is asked for each of these in turn; then it ends.
macro_rules! transacted {
    ($tx:ident, $asked:ident, $end:ident) => {{
        let outbox = postrider::Outbox::new();
        let mut answers = Vec::new();
        for asked in $asked {
            answers.push(match asked {
                crate::cases::Asked::One(message) => outbox.enqueue(&mut $tx, message).await.map(|id| vec![id]),
                crate::cases::Asked::Many(messages) => outbox.enqueue_all(&mut $tx, messages).await,
            });
        }
        match $end {
            crate::cases::End::Commit => $tx.commit().await.unwrap(),
            crate::cases::End::Rollback => $tx.rollback().await.unwrap(),
        }
        answers
    }};
}

/// Runs every case against a driver; `$fresh` makes one with an empty outbox.
macro_rules! every_case {
    ($fresh:expr; $($case:ident),* $(,)?) => { $(
        #[tokio::test]
        async fn $case() {
            crate::cases::$case(&$fresh.await).await;
        }
    )* };
    ($fresh:expr) => { crate::cases::every_case! { $fresh;
        a_committed_message_is_there_as_it_was_given,
        the_plainest_message_is_there,
        a_rolled_back_message_is_not_there,
        many_messages_are_written_in_their_order,
        no_messages_are_no_rows,
        an_invalid_message_is_refused_and_its_transaction_goes_on,
        one_invalid_message_among_many_refuses_them_all,
        a_repeated_id_is_a_second_message,
        thousands_of_messages_are_one_call,
    } };
}
pub(crate) use {every_case, transacted};

fn awkward() -> Message {
    Message::new("orders.placed", b"\x00\xff{\"a\": 1}\n".to_vec())
        .key("customer 'ä' \"7\" \\x")
        .content_type("application/octet-stream")
        .header("zebra", "first, and stays first")
        .header("alpha", "ünï ' \" \\ $1 {outbox}")
        .correlation_id("c-1")
        .attribute("kafka.partition", "3")
        .deliver_at(Timestamp(4_102_444_800_123_457))
        .retry(RetryOverride { max_attempts: Some(3), ..RetryOverride::default() })
}

pub async fn a_committed_message_is_there_as_it_was_given(driver: &impl Driver) {
    let message = awkward();
    let answers = driver.transact(vec![Asked::One(message.clone())], End::Commit).await;
    assert_eq!(answers[0].as_ref().unwrap(), &[message.id]);
    let written = driver.written().await;
    let [row] = written.as_slice() else { panic!("{written:?}") };
    let expected = Written {
        row: row.row,
        id: message.id.0,
        topic: "orders.placed".to_owned(),
        key: Some("customer 'ä' \"7\" \\x".to_owned()),
        payload: b"\x00\xff{\"a\": 1}\n".to_vec(),
        content_type: Some("application/octet-stream".to_owned()),
        headers: Some(
            r#"{"zebra":"first, and stays first","alpha":"ünï ' \" \\ $1 {outbox}","correlation-id":"c-1"}"#.to_owned(),
        ),
        attributes: Some(r#"{"kafka.partition":"3"}"#.to_owned()),
        deliver_at: Some(4_102_444_800_123_457),
        retry: Some(r#"{"max_attempts":3}"#.to_owned()),
        state: 0,
    };
    assert_eq!(row, &expected);
}

pub async fn the_plainest_message_is_there(driver: &impl Driver) {
    let message = Message::new("t", "");
    driver.transact(vec![Asked::One(message.clone())], End::Commit).await.remove(0).unwrap();
    let row = driver.written().await.remove(0);
    assert_eq!((row.id, row.topic.as_str(), row.payload.as_slice()), (message.id.0, "t", b"".as_slice()));
    assert_eq!((row.key, row.content_type, row.headers), (None, None, None));
    assert_eq!((row.attributes, row.deliver_at, row.retry), (None, None, None));
}

pub async fn a_rolled_back_message_is_not_there(driver: &impl Driver) {
    let answers =
        driver.transact(vec![Asked::One(awkward()), Asked::Many(vec![awkward(), awkward()])], End::Rollback).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(driver.written().await, []);
}

pub async fn many_messages_are_written_in_their_order(driver: &impl Driver) {
    let messages: Vec<_> = (0..50).map(|n| Message::new("t", format!("{n}")).key(n % 3)).collect();
    let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
    let last = Message::new("t", "50");
    let answers = driver.transact(vec![Asked::Many(messages), Asked::One(last.clone())], End::Commit).await;
    assert_eq!(answers[0].as_ref().unwrap(), &ids);
    let written = driver.written().await;
    let payloads: Vec<_> = written.iter().map(|row| String::from_utf8(row.payload.clone()).unwrap()).collect();
    assert_eq!(payloads, (0..=50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(written.iter().map(|row| row.id).eq(ids.iter().chain([&last.id]).map(|id| id.0)));
}

pub async fn no_messages_are_no_rows(driver: &impl Driver) {
    let answers = driver.transact(vec![Asked::Many(vec![])], End::Commit).await;
    assert_eq!(answers[0].as_ref().unwrap(), &[]);
    assert_eq!(driver.written().await, []);
}

pub async fn an_invalid_message_is_refused_and_its_transaction_goes_on(driver: &impl Driver) {
    let bad = Message::new("orders placed", "x");
    let good = Message::new("orders.placed", "x");
    let answers = driver.transact(vec![Asked::One(bad.clone()), Asked::One(good.clone())], End::Commit).await;
    match &answers[0] {
        Err(EnqueueError::Invalid { place: 1, id, .. }) if *id == bad.id => {}
        other => panic!("{other:?}"),
    }
    assert!(answers[0].as_ref().unwrap_err().to_string().contains("topic"), "{answers:?}");
    assert!(answers[1].is_ok());
    assert_eq!(driver.written().await.iter().map(|row| row.id).collect::<Vec<_>>(), [good.id.0]);
}

pub async fn one_invalid_message_among_many_refuses_them_all(driver: &impl Driver) {
    let messages = vec![Message::new("t", ""), Message::new("t", "").key("a\0b"), Message::new("t", "")];
    let answers = driver.transact(vec![Asked::Many(messages)], End::Commit).await;
    assert!(matches!(answers[0], Err(EnqueueError::Invalid { place: 2, .. })), "{answers:?}");
    assert_eq!(driver.written().await, []);
}

pub async fn a_repeated_id_is_a_second_message(driver: &impl Driver) {
    let message = awkward();
    driver.transact(vec![Asked::One(message.clone())], End::Commit).await.remove(0).unwrap();
    driver.transact(vec![Asked::Many(vec![message.clone()])], End::Commit).await.remove(0).unwrap();
    let written = driver.written().await;
    assert_eq!(written.iter().map(|row| row.id).collect::<Vec<_>>(), [message.id.0; 2]);
    assert!(written[0].row < written[1].row);
}

pub async fn thousands_of_messages_are_one_call(driver: &impl Driver) {
    let count = 6_001;
    let messages: Vec<_> = (0..count).map(|n| Message::new("t", n.to_string())).collect();
    let ids = driver.transact(vec![Asked::Many(messages)], End::Commit).await.remove(0).unwrap();
    assert!(driver.written().await.iter().map(|row| row.id).eq(ids.iter().map(|id| id.0)));
    assert_eq!(ids.len(), count);
}
