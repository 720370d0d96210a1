//! `postrider bench`: what this database and this broker can do, measured with tables of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use postrider_bench::drain::drain;
use postrider_bench::figure::Figure;
use postrider_bench::limit::limit;
use postrider_bench::load::Load;
use postrider_bench::page::Measurement;
use postrider_bench::plot::svg;
use postrider_bench::steady::{Pace, steady};
use postrider_core::{Broker, ErrorKind, Result, Store};
use postrider_stores::{MigrateOptions, StoreOptions};

use crate::config::{BrokerSection, Config};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{output, wiring};

/// What the names of the tables begin with that are there for the measurement alone.
const PREFIX: &str = "postrider_bench_";
/// Messages written by one transaction of the backlog.
const BATCH: u64 = 1_000;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider bench --store postgres://app@localhost/app --broker nats://localhost:4222
  postrider bench --store sqlite:app.db --broker memory: --messages 20000 --rates 100 --svg bench.svg
It makes tables of its own (postrider_bench_...) in the database, removes them at the end, also after Ctrl-C, and sends
messages of the topic --topic to the broker: name one that nobody reads. It refuses to begin while your own outbox has
messages to deliver. Beside the drain rate stands the limit of the same run: the same drivers without a relay between
them, which read, publish and delete with no decisions, no order and no retries. What the drivers, the application's own
transactions, a message's write-ahead log and the relay's memory cost is in docs/performance.md, of a machine of the
project's. Exit codes: 0 nothing was lost, invented or out of order, 1 something was, 2 it could not measure,
130 it was interrupted.";

/// Measures drain rate beside its limit, and latency from commit to acknowledgement, with what was lost, invented or out
/// of order beside every figure.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Messages of the backlog that is drained
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    messages: u64,
    /// Transactions a second at which latency is measured, one message each
    #[arg(long, value_name = "RATES", default_value = "100,1000", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rates: Vec<u32>,
    /// How long each of them lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=3_600))]
    seconds: u64,
    /// Bytes of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    payload: u32,
    /// Keys of the messages, uniform
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,
    /// The topic of the messages
    #[arg(long, value_name = "TOPIC", default_value = "postrider.bench")]
    topic: String,
    /// Runs of each figure; the median is shown
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Tables that are there for the measurement alone.
struct Tables<'a> {
    url: &'a str,
    options: StoreOptions,
}

impl Tables<'_> {
    /// The tables, empty; those that a run left behind that was killed are made anew.
    async fn fresh(&self) -> Result<Arc<dyn Store>> {
        self.remove().await?;
        postrider_stores::migrate(self.url, &MigrateOptions { store: self.options.clone(), lanes: None }).await?;
        postrider_stores::open(self.url, &self.options).await
    }

    async fn remove(&self) -> Result<()> {
        postrider_stores::remove(self.url, &self.options).await
    }
}

