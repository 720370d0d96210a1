//! Bad input that takes a process of its own: a relay that is frozen for three lease times, and one that may not
//! write its file. What a database can do to a relay is in `postrider-relay`, the rest of the clauses in `cli`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../cli/harness.rs"]
#[allow(dead_code, reason = "the other tests of the binary use the rest")]
mod harness;

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::{Place, Relay, until};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::servers::postgres::shared;

const KEYS: usize = 8;
/// The most messages of the calls under way to one endpoint.
const IN_FLIGHT: usize = 16;
const LEASE: Duration = Duration::from_secs(1);

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "SIG{name}");
}

/// Whether a process is stopped: its state is T.
fn stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
}

/// Freezes a process at a moment when others can write to its database, and says how often it was not such a moment.
///
/// An SQLite file has one writer at a time. One that is frozen inside its transaction keeps that lock until it goes on
/// or is killed, and nobody takes over meanwhile (docs/guarantees.md).
fn freeze(pid: u32, writable: &dyn Fn() -> bool) -> usize {
    let mut held = 0;
    until("a moment without the database's lock", || {
        signal(pid, "STOP");
        until("a stopped process", || stopped(pid).then_some(()));
        let free = writable();
        if !free {
            held += 1;
            signal(pid, "CONT");
        }
        free.then_some(held)
    })
}

/// One message that the receiver took: what it was, and under which term it was sent.
#[derive(Debug, Clone)]
struct Arrived {
    id: String,
    key: String,
    body: String,
    term: u64,
}

