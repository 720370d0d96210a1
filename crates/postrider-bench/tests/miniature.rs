//! A miniature of the whole measurement: it shows that the measuring works and that nothing is lost, invented or out of
//! order meanwhile. Its rates mean nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that fails ends with a panic"
)]

#[path = "../benches/private/parts/mod.rs"]
mod parts;

use parts::plan::{PARTS, Plan, Purpose};
use postrider_testkit::command::relay_beside;
use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::servers::process::find;
use postrider_testkit::servers::{installed, kafka};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_miniature_of_every_part_has_figures_and_loses_nothing() {
    let what = "a miniature of the measurement";
    if installed(what, find("nats-server", &[], "nats-server")).is_none() {
        return;
    }
    if installed(what, find("mariadb-install-db", &[], "mariadb-server")).is_none()
        || installed(what, kafka::libraries()).is_none()
    {
        return;
    }
    if installed(what, Postgres::start().await).is_none() {
        return;
    }
    // The folder of this program is beside the relay's.
    let tests = std::env::current_exe().unwrap();
    let postrider = match relay_beside(tests.parent().unwrap(), &["postgres", "mysql", "memory"]) {
        Ok(postrider) => postrider,
        Err(unbuilt) => {
            println!("NOT RUN: {what}: {unbuilt}");
            return;
        }
    };
    let words = ["--miniature", "--postrider", postrider.to_str().unwrap()].map(str::to_owned);
    let plan = Plan::of(&words).unwrap();
    assert!(plan.purpose == Purpose::Measure && plan.out.is_none() && plan.page.is_none());
    let mut seen = Vec::new();
    parts::measure(&plan, |part, measurement| {
        println!("{}", measurement.table());
        for figure in &measurement.figures {
            assert!(figure.verdict.is_none_or(|verdict| verdict.holds()), "{part}: {figure:?}");
            assert!(figure.ours.runs.iter().all(|run| run.is_finite()), "{part}: {figure:?}");
        }
        assert!(!measurement.circumstances.is_empty());
        seen.push(part.to_owned());
    })
    .await;
    assert_eq!(seen, PARTS);
}

#[test]
fn words_that_nobody_knows_are_refused() {
    let refused =
        |words: &[&str]| Plan::of(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()).unwrap_err();
    assert!(refused(&["--fast"]).contains("--fast"));
    assert!(refused(&["--only", "drain,speed"]).contains("speed"));
    assert!(refused(&["--runs"]).contains("--runs"));
}
