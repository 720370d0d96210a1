//! Torture of receivers.

use std::fs;

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::{Result, table};

/// What all runs together must have handled.
const MESSAGES: u64 = 1_000_000;

/// Receivers that remember in this way, among the faults of relays and broker.
const fn torture(does: &'static str, words: &'static [&'static str]) -> Step {
    Step::Measured { does, words, prints: &["verdict: Pass", "wrong 0"] }
}

pub const SHOW: Show = Show {
    name: "receiving.3",
    says: "receivers killed between commit and acknowledgement, messages delivered again on purpose: no effect wrong; the whole \
           stream read again when everything is forgotten changes nothing, what is refused is kept and counted, no token is \
           left, and one cursor for each partition; over at least a million messages",
    steps: &[
        torture(
            "the inbox",
            &["xtask", "torture", "--seed", "31", "--minutes", "10", "--rate", "250", "--consumer", "inbox"],
        ),
        torture(
            "processors, ids in the document",
            &["xtask", "torture", "--seed", "32", "--minutes", "10", "--rate", "250", "--consumer", "processor"],
        ),
        torture(
            "processors with known ids",
            &["xtask", "torture", "--seed", "33", "--minutes", "10", "--rate", "200", "--consumer", "known-ids"],
        ),
        torture(
            "processors with tokens",
            &["xtask", "torture", "--seed", "34", "--minutes", "10", "--rate", "150", "--consumer", "token"],
        ),
        torture(
            "the cursor, over a group of Kafka",
            &[
                "xtask",
                "torture",
                "--seed",
                "35",
                "--minutes",
                "10",
                "--rate",
                "200",
                "--broker",
                "kafka",
                "--consumer",
                "cursor",
            ],
        ),
        Step::Look { does: "all of them together", look: together },
    ],
};

/// What one run says of its receivers.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    consumer: String,
    messages: u64,
    effects: u64,
    killed: u64,
    wrong: u64,
    /// Where ids are remembered.
    refused: Option<u64>,
    /// Where messages have tokens.
    tokens_left: Option<u64>,
    /// Where there is one for each partition.
    cursors_left: Option<u64>,
}

impl Received {
    /// Of what a run printed; none where it had no receivers.
    fn read(said: &str) -> Option<Self> {
        let line = said.lines().find(|line| line.starts_with("I5 "))?;
        let number = |before: &str| {
            let digits: String = line.split_once(before)?.1.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some(Self {
            consumer: said.split_once("--consumer ")?.1.split_whitespace().next()?.to_owned(),
            messages: number("messages ")?,
            effects: number(", effects ")?,
            killed: number("killed ")?,
            wrong: number("wrong ")?,
            refused: number("refused when they came again "),
            tokens_left: number("tokens left "),
            cursors_left: number("cursors left "),
        })
    }
}

fn together(scene: &Scene<'_>) -> Result<Seen> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(&scene.logs)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "out") {
            runs.extend(Received::read(&fs::read_to_string(path)?));
        }
    }
    Ok(judge(runs))
}

fn judge(mut runs: Vec<Received>) -> Seen {
    runs.sort_by(|one, other| one.consumer.cmp(&other.consumer));
    let sum = |of: fn(&Received) -> u64| runs.iter().map(of).sum::<u64>();
    let (messages, wrong) = (sum(|run| run.messages), sum(|run| run.wrong));
    let left = sum(|run| run.tokens_left.unwrap_or(0));
    let are_refused = runs.iter().all(|run| run.refused != Some(0)) && runs.iter().any(|run| run.refused.is_some());
    let cell = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let numbers = [run.messages, run.effects, run.killed, run.wrong].map(|number| number.to_string());
            let kept = [run.refused, run.tokens_left, run.cursors_left].map(cell);
            [vec![run.consumer.clone()], numbers.to_vec(), kept.to_vec()].concat()
        })
        .collect();
    let heads = [
        "receivers",
        "messages",
        "effects",
        "killed",
        "wrong",
        "refused when read again",
        "tokens left",
        "cursors left",
    ];
    let said = format!(
        "{}\neffects wrong {wrong} over {messages} messages; tokens left {left}; refused when the streams were read again {}\n",
        table::draw(&heads, &rows),
        sum(|run| run.refused.unwrap_or(0)),
    );
    let of_tokens = runs.iter().any(|run| run.tokens_left.is_some());
    let of_cursors = runs.iter().any(|run| run.cursors_left.is_some());
    if wrong == 0 && left == 0 && of_tokens && of_cursors && are_refused && messages >= MESSAGES {
        Seen::well(said)
    } else {
        Seen::wrong(format!(
            "{said}expected: wrong 0, tokens left 0, runs with cursors, some refused in each other run, {MESSAGES} messages\n"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(consumer: &str, end: &str) -> Received {
        let said = format!(
            "id  broken\nI5         0  each delivered message has its effect once    messages 600000, effects 750000, \
             receivers killed 80 times, wrong 0; {end}\nrepeat it: cargo xtask torture --seed 1 --consumer {consumer}\n"
        );
        Received::read(&said).unwrap()
    }

    #[test]
    fn what_a_run_printed_is_read() {
        let read = run("known-ids", "refused when they came again 7");
        assert_eq!((read.consumer.as_str(), read.messages, read.effects), ("known-ids", 600_000, 750_000));
        assert_eq!((read.killed, read.wrong, read.refused, read.tokens_left), (80, 0, Some(7), None));
        assert_eq!(run("cursor", "records 600009, cursors left 18").cursors_left, Some(18));
        assert_eq!(Received::read("repeat it: --consumer inbox\n"), None);
    }

    #[test]
    fn all_runs_together_are_a_million_messages_without_a_wrong_effect_or_a_token_that_is_left() {
        let inbox = || run("inbox", "refused when they came again 7");
        let token = |left| run("token", &format!("tokens left {left}, revoked because no message came with them 9"));
        let cursor = || run("cursor", "records 600009, cursors left 18");
        assert!(judge(vec![inbox(), token(0), cursor()]).well);
        let said = judge(vec![inbox(), token(0), cursor()]).said;
        assert!(said.contains("effects wrong 0 over 1800000 messages; tokens left 0"), "{said}");
        assert!(!judge(vec![inbox(), token(1), cursor()]).well);
        assert!(!judge(vec![token(0), cursor(), token(0)]).well, "nothing was refused");
        assert!(!judge(vec![inbox(), token(0)]).well, "nothing by the cursor");
        assert!(!judge(vec![inbox()]).well, "too few");
        assert!(!judge(vec![inbox(), run("inbox", "refused when they came again 0"), token(0), cursor()]).well);
    }
}