/// Freezes a relay with messages in flight for three lease times; another one takes over; then the first wakes up.
async fn frozen(place: &Place, url: &str, writable: &dyn Fn() -> bool) {
    let receiver = HttpReceiver::start().await.unwrap();
    let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
    let record = Arc::clone(&arrived);
    receiver.script(move |request, _| {
        let header = |name: &str| request.header(name).unwrap_or_default().to_owned();
        // Slow, so that messages are in flight at any moment.
        std::thread::sleep(Duration::from_millis(1));
        record.lock().unwrap().push(Arrived {
            id: header("webhook-id"),
            key: header("postrider-key"),
            body: String::from_utf8_lossy(&request.body).into_owned(),
            term: header("postrider-term").parse().unwrap(),
        });
        Answer::Status(204)
    });
    let write = |from: usize| {
        let line = |n: usize| format!("{{\"topic\":\"a\",\"key\":\"k{}\",\"payload\":\"{n:06}\"}}\n", n % KEYS);
        let lines: String = (from..from + 1_000).map(line).collect();
        let run = place.run_fed(lines.as_bytes(), &["enqueue", "--json-lines", "--store", url]);
        run.good().out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let start = |name: &str| -> Relay {
        let broker = receiver.url();
        let fixed =
            ["relay", "--store", url, "--broker", &broker, "--admin-listen", "127.0.0.1:0", "--relay-name", name];
        let more = ["--relay-lease", "1s", "--log-format", "json"];
        place.start(&mut place.command(&[&fixed[..], &more].concat()))
    };
    let first = start("first");
    until("a relay that relays", || (first.ask("/readyz", None).1 == "relaying\n").then_some(()));
    let _second = start("second");
    let lanes = |name: &str| {
        let status = place.run(&["status", "--json", "--store", url]).json();
        let member = status["members"].as_array().unwrap().iter().find(|member| member["name"] == name).cloned();
        let held = member.map_or(0, |member| member["lanes"].as_array().unwrap().len());
        (held, status["lanes"]["total"].as_u64().unwrap() as usize)
    };
    let half = |(held, total): (usize, usize)| (held * 2 == total).then_some(());
    until("even shares", || half(lanes("first")).and(half(lanes("second"))));
    let mut written = write(0);
    until("some messages", || (arrived.lock().unwrap().len() > 100).then_some(()));
    let held = freeze(first.pid(), writable);
    let frozen_at = Instant::now();
    println!("frozen after {held} moments in which it held the database's lock");
    written.extend(write(1_000));
    until("a takeover", || {
        let (held, total) = lanes("second");
        (held == total).then_some(())
    });
    until("everything", || {
        let known: HashSet<String> = arrived.lock().unwrap().iter().map(|one| one.id.clone()).collect();
        written.iter().all(|id| known.contains(id)).then_some(())
    });
    tokio::time::sleep((LEASE * 3).saturating_sub(frozen_at.elapsed())).await;
    assert!(stopped(first.pid()), "the first relay did not stay frozen");
    let before = arrived.lock().unwrap().len();
    let took_over = arrived.lock().unwrap().iter().map(|one| one.term).max().unwrap();
    assert!(took_over >= 2, "the takeover gave no new term");
    signal(first.pid(), "CONT");
    until("even shares again", || half(lanes("first")).and(half(lanes("second"))));
    written.extend(write(2_000));
    until("the messages after it woke up", || {
        let known: HashSet<String> = arrived.lock().unwrap().iter().map(|one| one.id.clone()).collect();
        written.iter().all(|id| known.contains(id)).then_some(())
    });
    let status = until("an empty outbox", || {
        let status = place.run(&["status", "--json", "--store", url]).json();
        (status["pending"]["value"] == 0).then_some(status)
    });
    assert_eq!((&status["dead"]["value"], &status["retrying"]["value"]), (&0.into(), &0.into()), "{status}");
    let arrived = arrived.lock().unwrap().clone();
    judge(&arrived, written.len(), before);
    // What the first had handed to its broker before it froze may still leave: repeats, and no more than a call holds.
    let known: HashSet<&str> = arrived[..before].iter().map(|one| one.id.as_str()).collect();
    let late: Vec<_> = arrived[before..].iter().filter(|one| one.term < took_over).collect();
    assert!(
        late.iter().all(|one| known.contains(one.id.as_str())),
        "the first went on as if it owned its lanes: {late:?}"
    );
    assert!(late.len() <= IN_FLIGHT, "{} messages left after the lease was over", late.len());
    assert!(!first.log().contains("\"level\":\"ERROR\""), "{}", first.log());
}

/// Nothing lost, first deliveries in order per key, repeats with the same content.
fn judge(arrived: &[Arrived], written: usize, before: usize) {
    let mut first: HashMap<&str, &Arrived> = HashMap::new();
    let mut last: HashMap<&str, &str> = HashMap::new();
    let mut repeats = 0;
    for one in arrived {
        if let Some(known) = first.get(one.id.as_str()) {
            assert_eq!((&known.key, &known.body), (&one.key, &one.body), "a repeat that is another message");
            repeats += 1;
            continue;
        }
        first.insert(&one.id, one);
        let previous = last.insert(&one.key, &one.body);
        assert!(previous.is_none_or(|previous| previous < one.body.as_str()), "{previous:?} came before {one:?}");
    }
    assert_eq!(first.len(), written);
    println!("frozen for three leases: {written} written, {repeats} repeats, {before} before it woke up");
    assert!(repeats < written / 2, "{repeats} repeats for {written} messages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigstop_for_three_lease_times_on_sqlite() {
    let place = Place::migrated();
    let path = place.path("app.db");
    let writable = || {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        other.execute_batch("begin immediate; rollback").is_ok()
    };
    frozen(&place, "sqlite:app.db", &writable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigstop_for_three_lease_times_on_postgresql() {
    let (place, server) = (Place::empty(), shared().await.unwrap());
    let url = server.fresh_database().await.unwrap();
    place.run(&["migrate", "--store", &url]).good();
    frozen(&place, &url, &|| true).await;
}

#[test]
fn an_sqlite_file_that_is_not_writable() {
    let place = Place::migrated();
    place.enqueue("a", "k", "waits");
    let chmod = |mode: &str, what: &str| {
        assert!(Command::new("chmod").args([mode, what]).current_dir(place.path("")).status().unwrap().success());
    };
    chmod("0444", "app.db");
    let relay = ["relay", "--until-empty", "--store", "sqlite:app.db", "--broker", "stdout:", "--admin-listen", "off"];
    // Root may write whatever the mode says, unless it gives that capability up.
    let binary = env!("CARGO_BIN_EXE_postrider");
    let capable =
        ["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search", binary];
    let mut as_root = postrider_testkit::command::command("setpriv");
    as_root.args(capable).args(relay).current_dir(place.path(""));
    let output = match as_root.output() {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).starts_with("setpriv:") => output,
        _ => place.command(&relay).output().unwrap(),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("write permission") && said.contains("next: "), "{said}");
    assert!(output.stdout.is_empty(), "something was delivered that could not be settled");
    chmod("0644", "app.db");
    place.drain("file:out.jsonl", &[]).good();
    assert_eq!(harness::lines(&place.path("out.jsonl")).len(), 1);
}
