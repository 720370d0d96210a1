//! One run from its beginning to its verdict.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::Fallible;
use crate::director::Director;
use crate::fleet::{Fleet, faketime};
use crate::judge::{Case, Judgement, Verdict, judge};
use crate::moment::Moment;
use crate::operator::Operator;
use crate::place::broker::Broker;
use crate::place::store::{Books, Store};
use crate::plan::{Kind, Plan};
use crate::receivers::Receivers;
use crate::record::{Outcome, Record, Recorder, Settled};
use crate::report::{self, Circumstances};
use crate::settings::{BrokerKind, Settings};
use crate::watch::{Settlement, Watch};
use crate::writers::Writers;

/// How long the backlog may take to drain before the run is ended all the same.
const DRAINS_WITHIN: Duration = Duration::from_secs(120);
/// What comes late would come in this time.
const LATE: Duration = Duration::from_secs(3);
/// A wall clock that moves more than this against the monotonic one makes the servers' stamps worthless.
const MOST_DRIFT: Duration = Duration::from_millis(50);

/// Runs, judges, reports.
///
/// # Errors
/// When the harness itself could not go on.
pub async fn run(asked: &Settings) -> Fallible<Verdict> {
    let mut settings = asked.clone();
    std::fs::create_dir_all(&settings.out)?;
    settings.out = settings.out.canonicalize()?;
    if settings.broker == BrokerKind::File && settings.relays > 1 {
        println!("not run: more than one relay, because one process writes a file at a time");
        settings.relays = 1;
    }
    let recorder = Arc::new(Recorder::start());
    let store = Arc::new(Store::start(&settings).await?);
    let broker = Arc::new(Broker::start(&settings, &recorder).await?);
    let (kinds, not_run) = kinds(&settings, &broker)?;
    settings.faults = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
    for what in &not_run {
        println!("not run: {what}");
    }
    let fleet = Fleet::prepare(&settings, &store, &broker).await?;
    for slot in fleet.regular() {
        let mut held = slot.hold().await;
        fleet.start(slot, &mut held, 0)?;
    }
    let began = recorder.now();
    println!(
        "seed {}: {} -> {}, {} relays, {:.1} min, {} fault kinds",
        settings.seed,
        store.version(),
        broker.version(),
        settings.relays,
        settings.minutes,
        kinds.len()
    );
    let watch = Watch::start(&recorder, &fleet, &store);
    let receivers = Receivers::start(&settings, broker.readable()).await?;
    let tokens = match &receivers {
        Some(receivers) => receivers.tokens().await?,
        None => None,
    };
    let writers = Writers::start(&settings, &recorder, &store, tokens.as_ref());
    let operator = Operator::start(&settings, &recorder, &store, &broker);
    let plan = Plan::draw(
        settings.seed,
        &kinds,
        settings.load(),
        settings.lease(),
        Duration::from_millis(settings.mean_gap_ms.max(200)),
    )
    .moved(began);
    let quiet = plan.quiet.clone();
    let director = Director {
        recorder: Arc::clone(&recorder),
        fleet: Arc::clone(&fleet),
        store: Arc::clone(&store),
        broker: Arc::clone(&broker),
        servers: Arc::default(),
    };
    let faults = tokio::task::spawn_blocking(move || director.direct(plan));
    recorder.clock.until(began.after(settings.load())).await;
    writers.stop().await;
    faults.await??;
    operator.load_is_over();
    let healed = recorder.now();
    let (backlog, drained) = drain(&recorder, &store, healed).await;
    tokio::time::sleep(LATE).await;
    operator.stop().await;
    let settlement = match drained {
        Some(_) => Settlement::look(&fleet, &store, &settings).await,
        None => Settlement::default(),
    };
    watch.stop().await;
    for slot in fleet.regular() {
        let mut held = slot.hold().await;
        if let Some(wrong) = Fleet::terminate(slot, &mut held).await {
            recorder.wrong("I15", wrong);
        }
    }
    broker.read_to_end().await?;
    if let Some(receivers) = receivers {
        let effects = receivers.finish(&recorder).await?;
        recorder.open().effects = Some(effects);
    }
    if recorder.clock.drift() > MOST_DRIFT {
        return Err(format!("the wall clock moved by {:?} during the run", recorder.clock.drift()).into());
    }
    let books = store.books().await?;
    let ended = recorder.now();
    logs(&recorder, &settings.out)?;
    let mut record = recorder.close();
    merge(&mut record, &books, &recorder);
    settlement.judge(&mut record, &books);
    record.faults.sort_by_key(|fault| fault.from);
    let case = Case {
        settings: &settings,
        record: &record,
        quiet: &quiet,
        healed,
        backlog,
        drained,
        dead: &books.dead,
        pending: &books.pending,
        ended,
    };
    let judgement: Judgement = judge(&case);
    let circumstances =
        Circumstances::of(&settings, store.version(), broker.version(), not_run, broker.survives_kill());
    report::write(&case, &judgement, &circumstances)?;
    Ok(judgement.verdict)
}

