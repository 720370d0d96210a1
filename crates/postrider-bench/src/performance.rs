//! The page about performance, made from the kept reports: its figures are never typed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::page::Measurement;
use crate::plot::svg;

/// Each part: its name, its title, and what was done.
const PARTS: [(&str, &str, &str); 9] = [
    (
        "drain",
        "Draining a backlog",
        "A backlog of messages of 200 bytes is in the table; one relay at its defaults empties it. The **limit** is a minimal \
         pipeline on the same machine in the same run: it reads pages by primary key, publishes each message with its \
         acknowledgement through the same client (or not at all, for the memory broker) and deletes the page, with no \
         decisions, no order, no retries and no fence. Runs of the relay and of the limit take turns. To NATS JetStream one \
         message of a key is in flight at a time (`docs/guarantees.md`), so one hot key is as fast as one round trip.",
    ),
    (
        "latency",
        "From commit to acknowledgement",
        "Each message is written in a transaction of its own, at the rate that is given; latency counts from the answer to \
         the commit until the broker's acknowledgement has reached the relay. The source is polling. The **limit** is the same \
         minimal pipeline, which reads again a millisecond after it found nothing; its runs and the relay's take turns. \
         Where the rate reached is below the one asked for, a commit per message is what the machine takes at most beside \
         broker and relay.",
    ),
    (
        "transactions",
        "The application's own transactions",
        "Four connections write an order each time: without an outbox, with one message in the same transaction, and with a \
         relay at work beside them that sends it to the memory broker. They take turns of a few seconds. The **limit** is the \
         same minimal pipeline in the relay's place, which reads four milliseconds after it read and deletes without waiting \
         for the disk: what it costs the application is what anything costs on this machine that reads and deletes beside it. \
         After each turn the verdict counts: as many messages as were committed were delivered, and none is left. The \
         relay is a process of its own, in which nobody sees the order.",
    ),
    (
        "cost",
        "What a message costs the database",
        "Processor time of every server process, write-ahead log of the whole cluster, and rows of the outbox that became \
         dead, divided by the messages. Compared with the same INSERTs and DELETEs without a relay. Full-page images and \
         autovacuum are off meanwhile: they belong to no message. What does not go at once has figures of its own: messages \
         with keys of their own, of which every other one is refused once and tried again; and the messages of one key, set \
         aside behind one that holds it, until that is replayed. Each run checks that those were scheduled in the table, or \
         stood set aside there.",
    ),
    (
        "memory",
        "The relay as a process",
        "The real binary drains a backlog to the memory broker until the table is empty; peak memory is its largest resident \
         set. The verdict counts: what the relay says that it delivered, and what is left in the table. Nobody sees the \
         order in it.",
    ),
    (
        "scaling",
        "Several relays",
        "Relays in one process share the lanes and wait; then one transaction commits the whole backlog, and the clock runs \
         until the table is empty. On a machine whose cores are busy with one relay and its database, more relays do not \
         help.",
    ),
    (
        "held",
        "Beside a transaction that is held open",
        "Somebody keeps a writing transaction open for minutes, so that nothing can be vacuumed, while messages are written and \
         relayed; then the same measurements as without it.",
    ),
    (
        "mysql-kafka",
        "MariaDB and Kafka",
        "The same on the other pair. The **limit** is the minimal pipeline that `postrider bench` measures too: it reads pages, \
         publishes and settles through the same drivers, with no decisions, no order and no retries; each of its runs and of the \
         relay's has an outbox and a topic that nobody used before. Of a batch the first message of a key goes to Kafka alone, \
         and what stands behind it together after that. Latency counts from the answer to the commit until the broker's \
         acknowledgement has reached the relay. The application's transactions are an order and a message each, of four \
         connections; the relay beside them is a process of its own that delivers to memory, in turns with none.",
    ),
    (
        "receiving",
        "Receiving once",
        "A message is received and has its effect: a row in a transaction, or a number in a document of PostgreSQL. Each way \
         to remember which messages were handled takes turns of a few seconds with one that remembers nothing. No message \
         is a repeat and none sends anything, so that what remembering costs is all that differs. Then the inbox receives \
         at a steady rate over ten times of what it remembers, while what is older is forgotten in whole partitions.",
    ),
];

