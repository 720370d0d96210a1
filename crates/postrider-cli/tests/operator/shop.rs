//! An outbox on one of the databases, as an operator sees it, with a look into its tables.

use std::time::{Duration, Instant};

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::servers::postgres::{Postgres, shared};

use crate::harness::{Place, Relay, Run};

/// How long the tables may take to look as expected.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where its tables are.
enum Tables {
    Sqlite,
    Postgres(&'static Postgres, String),
}

/// An outbox with its tables.
pub struct Shop {
    pub place: Place,
    pub url: String,
    tables: Tables,
}

/// A receiver that accepts what says `good` and refuses the rest.
pub async fn picky() -> HttpReceiver {
    let receiver = HttpReceiver::start().await.unwrap();
    let good = |body: &[u8]| if body.starts_with(b"good") { Answer::Status(204) } else { Answer::Status(422) };
    receiver.script(move |request, _| good(&request.body));
    receiver
}

impl Shop {
    /// On a file.
    pub fn sqlite() -> Self {
        Self { place: Place::migrated(), url: "sqlite:app.db".to_owned(), tables: Tables::Sqlite }
    }

    /// On a database of its own.
    pub async fn postgres() -> Self {
        let server = shared().await.unwrap();
        let database = server.create_database().await.unwrap();
        let (place, url) = (Place::empty(), server.url_for(&database));
        place.run(&["migrate", "--store", &url]).good();
        Self { place, url, tables: Tables::Postgres(server, database) }
    }

    /// Runs a verb on it.
    pub fn on(&self, arguments: &[&str]) -> Run {
        self.place.run(&[arguments, &["--store", &self.url]].concat())
    }

    /// Writes topics, keys and payloads in one transaction and returns their ids.
    pub fn enqueue(&self, messages: &[(&str, &str, &str)]) -> Vec<String> {
        let line = |(topic, key, payload): &(&str, &str, &str)| {
            format!("{{\"topic\":\"{topic}\",\"key\":\"{key}\",\"payload\":\"{payload}\"}}\n")
        };
        let lines: String = messages.iter().map(line).collect();
        let run = self.place.run_fed(lines.as_bytes(), &["enqueue", "--json-lines", "--store", &self.url]);
        run.good().out.lines().map(str::to_owned).collect()
    }

    /// Runs the relay until the outbox is empty.
    pub fn drain(&self, broker: &str, more: &[&str]) -> Run {
        let fixed = ["relay", "--until-empty", "--broker", broker, "--admin-listen", "off", "--relay-lease", "2s"];
        self.on(&[&fixed, more].concat())
    }

    /// Starts a relay and waits until it has an admin address.
    pub fn relay(&self, broker: &str, more: &[&str]) -> Relay {
        let fixed = ["relay", "--store", &self.url, "--broker", broker, "--admin-listen", "127.0.0.1:0"];
        self.place.start(&mut self.place.command(&[&fixed, &["--log-format", "json"][..], more].concat()))
    }

    /// Starts a relay to where the file of the configuration says, and waits until it has an admin address.
    pub fn configured(&self) -> Relay {
        let fixed = ["relay", "--store", &self.url, "--admin-listen", "127.0.0.1:0", "--log-format", "json"];
        self.place.start(&mut self.place.command(&[&fixed[..], &["--relay-lease", "2s"]].concat()))
    }

    /// Runs a statement and returns its rows, one per line, columns separated by `|`.
    pub async fn sql(&self, sql: &str) -> String {
        match &self.tables {
            Tables::Postgres(server, database) => server.psql(database, sql).await.unwrap(),
            Tables::Sqlite => {
                let connection = rusqlite::Connection::open(self.place.path("app.db")).unwrap();
                connection.busy_timeout(Duration::from_secs(10)).unwrap();
                let mut statement = connection.prepare(sql).unwrap();
                let columns = statement.column_count();
                let mut rows = statement.query([]).unwrap();
                let mut lines = Vec::new();
                while let Some(row) = rows.next().unwrap() {
                    let values = (0..columns).map(|n| match row.get::<_, rusqlite::types::Value>(n).unwrap() {
                        rusqlite::types::Value::Null => String::new(),
                        rusqlite::types::Value::Integer(n) => n.to_string(),
                        rusqlite::types::Value::Text(text) => text,
                        other => format!("{other:?}"),
                    });
                    lines.push(values.collect::<Vec<_>>().join("|"));
                }
                lines.join("\n")
            }
        }
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &str) -> u64 {
        self.sql(&format!("select count(*) from {table}")).await.parse().unwrap()
    }

    /// Waits until a table has so many rows.
    pub async fn until_count(&self, table: &str, expected: u64) {
        let start = Instant::now();
        while self.count(table).await != expected {
            assert!(start.elapsed() < PATIENCE, "{table} does not come to {expected} rows");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Every row of the outbox and of the history.
    pub async fn contents(&self) -> (String, String) {
        let outbox = "select id, message_id, topic, key, state, attempts, dead_at, dead_reason, errors \
                      from postrider_outbox order by id";
        let history = "select id, message_id, topic, key, settled_at from postrider_delivered order by id";
        (self.sql(outbox).await, self.sql(history).await)
    }

    /// So many dead letters, made by a relay whose receiver refuses them, and their ids, sorted.
    pub async fn with_dead(&self, count: usize) -> Vec<String> {
        let receiver = picky().await;
        // Others that are accepted between them show that the destination is well.
        let keys: Vec<_> = (0..count).map(|n| (format!("bad{n}"), format!("good{n}"))).collect();
        let messages: Vec<_> = keys
            .iter()
            .flat_map(|(bad, good)| [("orders", bad.as_str(), "bad"), ("orders", good.as_str(), "good")])
            .collect();
        let ids = self.enqueue(&messages);
        let at_once = ["--retry-max-attempts", "1", "--relay-max-pause", "100ms"];
        self.drain(&receiver.url(), &at_once).good();
        let mut ids: Vec<String> = ids.into_iter().step_by(2).collect();
        ids.sort();
        assert_eq!(self.count("postrider_outbox where state = 1").await, u64::try_from(count).unwrap());
        ids
    }
}