/// The kinds that can be carried out here, and what was chosen and cannot.
fn kinds(settings: &Settings, broker: &Broker) -> Fallible<(Vec<Kind>, Vec<String>)> {
    let (mut kinds, mut not_run) = (settings.kinds()?, Vec::new());
    if kinds.contains(&Kind::RelayClock) && !faketime().exists() {
        kinds.retain(|kind| *kind != Kind::RelayClock);
        not_run.push("relay-clock: libfaketime is not installed (cargo xtask servers --install)".to_owned());
    }
    if kinds.contains(&Kind::BrokerKill) && !broker.survives_kill() {
        kinds.retain(|kind| *kind != Kind::BrokerKill);
        not_run.push(format!(
            "broker-kill: {} may lose what it acknowledged when it is killed; it is restarted by SIGTERM only",
            broker.version()
        ));
    }
    Ok((kinds, not_run))
}

/// Waits until nothing waits any more, nor holds its key; what waited at first, and when it was gone.
async fn drain(recorder: &Recorder, store: &Store, healed: Moment) -> (u64, Option<Moment>) {
    let mut backlog = None;
    loop {
        if let Ok(look) = store.look().await {
            let waits = look.pending + look.holding;
            let first = *backlog.get_or_insert(waits);
            if waits == 0 {
                return (first, Some(recorder.now()));
            }
        }
        if recorder.now().since(healed) > DRAINS_WITHIN {
            return (backlog.unwrap_or(0), None);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a relay says when it finds its lanes gone without a settle that was refused.
const STOOD_DOWN: [&str; 2] = ["lanes belong to another relay now", "the lease ran out and the lanes went to others"];

/// A panic in a log is a panic, whatever came of it. Leases that were found lost are counted.
fn logs(recorder: &Recorder, folder: &Path) -> Fallible<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "log") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        if let Some(line) = text.lines().find(|line| line.contains("panicked at")) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            recorder.wrong("I15", format!("{name}: {line}"));
        }
        let stood_down = text.lines().filter(|line| STOOD_DOWN.iter().any(|words| line.contains(words))).count();
        recorder.open().stood_down += stood_down as u64;
    }
    Ok(())
}

/// What the database knows, put beside what was written down.
fn merge(record: &mut Record, books: &Books, recorder: &Recorder) {
    for (id, key, n) in &books.ledger {
        match record.written.get_mut(id) {
            Some(written) => written.in_ledger = true,
            None => record.wrong.push(("I2", format!("the ledger has {id} of key {key} n {n}, which nobody wrote"))),
        }
    }
    let mut lanes: HashMap<Uuid, u16> = HashMap::new();
    for delivered in &record.delivered {
        lanes.entry(delivered.id).or_insert(delivered.lane);
    }
    for gone in &books.gone {
        let lane = lanes.get(&gone.id).copied();
        let term = match gone.terms.as_slice() {
            [(_, term)] => *term,
            several => several.iter().find(|(known, _)| *known == lane).map_or(-1, |(_, term)| *term),
        };
        let at = recorder.clock.of_wall(gone.wall);
        let settled = Settled { at, term, by_owner: gone.by_owner.unwrap_or(true) };
        if let Some(written) = record.written.get_mut(&gone.id).filter(|_| matches!(gone.state, 0 | 2)) {
            written.settled = Some(settled);
        }
    }
    // What has an end by now and none in the record was in the hands of a writer that was given up.
    for written in record.written.values_mut().filter(|written| written.outcome == Outcome::Open) {
        written.outcome = Outcome::Unknown;
    }
}
