//! A database with an outbox, the relays over it, and everything that can be seen of them.

use std::collections::{BTreeMap, HashSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::servers::postgres::shared;
use postrider_testkit::servers::process::ServerError;
use postrider_testkit::verdict::{Committed, Verdict, judge};
use tokio_postgres::{Client, NoTls};

use crate::harness::{Place, Relay};
use crate::lease;

/// How long anything may take that has no promise of its own.
const PATIENCE: Duration = Duration::from_secs(120);

const SHARES: &str = "select r.name, count(l.lane) from postrider_relay r left join postrider_lane l on l.owner = r.id \
    where r.expires_at > clock_timestamp() group by r.id, r.name";
const FIRST: &str = "select name from postrider_relay where expires_at > clock_timestamp() order by id limit 1";
const LANES_OF: &str = "select l.lane, l.term from postrider_lane l join postrider_relay r on r.id = l.owner \
    where r.name = $1";
const LEFT: &str = "select count(*) from postrider_outbox";

/// One message that the receiver took.
#[derive(Debug, Clone)]
struct Arrived {
    id: String,
    lane: i16,
    term: i64,
    at: Instant,
}

/// Sends a signal.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success(), "SIG{name}");
}

pub struct Scene {
    place: Place,
    url: String,
    client: Client,
    receiver: HttpReceiver,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    relays: BTreeMap<String, Relay>,
    started: Instant,
}

impl Scene {
    /// A fresh database with the tables, and nothing running.
    ///
    /// # Errors
    /// When PostgreSQL is not there.
    pub async fn set() -> Result<Self, ServerError> {
        Self::with(&[]).await
    }