/// Keeps a part as `bench-PART.json`, with its picture beside it.
///
/// # Errors
/// When the folder cannot be written.
pub fn keep(folder: &Path, part: &str, measurement: &Measurement) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("bench-{part}.json")), serde_json::to_string_pretty(measurement)? + "\n")?;
    fs::write(folder.join(format!("bench-{part}.svg")), svg(measurement))
}

/// Every part that is kept in a folder, by its name.
///
/// # Errors
/// When a report cannot be read.
pub fn kept(folder: &Path) -> io::Result<Vec<(&'static str, Measurement)>> {
    let mut kept = Vec::new();
    for (part, ..) in PARTS {
        let file = folder.join(format!("bench-{part}.json"));
        if file.exists() {
            kept.push((part, serde_json::from_str(&fs::read_to_string(file)?)?));
        }
    }
    Ok(kept)
}

/// The page: what was measured, and by name what was not.
pub fn performance(kept: &[(&str, Measurement)]) -> String {
    let mut text = String::from(
        "# Performance\n\nMade by `cargo xtask bench --report` from `docs/reports/bench-*.json`; change neither by hand. Every \
         rate of deliveries has a verdict beside it: what was lost, what nobody wrote, what was out of order. A figure is the \
         median of its runs, whose number stands beside it; that of what it is compared with as well, where it is \
         another. `postrider bench` measures drain rate and latency of your own database and broker, and the limit that the \
         same drivers have without a relay between them; everything else on this page only the project's bench measures.\n",
    );
    let mut missing = Vec::new();
    for (part, title, says) in PARTS {
        let Some((_, measurement)) = kept.iter().find(|(name, _)| *name == part) else {
            missing.push(part);
            continue;
        };
        let _ = write!(text, "\n## {title}\n\n{says}\n\n");
        for line in &measurement.circumstances {
            let _ = writeln!(text, "- {line}");
        }
        let _ = write!(
            text,
            "\n![The figures as bars, what they are compared with behind them](reports/bench-{part}.svg)\n\n"
        );
        text.push_str(&measurement.markdown());
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot measured for this version: {}.", missing.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

    fn measurement(part: &str) -> Measurement {
        let figure = Figure::new(part, format!("some {part}"), "ms", vec![1.0]);
        Measurement { circumstances: vec!["a machine".into()], figures: vec![figure] }
    }

    #[test]
    fn the_page_is_made_from_the_kept_reports() {
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        let page = fs::read_to_string(docs.join("performance.md")).unwrap();
        let now = performance(&kept(&docs.join("reports")).unwrap());
        assert!(page == now, "docs/performance.md is out of date: run `cargo xtask bench --only-page`");
    }

    #[test]
    fn every_part_that_was_measured_is_there_and_the_others_are_named() {
        let (drain, held) = (("drain", measurement("drain")), ("held", measurement("held")));
        let text = performance(&[drain, held]);
        for part in ["## Draining a backlog", "some drain", "- a machine", "bench-held.svg", "some held"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("## Several relays"), "{text}");
        assert!(
            text.ends_with(
                "Not measured for this version: latency, transactions, cost, memory, scaling, mysql-kafka, receiving.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_kept_is_read_again_part_by_part() {
        let folder = std::env::temp_dir().join(format!("postrider-bench-kept-{}", std::process::id()));
        keep(&folder, "latency", &measurement("latency")).unwrap();
        keep(&folder, "drain", &measurement("drain")).unwrap();
        let read = kept(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, [("drain", measurement("drain")), ("latency", measurement("latency"))]);
    }
}
