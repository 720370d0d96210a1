//! Two thousand simulated worlds; a million of them by `cargo xtask simulate --seeds 1000000`.

use postrider_testkit::simulator::{Campaign, Sight, replay, run};

/// The seeds of every test run.
const SEEDS: u64 = 2_000;

#[test]
fn every_promise_holds_in_two_thousand_worlds() {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let campaign = Campaign::play(0..SEEDS, threads, |_| ());
    println!("{}", campaign.report());
    assert!(campaign.failures.is_empty(), "broken promises: {:#?}", campaign.failures);
    assert_eq!(campaign.seeds, SEEDS);
    let unseen: Vec<&str> = campaign.unseen().into_iter().map(Sight::words).collect();
    assert_eq!(unseen, [""; 0], "in one of a hundred seeds or fewer");
}

#[test]
fn the_simulator_is_deterministic() {
    for seed in 0..40 {
        let once = run(seed);
        let (again, history) = replay(seed);
        assert_eq!(once, again, "seed {seed}, told and not told");
        assert_eq!(replay(seed).1, history, "seed {seed}, word for word");
    }
    let hashes: std::collections::BTreeSet<u64> = (0..40).map(|seed| run(seed).hash).collect();
    assert_eq!(hashes.len(), 40, "every seed is a world of its own");
}
