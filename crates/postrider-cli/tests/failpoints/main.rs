//! Every named point, and at each the process dies, hangs past its lease, or fails: nothing is lost, no ghosts, order
//! kept per key.
//!
//! Each case of the matrix is an outbox of its own: a relay of the real binary that meets the fault under load, and a
//! second one that finishes beside it or after it. A point that is never reached is a failure. The default run meets
//! every point with one of the faults, another one on each store; `POSTRIDER_FULL=1` meets each with all of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod case;
mod load;

use postrider_testkit::servers::installed;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use case::{Case, Fault};
use load::Place;
use tokio::runtime::Runtime;

/// Cases at once: they mostly wait.
const TOGETHER: usize = 6;

/// The cases of this run: `turn` says which fault the first point meets where each meets one.
fn chosen(points: &[String], turn: usize) -> Vec<Case> {
    let full = std::env::var_os("POSTRIDER_FULL").is_some();
    let of_point = |(number, point): (usize, &String)| {
        let faults = if full { Fault::ALL.to_vec() } else { vec![Fault::ALL[(number + turn) % Fault::ALL.len()]] };
        let case = |fault| Case { point: point.clone(), fault };
        faults.into_iter().map(case).collect::<Vec<_>>()
    };
    points.iter().enumerate().flat_map(of_point).collect()
}

/// Takes every chosen case, several at a time, and says what is wrong with which.
fn take(name: &str, points: &[String], turn: usize, fresh: impl Fn(usize) -> Place + Sync) {
    let started = Instant::now();
    let cases = chosen(points, turn);
    let (next, repeats, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { break };
                    match case.take(&fresh(number)) {
                        Ok(verdict) => drop(repeats.fetch_add(verdict.repeats, Ordering::Relaxed)),
                        Err(what) => wrong.lock().unwrap().push(format!("{case}: {what}")),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    println!(
        "{name}: {} points, {} of {} cases in {:.0?}: {} wrong; {} repeats",
        points.len(),
        cases.len(),
        points.len() * Fault::ALL.len(),
        started.elapsed(),
        wrong.len(),
        repeats.into_inner()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn every_point_over_sqlite() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), runtime());
    take("sqlite", &case::points(), 0, |number| {
        let folder = folder.path().join(number.to_string());
        let store = format!("sqlite://{}", folder.join("shop.db").display());
        Place::new(&runtime, &folder, store)
    });
}

#[test]
fn every_point_over_postgresql() {
    let runtime = runtime();
    let Some(server) =
        installed("failpoints over PostgreSQL", runtime.block_on(postrider_testkit::servers::postgres::shared()))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // The points before a commit are those of SQLite's transactions.
    let points: Vec<String> = case::points().into_iter().filter(|point| !point.ends_with(".commit")).collect();
    take("postgres", &points, 1, |number| {
        let store = runtime.block_on(server.fresh_database()).unwrap();
        Place::new(&runtime, &folder.path().join(number.to_string()), store)
    });
}

#[test]
fn every_point_over_mariadb() {
    let runtime = runtime();
    let Some(server) =
        installed("failpoints over MariaDB", runtime.block_on(postrider_testkit::servers::mariadb::shared()))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let points: Vec<String> = case::points().into_iter().filter(|point| !point.ends_with(".commit")).collect();
    take("mariadb", &points, 2, |number| {
        let database = runtime.block_on(server.create_database()).unwrap();
        Place::new(&runtime, &folder.path().join(number.to_string()), server.url_for(&database))
    });
}

#[test]
fn a_point_that_nobody_knows_how_to_read_ends_the_process() {
    let run = case::binary("sqlite:none.db").arg("migrate").env("FAILPOINTS", "settle.before").output().unwrap();
    assert!(!run.status.success());
    assert!(String::from_utf8_lossy(&run.stderr).contains("expected NAME=FAULT"), "{run:?}");
}
