//! What a message costs the database: processor time, write-ahead log, dead rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_bench::drain::drain;
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::steady::{Pace, steady, write};
use postrider_bench::verdict::Verdict;
use postrider_brokers::memory::MemoryBroker;

use super::database::Database;
use super::limit;
use super::plan::{Plan, TOPIC};
use super::processes::server_seconds;
use super::waiting::{self, KEYS_OF_THEIR_OWN};

const PART: &str = "cost";
const RATE: u32 = 1_000;

/// What the server had used at a moment.
#[derive(Debug, Clone, Copy)]
struct Meter {
    seconds: f64,
    wal: f64,
    dead: f64,
    updated: f64,
}

/// The same per message.
#[derive(Debug, Clone, Copy)]
struct PerMessage {
    micros: f64,
    wal: f64,
    dead: f64,
    /// Dead by an UPDATE: tried again, or set aside.
    updated: f64,
}

impl Meter {
    async fn read(database: &Database) -> Self {
        let row = database
            .client
            .query_one(
                "select (pg_current_wal_insert_lsn() - '0/0')::float8, (n_tup_upd + n_tup_del)::float8, n_tup_upd::float8
                   from pg_stat_user_tables where relname = 'postrider_outbox'",
                &[],
            )
            .await
            .unwrap();
        Self {
            seconds: server_seconds(&database.server.data()),
            wal: row.get(0),
            dead: row.get(1),
            updated: row.get(2),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    fn since(&self, before: &Self, messages: u64) -> PerMessage {
        let each = |now: f64, then: f64| (now - then) / messages as f64;
        PerMessage {
            micros: each(self.seconds, before.seconds) * 1e6,
            wal: each(self.wal, before.wal),
            dead: each(self.dead, before.dead),
            updated: each(self.updated, before.updated),
        }
    }
}

/// Runs something between two readings. Statistics of other sessions arrive within a second or so.
async fn metered<T>(database: &Database, messages: u64, what: impl Future<Output = T>) -> (PerMessage, T) {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let before = Meter::read(database).await;
    let done = what.await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    (Meter::read(database).await.since(&before, messages), done)
}

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let database = Database::start().await;
    notes.push(database.note().await);
    // What autovacuum and checkpoints write belongs to no message.
    database.client.batch_execute("alter system set autovacuum = off").await.unwrap();
    database.client.batch_execute("alter system set full_page_writes = off").await.unwrap();
    database.client.batch_execute("select pg_reload_conf()").await.unwrap();
    let backlog = plan.load(plan.backlog, 10_000);
    let (retried_load, aside_load) = (plan.load(plan.hot_backlog, KEYS_OF_THEIR_OWN), plan.load(plan.hot_backlog, 1));
    let (mut quiet, mut plain, mut drained, mut deleted) = (vec![], vec![], vec![], vec![]);
    let (mut retried, mut aside) = (vec![], vec![]);
    let (mut quiet_verdicts, mut drained_verdicts) = (vec![], vec![]);
    let (mut retried_verdicts, mut aside_verdicts) = (vec![], vec![]);
    for run in 0..plan.runs {
        eprintln!("cost: run {} of {}", run + 1, plan.runs);
        let (cost, verdict) = steady_run(&database, plan).await;
        quiet.push(cost);
        quiet_verdicts.push(verdict);
        plain.push(plain_run(&database, plan).await);
        database.fill(&backlog).await;
        let (cost, run) = metered(&database, backlog.messages, async {
            drain(database.store().await, Arc::new(MemoryBroker::counting()), &backlog, |_| {}).await.unwrap()
        })
        .await;
        drained.push(cost);
        drained_verdicts.push(run.verdict);
        database.fill(&backlog).await;
        let (cost, _) = metered(&database, backlog.messages, limit::pipeline(&database.url, &backlog, None)).await;
        deleted.push(cost);
        database.fill(&retried_load).await;
        let again = waiting::tried_again(&database, &retried_load);
        let (cost, verdict) = metered(&database, retried_load.messages, again).await;
        assert!(cost.updated >= 0.5, "every other message is tried again, and that is written down: {cost:?}");
        retried.push(cost);
        retried_verdicts.push(verdict);
        database.fill(&aside_load).await;
        waiting::hold(&database).await;
        let set_aside = waiting::set_aside_and_drained(&database, &aside_load);
        let (cost, verdict) = metered(&database, aside_load.messages, set_aside).await;
        aside.push(cost);
        aside_verdicts.push(verdict);
    }
    let column = |costs: &[PerMessage], of: fn(&PerMessage) -> f64| costs.iter().map(of).collect::<Vec<f64>>();
    let figure = |what: &str, unit: &str, costs: &[PerMessage], of: fn(&PerMessage) -> f64, verdicts: &[Verdict]| {
        Figure::new(PART, what, unit, column(costs, of)).verdict(verdicts)
    };
    let plain_what = "INSERT and DELETE alone";
    let mut figures = vec![
        figure("quiet, 1,000/s: WAL", "bytes/message", &quiet, |cost| cost.wal, &quiet_verdicts)
            .beside(plain_what, column(&plain, |cost| cost.wal))
            .demand(Demand::RatioAtMost(1.3)),
        figure("quiet, 1,000/s: dead rows", "rows/message", &quiet, |cost| cost.dead, &quiet_verdicts)
            .beside(plain_what, column(&plain, |cost| cost.dead))
            .demand(Demand::AtMost(1.0)),
        figure("quiet, 1,000/s: database CPU", "µs/message", &quiet, |cost| cost.micros, &quiet_verdicts)
            .beside(plain_what, column(&plain, |cost| cost.micros)),
        figure("drain: WAL", "bytes/message", &drained, |cost| cost.wal, &drained_verdicts)
            .beside("limit", column(&deleted, |cost| cost.wal)),
        figure("drain: dead rows", "rows/message", &drained, |cost| cost.dead, &drained_verdicts)
            .beside("limit", column(&deleted, |cost| cost.dead)),
        figure("drain: database CPU", "µs/message", &drained, |cost| cost.micros, &drained_verdicts)
            .beside("limit", column(&deleted, |cost| cost.micros)),
    ];
    for (what, costs, verdicts) in [
        ("every other one refused once and tried again", &retried, &retried_verdicts),
        ("set aside behind a held message, then delivered", &aside, &aside_verdicts),
    ] {
        let beside_drain = |name: &str, unit: &str, of: fn(&PerMessage) -> f64| {
            figure(&format!("{what}: {name}"), unit, costs, of, verdicts).beside("drain", column(&drained, of))
        };
        figures.push(beside_drain("WAL", "bytes/message", |cost| cost.wal));
        figures.push(beside_drain("dead rows", "rows/message", |cost| cost.dead));
        figures.push(beside_drain("database CPU", "µs/message", |cost| cost.micros));
    }
    figures
}

fn pace(plan: &Plan) -> Pace {
    Pace { rate: RATE, length: plan.steady, payload: 200, keys: 10_000, topic: TOPIC.into() }
}

async fn steady_run(database: &Database, plan: &Plan) -> (PerMessage, Verdict) {
    database.empty().await;
    let pace = pace(plan);
    let store = database.store().await;
    let broker = Arc::new(MemoryBroker::counting());
    let (cost, run) = metered(database, pace.load().messages, steady(store, broker, &pace)).await;
    (cost, run.unwrap().verdict)
}

/// The same writing, and as many rows deleted by id every ten milliseconds as have come.
async fn plain_run(database: &Database, plan: &Plan) -> PerMessage {
    database.empty().await;
    let (pace, store) = (pace(plan), database.store().await);
    let load = pace.load();
    let deleting = limit::delete_as_they_come(database.url.clone(), load.messages);
    let (cost, _) = metered(database, load.messages, async {
        let deleting = tokio::spawn(deleting);
        write(&store, &pace, &load, Instant::now()).await.unwrap();
        deleting.await.unwrap();
    })
    .await;
    cost
}
