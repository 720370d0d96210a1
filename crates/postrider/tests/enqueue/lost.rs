//! Connections that end at the commit, seen from the next delivery: what was recorded is what happened, whichever it is.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use postrider::{Begun, Epoch, Inbox, MessageId, Seen, StoredAnswer};
use postrider_testkit::proxy::{Passage, Proxy};
use tokio::time::timeout;

use crate::keys::{ASKED, counting, created, key};
use crate::postgres::connect;
use crate::{mysql, postgres};

const CONSUMER: &str = "billing";
const CREATE: &str = "create table effect (id int primary key)";
const EFFECT: &str = "insert into effect values (1)";
const EFFECTS: &str = "select count(*) from effect";

/// What becomes of the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commit {
    /// It happens, and its answer is lost with the connection.
    Unanswered,
    /// It does not reach the server, whose connection ends.
    Unsent,
}

/// What inbox, token and key say in one transaction, one after the other.
type Said = (Seen, Seen, Begun<StoredAnswer>);

const FIRST: Said = (Seen::First, Seen::First, Begun::Started(Epoch(2)));

/// What they are to say of the next delivery.
fn again(how: Commit) -> Said {
    match how {
        Commit::Unanswered => (Seen::Repeat, Seen::Repeat, Begun::Replay(created("done"))),
        Commit::Unsent => FIRST,
    }
}

async fn spoil<E>(proxy: &Proxy, how: Commit, commit: impl Future<Output = Result<(), E>>) {
    match how {
        Commit::Unanswered => {
            proxy.lose_answer();
            assert!(commit.await.is_err());
        }
        Commit::Unsent => {
            proxy.pass(Passage::HeldToServer);
            assert!(timeout(Duration::from_millis(50), commit).await.is_err());
            proxy.cut();
        }
    }
}

/// The sender issues the token; a server that died had begun the request.
macro_rules! before {
    ($tx:expr, $id:expr) => {{
        Inbox::new().issue_token($tx, CONSUMER, $id).await.unwrap();
        let begun = counting().begin($tx, &key(), ASKED, Duration::ZERO).await.unwrap();
        assert_eq!(begun, Begun::Started(Epoch(1)));
    }};
}

/// Asks all three inside one transaction, which has the effect where they are the first.
macro_rules! delivered {
    ($tx:expr, $id:expr, $effect:expr) => {{
        let (inbox, keys) = (Inbox::new(), counting());
        let seen = inbox.first_seen($tx, CONSUMER, $id).await.unwrap();
        let taken = inbox.take_token($tx, CONSUMER, $id).await.unwrap();
        let begun = keys.begin($tx, &key(), ASKED, Duration::ZERO).await.unwrap();
        if let Begun::Started(epoch) = begun {
            $effect.await.unwrap();
            keys.answer($tx, &key(), epoch, created("done")).await.unwrap();
        }
        (seen, taken, begun)
    }};
}

#[tokio::test]
async fn on_postgresql_what_was_recorded_at_a_commit_that_was_cut_is_what_happened() {
    for how in [Commit::Unanswered, Commit::Unsent] {
        let database = postgres::Database::fresh().await;
        let port = database.url.parse::<tokio_postgres::Config>().unwrap().get_ports()[0];
        let proxy = Proxy::start(([127, 0, 0, 1], port).into(), b"").await.unwrap();
        let (mut straight, id) = (connect(&database.url).await, MessageId::fresh());
        straight.batch_execute(CREATE).await.unwrap();
        let tx = straight.transaction().await.unwrap();
        before!(&tx, id);
        tx.commit().await.unwrap();

        let through = database.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
        let mut client = connect(&through).await;
        let tx = client.transaction().await.unwrap();
        assert_eq!(delivered!(&tx, id, tx.batch_execute(EFFECT)), FIRST);
        spoil(&proxy, how, tx.commit()).await;

        let tx = straight.transaction().await.unwrap();
        assert_eq!(delivered!(&tx, id, tx.batch_execute(EFFECT)), again(how), "{how:?}");
        tx.commit().await.unwrap();
        assert_eq!(straight.query_one(EFFECTS, &[]).await.unwrap().get::<_, i64>(0), 1, "{how:?}");
    }
}

#[tokio::test]
async fn on_mysql_what_was_recorded_at_a_commit_that_was_cut_is_what_happened() {
    for how in [Commit::Unanswered, Commit::Unsent] {
        let database = mysql::Database::fresh().await;
        let options = Opts::from_url(&database.url).unwrap();
        let proxy = Proxy::start(([127, 0, 0, 1], options.tcp_port()).into(), b"").await.unwrap();
        let (mut straight, id) = (Conn::new(options.clone()).await.unwrap(), MessageId::fresh());
        straight.query_drop(CREATE).await.unwrap();
        let mut tx = straight.start_transaction(TxOpts::default()).await.unwrap();
        before!(&mut tx, id);
        tx.commit().await.unwrap();

        let mut client =
            Conn::new(OptsBuilder::from_opts(options).tcp_port(proxy.port()).prefer_socket(false)).await.unwrap();
        let mut tx = client.start_transaction(TxOpts::default()).await.unwrap();
        assert_eq!(delivered!(&mut tx, id, tx.query_drop(EFFECT)), FIRST);
        spoil(&proxy, how, tx.commit()).await;

        let mut tx = straight.start_transaction(TxOpts::default()).await.unwrap();
        assert_eq!(delivered!(&mut tx, id, tx.query_drop(EFFECT)), again(how), "{how:?}");
        tx.commit().await.unwrap();
        assert_eq!(straight.query_first::<i64, _>(EFFECTS).await.unwrap(), Some(1), "{how:?}");
    }
}
