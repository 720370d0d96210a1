//! From PostgreSQL to NATS JetStream with the real binary, written by two other languages: `psql`, which calls
//! `postrider_enqueue`, and a Python program, which inserts the row in its own transaction.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../cli/harness.rs"]
mod harness;
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../outage/stream.rs"]
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::Place;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::servers::postgres::{Postgres, shared};
use stream::Received;

/// Debian's: the one that has Debian's `python3-psycopg`.
const PYTHON: &str = "/usr/bin/python3";
const KEYS: usize = 5;
const PER_KEY: usize = 20;
/// How long everything may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message as its writer knows it.
#[derive(Debug)]
struct Written {
    id: String,
    topic: String,
    key: String,
    payload: Vec<u8>,
    content_type: String,
    headers: BTreeMap<String, String>,
    committed: bool,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// `psql` writes: every message by a call of the function, in a transaction of its own; every tenth is rolled back.
async fn written_by_psql(server: &Postgres, database: &str) -> Vec<Written> {
    let mut written: Vec<Written> = Vec::new();
    let mut script = String::new();
    for n in 0..KEYS * PER_KEY {
        let payload = [&[0, 254, 10, 13][..], format!("order {n}").as_bytes()].concat();
        let headers = BTreeMap::from([("tenant".to_owned(), "blü".to_owned()), ("nth".to_owned(), n.to_string())]);
        let (topic, key) = (format!("orders.placed.{}", n % 3), format!("psql-{}", n % KEYS));
        let committed = n % 10 != 3;
        let end = if committed { "commit" } else { "rollback" };
        writeln!(
            script,
            "begin; select postrider_enqueue('{topic}', '{key}', '\\x{}', headers => '{}', content_type => \
             'application/octet-stream'); {end};",
            hex(&payload),
            serde_json::to_string(&headers).unwrap(),
        )
        .unwrap();
        let content_type = "application/octet-stream".to_owned();
        written.push(Written { id: String::new(), topic, key, payload, content_type, headers, committed });
    }
    let ids = server.psql(database, &script).await.unwrap();
    assert_eq!(ids.lines().count(), written.len());
    written.iter_mut().zip(ids.lines()).for_each(|(one, id)| id.clone_into(&mut one.id));
    written
}

/// What the Python program printed.
fn written_by_python(out: &str) -> Vec<Written> {
    let line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        Written {
            id: text("id"),
            topic: text("topic"),
            key: text("key"),
            payload: bytes(&text("payload")),
            content_type: text("content_type"),
            headers: serde_json::from_value(line["headers"].clone()).unwrap(),
            committed: line["committed"].as_bool().unwrap(),
        }
    };
    out.lines().map(line).collect()
}

/// Compares field by field; a message that nobody committed is in no place to be compared with.
fn compare(written: &[Written], received: &[Received]) {
    let by_id: HashMap<&str, &Written> =
        written.iter().filter(|one| one.committed).map(|one| (one.id.as_str(), one)).collect();
    for got in received {
        let one = by_id.get(got.id()).unwrap_or_else(|| panic!("nobody committed {:?}", got.headers));
        assert_eq!((&got.subject, got.payload.as_slice()), (&one.topic, one.payload.as_slice()), "{}", one.id);
        assert_eq!(got.header("Content-Type"), one.content_type);
        assert_eq!((got.header("postrider-id"), got.header("postrider-key")), (&*one.id, &*one.key));
        assert_eq!(got.header("postrider-topic"), one.topic);
        assert_eq!(got.header("postrider-attempt"), "1", "a quiet run publishes once");
        for (name, value) in &one.headers {
            assert_eq!(got.header(name), value, "{name}");
        }
    }
    assert_eq!(received.len(), by_id.len(), "each arrives once");
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    written.iter().filter(|one| one.committed).for_each(|one| keys.entry(&one.key).or_default().push(&one.id));
    for (key, ids) in &keys {
        let arrived: Vec<_> =
            received.iter().filter(|got| got.header("postrider-key") == *key).map(Received::id).collect();
        assert_eq!(&arrived, ids, "the order of key {key}");
    }
    println!(
        "{} committed and {} rolled back by psql and Python, {} received, {} keys in order, bytes and headers equal",
        by_id.len(),
        written.len() - by_id.len(),
        received.len(),
        keys.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_psql_and_python_write_arrives_in_jetstream_in_order_and_whole() {
    let what = "from PostgreSQL to NATS";
    let Some(server) = installed(what, shared().await) else { return };
    let Some(nats) = installed(what, NatsServer::start().await) else { return };
    let has_psycopg = Command::new(PYTHON).args(["-c", "import psycopg"]).stderr(Stdio::null()).status();
    if !has_psycopg.is_ok_and(|status| status.success()) {
        println!("NOT RUN: messages written by Python: {PYTHON} has no psycopg; apt-get install python3-psycopg");
        return;
    }
    let client = async_nats::connect(nats.url()).await.unwrap();
    stream::create(&client).await;
    let place = Place::empty();
    let database = server.create_database().await.unwrap();
    let url = server.url_for(&database);
    place.run(&["migrate", "--store", &url]).good();
    let arguments = ["relay", "--store", &url, "--broker", &nats.url(), "--log-format", "json"];
    let mut relay = place.start(&mut place.command(&[&arguments[..], &["--admin-listen", "127.0.0.1:0"]].concat()));

    let script = place.write("writer.py", include_str!("writer.py"));
    let mut python = Command::new(PYTHON);
    python.arg(script).args([&url, &KEYS.to_string(), &PER_KEY.to_string()]).stdout(Stdio::piped());
    let python = python.stderr(Stdio::piped()).spawn().unwrap();
    let mut written = written_by_psql(server, &database).await;
    let python = python.wait_with_output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    written.extend(written_by_python(&String::from_utf8(python.stdout).unwrap()));
    assert_eq!(written.len(), 2 * KEYS * PER_KEY);

    let committed = u64::try_from(written.iter().filter(|one| one.committed).count()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while stream::length(&client).await < committed {
        assert!(Instant::now() < deadline, "{} of {committed} arrived", stream::length(&client).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    relay.terminate();
    assert_eq!(relay.ended(), 0, "{}", relay.log());
    compare(&written, &stream::read(&client).await);
    assert_eq!(server.psql(&database, "select count(*) from postrider_outbox").await.unwrap(), "0");
}