    /// The same, with flags of `postrider migrate`.
    ///
    /// # Errors
    /// When PostgreSQL is not there.
    pub async fn with(flags: &[&str]) -> Result<Self, ServerError> {
        let (server, place) = (shared().await?, Place::empty());
        let url = server.fresh_database().await?;
        place.run(&[&["migrate", "--store", &url][..], flags].concat()).good();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let receiver = HttpReceiver::start().await?;
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let record = Arc::clone(&arrived);
        receiver.script(move |request, _| {
            let header = |name: &str| request.header(name).unwrap_or_default().to_owned();
            record.lock().unwrap().push(Arrived {
                id: header("webhook-id"),
                lane: header("postrider-lane").parse().unwrap(),
                term: header("postrider-term").parse().unwrap(),
                at: Instant::now(),
            });
            Answer::Status(204)
        });
        Ok(Self { place, url, client, receiver, arrived, relays: BTreeMap::new(), started: Instant::now() })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Starts relays of this build.
    pub fn start(&mut self, names: &[&str]) {
        for name in names {
            self.start_build(name, env!("CARGO_BIN_EXE_postrider"));
        }
    }

    /// Starts a relay of some build.
    pub fn start_build(&mut self, name: &str, program: &str) {
        let lease = format!("{}s", lease().as_secs());
        let mut command = postrider_testkit::command::command(program);
        command.current_dir(self.place.path(""));
        command.args(["relay", "--store", &self.url, "--broker", &self.receiver.url(), "--relay-name", name]);
        command.args(["--relay-lease", &lease, "--admin-listen", "127.0.0.1:0", "--log-format", "json"]);
        let relay = self.place.start(&mut command);
        self.relays.insert(name.to_owned(), relay);
    }

    pub fn pid(&self, name: &str) -> u32 {
        self.relays[name].pid()
    }

    /// Ends a relay with SIGKILL.
    pub fn kill(&mut self, name: &str) {
        signal(self.pid(name), "KILL");
        self.relays.remove(name);
    }

    /// Stops a relay gracefully, whatever it holds.
    pub fn end(&mut self, name: &str) {
        let mut relay = self.relays.remove(name).unwrap();
        relay.terminate();
        assert_eq!(relay.ended(), 0, "{}", relay.log());
    }

    async fn shares(&self) -> BTreeMap<String, i64> {
        let rows = self.client.query(SHARES, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The living relay that has the only lane.
    pub async fn leader(&self) -> Option<String> {
        self.shares().await.into_iter().find(|(_, lanes)| *lanes == 1).map(|(name, _)| name)
    }

    /// Waits until the only lane is with the living relay that has the first id, whose share it is: its name.
    ///
    /// Of two that start at once the other one may be a member first, and leads until it knows of this one.
    pub async fn led_by_the_first(&self) -> String {
        let since = Instant::now();
        loop {
            let first: String = self.client.query_one(FIRST, &[]).await.unwrap().get(0);
            if self.leader().await.as_ref() == Some(&first) {
                return first;
            }
            assert!(since.elapsed() < PATIENCE, "{first} has the first id and does not lead");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until another relay than this one leads: its name.
    pub async fn led_by_another_than(&self, name: &str) -> String {
        let since = Instant::now();
        loop {
            if let Some(leader) = self.leader().await.filter(|leader| leader != name) {
                return leader;
            }
            assert!(since.elapsed() < PATIENCE, "nobody takes over from {name}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until so many more messages arrived.
    pub async fn moves(&self, count: usize) {
        let (since, before) = (Instant::now(), self.arrived.lock().unwrap().len());
        while self.arrived.lock().unwrap().len() < before + count {
            assert!(since.elapsed() < PATIENCE, "messages do not move");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What `postrider status` says of the whole, as text and as JSON.
    pub fn status(&self, asked: &str) -> (String, serde_json::Value) {
        let run = |more: &[&str]| {
            let asked = ["status", "--store", &self.url, "--admin", &self.relays[asked].admin];
            self.place.run(&[&asked[..], more].concat())
        };
        tokio::task::block_in_place(|| (run(&[]).out, run(&["--json"]).json()))
    }

    /// Waits until there are so many living members.
    pub async fn members(&self, count: usize) {
        let since = Instant::now();
        while self.shares().await.len() != count {
            assert!(since.elapsed() < PATIENCE, "there are not {count} members");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until each relay has its share, which must not take longer than this from now.
    pub async fn comes_to(&self, what: &str, shares: &[(&str, i64)], limit: Duration) {
        let since = Instant::now();
        let mut wanted: Vec<i64> = shares.iter().map(|(_, lanes)| *lanes).collect();
        let mut names: Vec<&str> = shares.iter().map(|(name, _)| *name).collect();
        wanted.sort_unstable();
        names.sort_unstable();
        loop {
            let now = self.shares().await;
            let mut counts: Vec<i64> = now.values().copied().collect();
            counts.sort_unstable();
            if counts == wanted && now.keys().map(String::as_str).eq(names.iter().copied()) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{what}: {now:?} and not {shares:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = since.elapsed();
        println!(
            "{:>6.1}s {what}: even shares after {took:.1?}, {limit:.1?} are allowed",
            self.elapsed().as_secs_f64()
        );
        assert!(took <= limit, "{what}: {took:?}");
    }

    /// `postrider status` tells the same, as text and as JSON, with every lane, owner and term.
    pub async fn shows(&self, shares: &[(&str, i64)]) {
        let (text, json) = self.status("one");
        let members = json["members"].as_array().unwrap();
        let mut counts: Vec<usize> = Vec::new();
        for (name, _) in shares {
            let member = members.iter().find(|member| member["name"] == *name).unwrap_or_else(|| panic!("{json}"));
            let id = member["id"].as_str().unwrap();
            let owned = json["lanes"]["owners"].as_array().unwrap().iter().filter(|lane| lane["owner"] == id);
            assert!(owned.clone().all(|lane| lane["term"].as_i64() > Some(0)), "{json}");
            counts.push(owned.count());
            let line = text.lines().find(|line| line.contains(id)).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(line.starts_with(name), "{text}");
            println!("        {line}");
        }
        let mut wanted: Vec<usize> = shares.iter().map(|(_, lanes)| usize::try_from(*lanes).unwrap()).collect();
        counts.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(counts, wanted, "{text}");
        assert_eq!((&json["lanes"]["total"], &json["lanes"]["owned"]), (&64.into(), &64.into()), "{text}");
    }

    /// Stops a relay gracefully: how long after its end the last of its lanes was read again by another one.
    pub async fn stop(&mut self, name: &str) -> Duration {
        let rows = self.client.query(LANES_OF, &[&name]).await.unwrap();
        let lanes: BTreeMap<i16, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(!lanes.is_empty(), "{name} has no lane");
        let mut relay = self.relays.remove(name).unwrap();
        let ended = tokio::task::block_in_place(|| {
            relay.terminate();
            assert_eq!(relay.ended(), 0, "{}", relay.log());
            Instant::now()
        });
        let since = self.arrived.lock().unwrap().len().saturating_sub(5_000);
        loop {
            let arrived = self.arrived.lock().unwrap()[since..].to_vec();
            let first = |(lane, term): (&i16, &i64)| {
                arrived.iter().find(|one| one.lane == *lane && one.term > *term).map(|one| one.at)
            };
            if let Some(read) = lanes.iter().map(first).collect::<Option<Vec<_>>>() {
                return read.into_iter().max().unwrap().saturating_duration_since(ended);
            }
            assert!(ended.elapsed() < PATIENCE, "the lanes of {name} are not read again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How many messages arrived more than once, so often.
    pub fn repeats(&self) -> usize {
        let arrived = self.arrived.lock().unwrap();
        let distinct: HashSet<&str> = arrived.iter().map(|one| one.id.as_str()).collect();
        arrived.len() - distinct.len()
    }

    /// Waits until the outbox is empty.
    pub async fn drained(&self) {
        let since = Instant::now();
        loop {
            let left: i64 = self.client.query_one(LEFT, &[]).await.unwrap().get(0);
            if left == 0 {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{left} messages are left");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn judge(&self, committed: &[Committed]) -> Verdict {
        let arrived = self.arrived.lock().unwrap();
        judge(committed, arrived.iter().map(|one| one.id.as_str()))
    }
}
