//! Settling PostgreSQL: the fence, and what is recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::{Outbox, Relay, TTL, ids, settlement};
use postrider_core::{
    Attempt, DeadReason, DestinationName, ErrorKind, FailedAttempt, Message, Outcome, RelayId, Settlement, Store,
};
use postrider_stores::History;
use postrider_testkit::servers::postgres::shared;
use uuid::Uuid;

#[tokio::test]
async fn a_zombie_whose_lane_is_taken_while_its_settle_runs_changes_nothing() {
    let outbox = Outbox::fresh().await;
    let mut zombie = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1").key("a")]).await;
    let rows = zombie.read_all().await;
    let successor = outbox.client().await;
    successor
        .batch_execute(
            "begin; select from postrider_lane for update;
             update postrider_lane set owner = gen_random_uuid(), term = term + 1",
        )
        .await
        .unwrap();
    let expected = rows.clone();
    let settling = tokio::spawn(async move { (zombie.settle(&rows, Outcome::Delivered).await, zombie) });
    outbox.blocked().await;
    successor.batch_execute("commit").await.unwrap();
    let (settled, mut zombie) = settling.await.unwrap();
    assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{settled:?}");
    let dead = Outcome::Dead { reason: DeadReason::Attempts, attempts: 9, waiting_for: None, failures: vec![] };
    let settled = zombie.settle(&expected, dead).await;
    assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{settled:?}");
    assert_eq!(outbox.sql("select state, attempts from postrider_outbox").await, "0|0");
}

#[tokio::test]
async fn a_lane_whose_settle_is_in_flight_is_not_taken_until_it_ends() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1").key("a")]).await;
    let rows = relay.read_all().await;
    let lane = rows[0].lane;
    let application = outbox.client().await;
    application.batch_execute("begin; select from postrider_outbox for update").await.unwrap();
    let settling = tokio::spawn(async move { relay.settle(&rows, Outcome::Delivered).await });
    outbox.blocked().await;
    outbox.sql("update postrider_relay set expires_at = clock_timestamp() - interval '1 second'").await;
    let mut leases = outbox.store.leases().await.unwrap();
    assert_eq!(leases.evict().await.unwrap(), 7, "all but the one whose settle is in flight");
    let me = RelayId(Uuid::now_v7());
    leases.join(me, "successor", TTL).await.unwrap();
    let held = leases.acquire(me, 8).await.unwrap();
    assert!(held.iter().all(|held| held.lane != lane));
    application.batch_execute("commit").await.unwrap();
    assert_eq!(settling.await.unwrap().rows.len(), 1);
    assert_eq!(leases.evict().await.unwrap(), 1);
    assert_eq!(leases.acquire(me, 8).await.unwrap()[0].lane, lane);
}

#[tokio::test]
async fn a_number_that_the_history_has_already_is_settled_all_the_same() {
    let outbox = Outbox::with(|options| options.history(History::Kept)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    for began_anew in [false, true] {
        if began_anew {
            outbox.sql("truncate postrider_outbox restart identity").await;
        }
        outbox.enqueue(&[Message::new("t", "x")]).await;
        let rows = relay.read_all().await;
        assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, ids(&rows), "began anew: {began_anew}");
    }
    assert_eq!(
        outbox.sql("select (select count(*) from postrider_outbox), count(*) from postrider_delivered").await,
        "0|1"
    );
}

/// Otherwise nothing that is settled together with it could be, for ever.
#[tokio::test]
async fn a_failure_is_recorded_in_a_database_that_lacks_its_characters() {
    let server = shared().await.unwrap();
    let create = "create database latin template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'";
    server.psql("postgres", create).await.unwrap();
    let outbox = Outbox::within(server, "latin".to_owned(), 1, |options| options).await;
    let mut relay = Relay::joined(&outbox.store).await;
    for (text, told) in [("日本: caf\u{e9}", "??: caf?"), ("nothing\0", "nothing?"), ("plain", "plain")] {
        outbox.sql("truncate postrider_outbox").await;
        outbox.enqueue(&[Message::new("t", "1"), Message::new("t", "2")]).await;
        let rows = relay.read_all().await;
        let failure = FailedAttempt {
            destination: DestinationName::new("main"),
            kind: ErrorKind::Unknown,
            text: text.to_owned(),
            moment: 1,
        };
        let dead =
            Outcome::Dead { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: vec![failure] };
        let batch = [settlement(&rows[0], dead), settlement(&rows[1], Outcome::Delivered)];
        let settled = relay.settler.settle(relay.me, &relay.held, &batch).await.unwrap();
        assert_eq!(settled.rows.len(), 2, "{settled:?}");
        assert_eq!(outbox.sql("select errors->0->>'text' from postrider_outbox").await, told);
    }
}

