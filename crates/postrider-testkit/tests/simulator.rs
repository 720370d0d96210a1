//! Two thousand simulated worlds; a million of them by `cargo xtask simulate --seeds 1000000`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use postrider_testkit::simulator::{Campaign, Sight, replay, run};

/// The seeds of every test run.
const SEEDS: u64 = 2_000;

/// They are played once, for a verdict about promises and one about coverage: a guard that is taken away must break a
/// promise, and events that get rarer are none.
static CAMPAIGN: LazyLock<Campaign> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let campaign = Campaign::play(0..SEEDS, threads, |_| ());
    println!("{}", campaign.report());
    campaign
});

#[test]
fn every_promise_holds_in_two_thousand_worlds() {
    assert!(CAMPAIGN.failures.is_empty(), "broken promises: {:#?}", CAMPAIGN.failures);
    assert_eq!(CAMPAIGN.seeds, SEEDS);
}

#[test]
fn every_interesting_event_is_seen_in_more_than_one_of_a_hundred_worlds() {
    let unseen: Vec<&str> = CAMPAIGN.unseen().into_iter().map(Sight::words).collect();
    assert_eq!(unseen, [""; 0], "in one of a hundred seeds or fewer");
    assert_eq!(CAMPAIGN.thin, BTreeSet::new(), "worlds of too few events or faults");
}

#[test]
fn the_simulator_is_deterministic() {
    for seed in 0..40 {
        let once = run(seed);
        let (again, history) = replay(seed);
        assert_eq!(once, again, "seed {seed}, told and not told");
        assert_eq!(replay(seed).1, history, "seed {seed}, word for word");
    }
    let hashes: BTreeSet<u64> = (0..40).map(|seed| run(seed).hash).collect();
    assert_eq!(hashes.len(), 40, "every seed is a world of its own");
}