impl Bench {
    /// Measures, prints, writes, removes the tables.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let url = wiring::store_url(config)?;
        let section = config.brokers.first().ok_or_else(|| {
            Failure::usage(
                "no broker is named",
                "say where messages go: --broker URL (memory: takes any number of them)",
            )
        })?;
        if config.outbox.prefix.as_deref() == Some(PREFIX) {
            return Err(Failure::usage(
                format!("the outbox itself has the prefix {PREFIX:?}, whose tables the measurement removes"),
                "measure in another database, or give the outbox another prefix",
            ));
        }
        refuse_a_busy_outbox(config).await?;
        let mut options = wiring::store_options(config);
        options.settings.insert("prefix".to_owned(), PREFIX.to_owned());
        let tables = Tables { url, options };
        let ended = tokio::select! {
            measured = self.measure(&tables, section) => measured.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        };
        let removed = tables.remove().await.map_err(|error| Failure::store(&error));
        let Some(measurement) = ended? else {
            removed?;
            return Ok(Exit::Interrupted);
        };
        removed?;
        output::print(measurement.table().trim_end())?;
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&measurement).unwrap_or_default();
            write(path, &(text + "\n"))?;
        }
        if let Some(path) = &self.svg {
            write(path, &svg(&measurement))?;
        }
        Ok(if measurement.is_well() { Exit::Good } else { Exit::Bad })
    }

    async fn measure(&self, tables: &Tables<'_>, section: &BrokerSection) -> Outcome<Measurement> {
        let mut figures = vec![self.drained(tables, section).await?];
        for rate in &self.rates {
            figures.extend(self.latencies(tables, section, *rate).await?);
        }
        let circumstances = vec![format!("postrider {}", env!("CARGO_PKG_VERSION"))];
        Ok(Measurement { circumstances, figures })
    }

    async fn drained(&self, tables: &Tables<'_>, section: &BrokerSection) -> Outcome<Figure> {
        let load = Load {
            messages: self.messages,
            keys: self.keys,
            payload: self.payload_bytes(),
            writers: 1,
            topic: self.topic.clone(),
        };
        let (mut rates, mut limits, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.runs {
            limits.push(at_the_limit(tables, section, &load).await?);
            let store = tables.fresh().await.map_err(|error| Failure::store(&error))?;
            fill(&store, &load).await.map_err(|error| Failure::store(&error))?;
            let broker = wiring::broker(section)?;
            let bar = output::progress::bar(load.messages, "draining");
            let run = drain(store, Arc::clone(&broker), &load, |done| bar.set_position(done)).await;
            broker.close().await;
            bar.finish_and_clear();
            let run = run.map_err(|error| Failure::broker(&error))?;
            rates.push(run.rate());
            verdicts.push(run.verdict);
        }
        let what = format!("backlog of {} messages", self.messages);
        Ok(Figure::new("drain", what, "messages/s", rates).beside("limit", limits).verdict(&verdicts))
    }

    async fn latencies(&self, tables: &Tables<'_>, section: &BrokerSection, rate: u32) -> Outcome<Vec<Figure>> {
        let pace = Pace {
            rate,
            length: Duration::from_secs(self.seconds),
            payload: self.payload_bytes(),
            keys: self.keys,
            topic: self.topic.clone(),
        };
        let mut runs = Vec::new();
        for _ in 0..self.runs {
            let store = tables.fresh().await.map_err(|error| Failure::store(&error))?;
            let broker: Arc<dyn Broker> = wiring::broker(section)?;
            let bar = output::progress::bar(self.seconds, "writing at a pace");
            let shown = bar.clone();
            let ticking = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    shown.inc(1);
                }
            });
            let run = steady(store, Arc::clone(&broker), &pace).await;
            ticking.abort();
            broker.close().await;
            bar.finish_and_clear();
            runs.push(run.map_err(|error| Failure::broker(&error))?);
        }
        let verdicts: Vec<_> = runs.iter().map(|run| run.verdict).collect();
        let what = format!("{rate} transactions a second, commit to acknowledgement");
        let figure = |name: &str, values: Vec<f64>| {
            Figure::new("latency", format!("{what}: {name}"), "ms", values).verdict(&verdicts)
        };
        Ok(vec![
            figure("p50", runs.iter().map(|run| run.p50).collect()),
            figure("p99", runs.iter().map(|run| run.p99).collect()),
            figure("p99.9", runs.iter().map(|run| run.p999).collect()),
            Figure::new("latency", format!("{rate} transactions a second: reached"), "messages/s", {
                runs.iter().map(|run| run.rate).collect()
            }),
        ])
    }

    fn payload_bytes(&self) -> usize {
        usize::try_from(self.payload).unwrap_or(usize::MAX)
    }
}

/// Messages a second without a relay between the store and the broker.
async fn at_the_limit(tables: &Tables<'_>, section: &BrokerSection, load: &Load) -> Outcome<f64> {
    let store = tables.fresh().await.map_err(|error| Failure::store(&error))?;
    fill(&store, load).await.map_err(|error| Failure::store(&error))?;
    let broker = wiring::broker(section)?;
    let bar = output::progress::bar(load.messages, "the limit");
    let run = limit(store, Arc::clone(&broker), load).await;
    broker.close().await;
    bar.finish_and_clear();
    let run = run.map_err(|error| Failure::broker(&error))?.as_limit().map_err(|wrong| {
        Failure::bad(
            wrong.story(),
            "see whether anything else writes to the tables of the measurement, then run this again",
        )
    })?;
    Ok(run.rate())
}

/// The user's own messages would wait for ours. An outbox that is not there has none.
async fn refuse_a_busy_outbox(config: &Config) -> Outcome<()> {
    let store = match wiring::open_promptly(config).await {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Config => return Ok(()),
        Err(error) => return Err(Failure::store(&error)),
    };
    let mut operator = store.operator().await.map_err(|error| Failure::store(&error))?;
    let status = operator.status(1).await.map_err(|error| Failure::store(&error))?;
    if status.pending.value() == 0 {
        return Ok(());
    }
    Err(Failure::usage(
        "the outbox is not empty: its own messages would wait behind the measurement",
        "wait until `postrider status` shows nothing pending, or measure in another database",
    ))
}

async fn fill(store: &Arc<dyn Store>, load: &Load) -> Result<()> {
    let bar = output::progress::bar(load.messages, "writing the backlog");
    let mut operator = store.operator().await?;
    let mut next = 0;
    while next < load.messages {
        let end = (next + BATCH).min(load.messages);
        let messages: Vec<_> = (next..end).map(|number| load.message(number)).collect();
        operator.enqueue(&messages).await?;
        bar.set_position(end);
        next = end;
    }
    bar.finish_and_clear();
    Ok(())
}

fn write(path: &PathBuf, text: &str) -> Outcome<()> {
    std::fs::write(path, text).map_err(|error| {
        Failure::usage(
            format!("cannot write {}: {error}", path.display()),
            "name a file in a folder that exists and may be written",
        )
    })
}