#[tokio::test]
async fn one_statement_records_every_outcome_and_keeps_the_history() {
    let outbox = Outbox::with(|options| options.history(History::Kept)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let messages: Vec<Message> = (0..4).map(|n| Message::new("t", n.to_string()).key(format!("k{n}"))).collect();
    outbox.enqueue(&messages).await;
    let mut rows = relay.read_all().await;
    rows.sort_by_key(|row| row.id);
    let east = DestinationName::new("east");
    let failures = vec![FailedAttempt {
        destination: east.clone(),
        kind: ErrorKind::Rejected,
        text: "no \"x\" \\ \0".into(),
        moment: 1,
    }];
    let outcomes = [
        Outcome::Delivered,
        Outcome::Retry {
            after: Duration::from_secs(60),
            attempts: 2,
            waiting_for: Some(vec![east.clone()]),
            progress: [(east.clone(), 2)].into(),
            failures: failures.clone(),
        },
        Outcome::SetAside { waiting_for: None },
        Outcome::Dead { reason: DeadReason::Malformed, attempts: 1, waiting_for: Some(vec![east]), failures },
    ];
    let batch: Vec<Settlement> = rows.iter().zip(outcomes).map(|(row, outcome)| settlement(row, outcome)).collect();
    for repeat in 0..2 {
        let mut settled = relay.settler.settle(relay.me, &relay.held, &batch).await.unwrap();
        settled.rows.sort();
        let expected = if repeat == 0 { ids(&rows) } else { vec![rows[1].id, rows[2].id] };
        assert_eq!(settled.rows, expected);
        assert!(!settled.lanes.is_empty());
    }
    assert_eq!(
        outbox.sql("select message_id, attempts from postrider_delivered").await,
        format!("{}|1", messages[0].id)
    );
    let columns =
        "state, attempts, next_attempt_at is not null, waiting_for, progress, json_array_length(errors), dead_reason";
    assert_eq!(
        outbox.sql(&format!("select {columns} from postrider_outbox order by id")).await,
        "0|2|t|{east}|{\"east\":2}|1|\n2|0|f||||\n1|1|f|{east}||1|2"
    );
    let error = outbox.sql("select errors->0->>'text', errors->0->>'kind' from postrider_outbox where state = 1").await;
    assert_eq!(error, "no \"x\" \\ \u{fffd}|rejected");
}

#[tokio::test]
async fn a_statement_that_settles_many_rows_finds_them_by_the_primary_key() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.sql("insert into postrider_outbox (topic, key, payload) select 't', 'k' || n, 'x' from generate_series(1, 20000) n").await;
    let scans = "select seq_scan from pg_stat_user_tables where relname = 'postrider_outbox'";
    let before = outbox.sql(scans).await;
    let page = relay.read().await;
    let batch: Vec<Settlement> = page
        .rows
        .iter()
        .enumerate()
        .map(|(n, row)| {
            let outcome = if n % 2 == 0 { Outcome::Delivered } else { Outcome::SetAside { waiting_for: None } };
            Settlement { attempt: Attempt(1), ..settlement(row, outcome) }
        })
        .collect();
    let settled = relay.settler.settle(relay.me, &relay.held, &batch).await.unwrap();
    assert_eq!(settled.rows.len(), page.rows.len());
    drop(relay);
    let written = "select n_tup_del = 500 from pg_stat_user_tables where relname = 'postrider_outbox'";
    while outbox.sql(written).await != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(outbox.sql(scans).await, before, "a scan of the whole table");
}

/// Between the first and the last row stand others that are not meant: not delivered yet, gone, dead, or of a lane that
/// was lost.
#[tokio::test]
async fn of_rows_that_stand_close_together_only_those_that_are_meant_and_ours_are_removed() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.sql("insert into postrider_outbox (topic, key, payload) select 't', 'k' || n, 'x' from generate_series(1, 600) n").await;
    let mut rows = relay.read_all().await;
    rows.sort_by_key(|row| row.id);
    let lost = rows[0].lane;
    outbox.sql(&format!("update postrider_lane set term = term + 1 where lane = {}", lost.0)).await;
    let gone = rows.iter().find(|row| row.lane != lost).unwrap().id;
    let dead = rows.iter().rfind(|row| row.lane != lost).unwrap().id;
    outbox.sql(&format!("delete from postrider_outbox where id = {}", gone.0)).await;
    outbox.sql(&format!("update postrider_outbox set state = 1 where id = {}", dead.0)).await;
    let (meant, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.id.0 % 4 != 0);
    let settled = relay.settle(&meant, Outcome::Delivered).await;
    let ours = meant.iter().filter(|row| row.lane != lost && row.id != gone && row.id != dead);
    let expected: BTreeSet<_> = ours.map(|row| row.id).collect();
    assert!(expected.len() > 300 && !settled.lanes.contains(&lost));
    assert_eq!(settled.rows.iter().copied().collect::<BTreeSet<_>>(), expected);
    let left = outbox.sql("select count(*) from postrider_outbox").await;
    let stay = meant.iter().filter(|row| row.lane == lost || row.id == dead).count() + others.len();
    let gone_of_others = others.iter().filter(|row| row.id == gone).count();
    assert_eq!(left, (stay - gone_of_others).to_string());
}

#[tokio::test]
async fn rows_that_stand_close_together_are_removed_by_the_primary_key_from_the_first_to_the_last() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.sql("insert into postrider_outbox (topic, key, payload) select 't', 'k' || n, 'x' from generate_series(1, 20000) n").await;
    let page = relay.read().await;
    let scans =
        "select seq_scan, (select idx_scan from pg_stat_user_indexes where indexrelname = 'postrider_outbox_pkey')
                   from pg_stat_user_tables where relname = 'postrider_outbox'";
    let before = outbox.sql(scans).await;
    assert_eq!(relay.settle(&page.rows, Outcome::Delivered).await.rows.len(), page.rows.len());
    drop(relay);
    let written = "select n_tup_del > 500 from pg_stat_user_tables where relname = 'postrider_outbox'";
    while outbox.sql(written).await != "t" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = |text: &str| text.split('|').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let (before, after) = (count(&before), count(&outbox.sql(scans).await));
    assert_eq!(after[0], before[0], "a scan of the whole table");
    assert!(after[1] <= before[1] + 4, "a way down the index for each row: {before:?}, {after:?}");
}
