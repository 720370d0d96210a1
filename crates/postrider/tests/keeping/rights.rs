//! A relay whose role lacks a right on the inbox says which, and what grants it.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::MemoryBroker;
use postrider::stores::{self, StoreOptions, postgres};
use postrider::{
    Begun, CancellationToken, DestinationName, DestinationTemplate, Epoch, ErrorKind, Fingerprint, IdempotencyKeys,
    Inbox, Message, MessageId, Outbox, Relay, ScopedKey, Seen, Store, StoredAnswer,
};
use postrider_core::{Level, Operator};

use crate::DAY;
use crate::applications::{Application, Postgres};

/// A login role of its own with these grants: where it connects to, and its name.
async fn login(app: &Postgres, grants: &str) -> (String, String) {
    let role = format!("keeper_{}", uuid::Uuid::new_v4().simple());
    let create = format!("create role {role} login password 'secret'; {}", grants.replace("<role>", &role));
    app.client.batch_execute(&create).await.unwrap();
    let (scheme, rest) = app.url.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    (format!("{scheme}://{role}:secret@{host}"), role)
}

/// The store as a login role of its own with these grants has it; the name of the role.
async fn store_of(app: &Postgres, grants: &str) -> (Arc<dyn Store>, String) {
    let (url, role) = login(app, grants).await;
    (stores::open(&url, &StoreOptions::default()).await.unwrap(), role)
}

/// The operator of such a role; the name of the role.
async fn operator_of(app: &Postgres, grants: &str) -> (Box<dyn Operator>, String) {
    let (store, role) = store_of(app, grants).await;
    (store.operator().await.unwrap(), role)
}

/// What a relay may do that keeps no inbox.
const RELAY_ALONE: &str = "
grant select, update, delete on postrider_outbox to <role>;
grant select, insert, update, delete on postrider_relay to <role>;
grant select, update on postrider_lane to <role>;
grant select, insert on postrider_boot to <role>;
grant select, insert, delete on postrider_delivered to <role>;
grant select on postrider_meta to <role>";

#[tokio::test]
async fn a_relay_that_may_not_keep_the_inbox_relays_all_the_same() {
    let mut app = Postgres::fresh().await;
    let (store, _) = store_of(&app, RELAY_ALONE).await;
    let broker = Arc::new(MemoryBroker::recording());
    let relay = Relay::builder(store)
        .destination(DestinationName::new("memory"), Arc::clone(&broker) as _, DestinationTemplate::topic())
        .inbox(DAY)
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let relaying = tokio::spawn(relay.run(stop.clone()));
    for count in 1..=2 {
        let tx = app.client.transaction().await.unwrap();
        Outbox::new().enqueue(&tx, Message::new("t", "x")).await.unwrap();
        tx.commit().await.unwrap();
        let delivered = async {
            while broker.accepted() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), delivered).await.unwrap();
    }
    stop.cancel();
    assert_eq!(relaying.await.unwrap().unwrap().delivered, 2);
}

#[tokio::test]
async fn a_missing_right_is_named_with_what_grants_it() {
    let app = Postgres::fresh().await;
    let before = "grant select on postrider_meta, postrider_lane, postrider_outbox to <role>;";
    let (mut operator, role) = operator_of(&app, before).await;
    let error = operator.forget(DAY, 10).await.unwrap_err();
    let told = error.story_and_advice();
    assert_eq!(error.kind(), ErrorKind::Config, "{told}");
    assert!(told.contains(&role) && told.contains("inbox_span"), "{told}");
    app.client.batch_execute(&format!("grant select on postrider_inbox_span to {role}")).await.unwrap();
    let told = operator.forget(DAY, 10).await.unwrap_err().story_and_advice();
    assert!(told.contains("grant execute on function") && told.contains("postrider_inbox_forget(integer)"), "{told}");
    let findings = operator.check_inbox().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level == Level::Warning), "{findings:?}");
    let missing: Vec<&str> = findings.iter().map(|finding| finding.found.as_str()).collect();
    for name in ["postrider_inbox_refused", "postrider_inbox_keep", "postrider_inbox_foreign"] {
        assert!(missing.iter().any(|found| found.contains(name)), "{missing:?}");
    }
}

#[tokio::test]
async fn the_documented_role_of_the_relay_may_keep_the_inbox() {
    let mut app = Postgres::fresh().await;
    app.client.batch_execute(&postgres::roles(&postgres::Names::default())).await.unwrap();
    app.refuse("billing", postrider::Message::new("t", "x")).await;
    let (mut operator, _) = operator_of(&app, "grant postrider_relay to <role>;").await;
    operator.forget(DAY, 10).await.unwrap();
    assert_eq!(operator.inbox(10).await.unwrap().consumers.len(), 1);
    assert_eq!(operator.discard_refused(&Default::default(), 10).await.unwrap().len(), 1);
    let findings = operator.check_inbox().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level == Level::Good), "{findings:?}");
}

#[tokio::test]
async fn the_documented_role_of_the_receiver_may_record_messages_and_answer_requests() {
    let app = Postgres::fresh().await;
    app.client.batch_execute(&postgres::roles(&postgres::Names::default())).await.unwrap();
    let (url, _) = login(&app, "grant postrider_receiver to <role>;").await;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let seen = Inbox::new().first_seen(&tx, "billing", MessageId::fresh()).await.unwrap();
    assert_eq!(seen, Seen::First);
    let (keys, key) =
        (IdempotencyKeys::new().first_epoch(Epoch(1)), ScopedKey::new("alice", "POST /orders", "k").unwrap());
    for epoch in [1, 2].map(Epoch) {
        let begun = keys.begin(&tx, &key, Fingerprint([7; 32]), DAY).await.unwrap();
        assert_eq!(begun, Begun::Started(epoch));
        keys.release(&tx, &key, epoch).await.unwrap();
    }
    keys.answer(&tx, &key, Epoch(2), StoredAnswer { status: 204, ..StoredAnswer::default() }).await.unwrap();
    assert_eq!(keys.forget_key(&tx, &key).await.unwrap(), 1);
    keys.forget(&tx, DAY).await.unwrap();
    tx.commit().await.unwrap();
    let refused = client.query("select from postrider_outbox", &[]).await.unwrap_err();
    assert_eq!(refused.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
}
