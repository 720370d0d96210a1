//! Rows written by hand, one column of each spoilt, and what a relay makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_brokers::memory::MemoryBroker;
use postrider_core::{DeadFilter, DeadReason, Position, RowId};

use crate::bench::{Outbox, delivered, drain, keyed};

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is a dead letter: malformed.
    Dead,
    /// It is a dead letter: its time has passed.
    Expired,
    /// It is delivered as if nothing were wrong.
    Delivered,
}

/// A column, what stands in it, and what becomes of the row.
pub type Case = (&'static str, &'static str, Fate);

/// Writes one row per case between two neighbours of its key, relays, and compares.
pub async fn relay_and_compare(outbox: &Outbox, cases: &[Case]) {
    for (number, (column, value, _)) in cases.iter().enumerate() {
        let (key, text) = (format!("key-{number}"), if outbox.is_sqlite() { "x" } else { "bytea" });
        outbox.enqueue(&[keyed(&key, &format!("before-{number}"))]).await;
        let payload = if text == "x" { format!("'spoilt-{number}'") } else { format!("'spoilt-{number}'::bytea") };
        let (columns, values) = match *column {
            "topic" => ("topic, key, payload".to_owned(), format!("{value}, '{key}', {payload}")),
            "key" => ("topic, key, payload".to_owned(), format!("'t', {value}, {payload}")),
            "payload" => ("topic, key, payload".to_owned(), format!("'t', '{key}', {value}")),
            column => (format!("topic, key, payload, {column}"), format!("'t', '{key}', {payload}, {value}")),
        };
        outbox.sql(&format!("insert into postrider_outbox ({columns}) values ({values})")).await.unwrap();
        outbox.enqueue(&[keyed(&key, &format!("after-{number}"))]).await;
    }
    let broker = Arc::new(MemoryBroker::recording());
    let summary = drain(outbox, &broker).await;
    let arrived = delivered(&broker);
    let position = Position { after: RowId(i64::MIN), limit: 1_000 };
    let dead = outbox.operator().await.dead(&DeadFilter::default(), position).await.unwrap();
    assert!(dead.iter().all(|row| row.attempts == 0), "{dead:?}");
    let dead: BTreeMap<i64, _> = dead.into_iter().map(|row| (row.row.0, row)).collect();
    let mut wrong = Vec::new();
    for (number, (column, value, fate)) in cases.iter().enumerate() {
        let case = format!("{column} = {value}");
        for neighbour in ["before", "after"] {
            assert!(arrived.contains(&format!("{neighbour}-{number}")), "{case}: {neighbour} did not arrive");
        }
        // Three rows a case, counted from one.
        let row = i64::try_from(number * 3 + 2).unwrap();
        let reason = match fate {
            Fate::Dead => Some(DeadReason::Malformed),
            Fate::Expired => Some(DeadReason::Expired),
            Fate::Delivered => None,
        };
        let found = (dead.get(&row).and_then(|row| row.dead_reason), arrived.contains(&format!("spoilt-{number}")));
        if found != (reason, reason.is_none()) {
            wrong.push(format!("{case}: dead {:?}, delivered {}", found.0, found.1));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}; {summary:?}");
    let expected = cases.iter().filter(|(.., fate)| *fate != Fate::Delivered).count();
    assert_eq!((dead.len(), usize::try_from(summary.dead).unwrap()), (expected, expected));
    assert_eq!(usize::try_from(outbox.status().await.pending.value()).unwrap(), 0);
    println!("{} cases: {expected} dead letters, {} delivered", cases.len(), cases.len() - expected);
}

/// The columns that may be null and that no case spoils.
pub async fn left_out(outbox: &Outbox, cases: &[Case]) -> Vec<String> {
    let nullable = if outbox.is_sqlite() {
        r#"select name from pragma_table_info('postrider_outbox') where "notnull" = 0 and pk = 0"#
    } else {
        "select column_name from information_schema.columns where table_name = 'postrider_outbox' and is_nullable = 'YES'"
    };
    let columns = outbox.sql(nullable).await.unwrap();
    assert!(columns.lines().count() >= 10, "{columns}");
    columns.lines().filter(|name| cases.iter().all(|(column, ..)| column != name)).map(str::to_owned).collect()
}
