//! What a read costs: large windows, dead rows, clocks in conditions.

use std::time::Duration;

use postrider_core::{Outcome, Store};

use super::postgres::{Outbox, ROOM, Relay, client, settlement};

/// What the sessions of the relay read of the table, told when they have ended.
async fn fetched(outbox: &Outbox, relay: Relay) -> i64 {
    drop(relay);
    outbox.sessions_ended().await;
    let sql =
        "select coalesce(idx_tup_fetch, 0) + seq_tup_read from pg_stat_user_tables where relname = 'postrider_outbox'";
    outbox.sql(sql).await.parse().unwrap()
}

/// A large window costs as many row fetches as it has rows, however many pages it takes.
#[tokio::test]
async fn finding_03_the_pages_of_a_large_window_fetch_each_row_a_few_times_at_most() {
    const ROWS: i64 = 60_000;
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert!(relay.read_all().await.is_empty());
    let sql = format!(
        "insert into postrider_outbox (topic, key, payload) select 't', 'k' || n % 100, 'x' from generate_series(1, {ROWS}) n"
    );
    outbox.sql(&sql).await;
    assert_eq!(relay.read_all().await.len(), usize::try_from(ROWS).unwrap());
    let fetched = fetched(&outbox, relay).await;
    assert!((ROWS..8 * ROWS).contains(&fetched), "{fetched} rows fetched for {ROWS}");
}

/// The blocks of the outbox that sessions of their own touched for so many rounds of a new row, read and settled,
/// after reading whatever is there. A session publishes its counters when it ends.
async fn blocks(outbox: &Outbox, relay: &Relay, backlog: usize, rounds: usize) -> i64 {
    let sessions = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and application_name = 'postrider'",
        outbox.database
    );
    let touched = "select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
                     from pg_statio_user_tables where relname = 'postrider_outbox'";
    let (others, before) = (outbox.sql(&sessions).await, outbox.sql(touched).await);
    let (mut source, mut settler) = (outbox.store.source().await.unwrap(), outbox.store.settler().await.unwrap());
    for round in 0..=rounds {
        let mut rows = Vec::new();
        if round > 0 {
            outbox.sql("insert into postrider_outbox (topic, payload) values ('t', 'x')").await;
        }
        loop {
            let page = source.read(&relay.held, ROOM).await.unwrap();
            rows.extend(page.rows);
            if !page.more {
                break;
            }
        }
        assert_eq!(rows.len(), if round > 0 { 1 } else { backlog });
        source.due(&relay.held, ROOM, &[]).await.unwrap();
        for page in rows.chunks(1_000) {
            let batch: Vec<_> = page.iter().map(|row| settlement(row, Outcome::Delivered)).collect();
            settler.settle(relay.me, &relay.held, &batch).await.unwrap();
        }
    }
    drop((source, settler));
    while outbox.sql(&sessions).await != others {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    outbox.sql(touched).await.parse::<i64>().unwrap() - before.parse::<i64>().unwrap()
}

/// Under a snapshot that somebody holds, dead rows pile up at the low end; no poll walks over them.
#[tokio::test]
async fn finding_16_dead_rows_under_a_held_snapshot_cost_a_poll_nothing() {
    const ROUNDS: usize = 20;
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert!(relay.read_all().await.is_empty());
    relay.settle(&[], Outcome::Delivered).await;
    let holder = client(&outbox.url()).await;
    holder.batch_execute("begin isolation level repeatable read; select count(*) from postrider_outbox").await.unwrap();
    let mut each_round = Vec::new();
    for rows in [0, 40_000] {
        let sql =
            format!("insert into postrider_outbox (topic, payload) select 't', 'x' from generate_series(1, {rows})");
        outbox.sql(&sql).await;
        blocks(&outbox, &relay, rows, 0).await;
        let (first_read, all) = (blocks(&outbox, &relay, 0, 0).await, blocks(&outbox, &relay, 0, ROUNDS).await);
        each_round.push((all - first_read) / i64::try_from(ROUNDS).unwrap());
    }
    holder.batch_execute("rollback").await.unwrap();
    assert!(each_round[0] > 0, "the measure itself");
    assert!(each_round[1] < each_round[0] + 60, "blocks per round, without and with 40,000 dead rows: {each_round:?}");
}

#[tokio::test]
async fn finding_16_the_tables_have_the_settings_that_were_measured() {
    let outbox = Outbox::fresh().await;
    let options = outbox.sql("select reloptions from pg_class where relname = 'postrider_outbox'").await;
    for setting in [
        "fillfactor=90",
        "vacuum_truncate=off",
        "autovacuum_vacuum_threshold=10000",
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_vacuum_insert_threshold=100000",
        "autovacuum_vacuum_insert_scale_factor=0",
        "autovacuum_analyze_threshold=50000",
        "autovacuum_analyze_scale_factor=0",
    ] {
        assert!(options.contains(setting), "{setting} is not in {options}");
    }
    let toast = "select reloptions from pg_class
      where oid = (select reltoastrelid from pg_class where relname = 'postrider_outbox')";
    let options = outbox.sql(toast).await;
    for setting in ["vacuum_truncate=off", "autovacuum_vacuum_threshold=10000", "autovacuum_vacuum_scale_factor=0"] {
        assert!(options.contains(setting), "{setting} is not in {options} of the payloads");
    }
    let uncompressed = "select attstorage from pg_attribute
      where attrelid = 'postrider_outbox'::regclass and attname = 'payload'";
    assert_eq!(outbox.sql(uncompressed).await, "e");
    for table in ["postrider_lane", "postrider_relay"] {
        let options = outbox.sql(&format!("select reloptions from pg_class where relname = '{table}'")).await;
        assert!(options.contains("fillfactor=50"), "{table}: {options}");
    }
}

/// The clock stands in the condition of the due query so that an index can be compared with it.
#[tokio::test]
async fn finding_03_rows_that_are_not_due_cost_the_due_query_nothing() {
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, payload, deliver_at)
             select 't', 'x', now() + interval '1 day' from generate_series(1, 20000) n;
             insert into postrider_outbox (topic, payload, deliver_at) select 't', 'due', now() from generate_series(1, 3)",
        )
        .await;
    for _ in 0..20 {
        assert_eq!(relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows.len(), 3);
    }
    let fetched = fetched(&outbox, relay).await;
    assert!((60..1_000).contains(&fetched), "{fetched} rows fetched for 60");
}

/// Ends are columns that are read anyway: no index, no condition, no further write.
#[tokio::test]
async fn messages_with_an_end_that_does_not_come_cost_what_others_cost() {
    let mut costs = Vec::new();
    for expires_at in ["null", "now() + interval '1 day'"] {
        let outbox = Outbox::fresh().await;
        outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
        let mut relay = Relay::joined(&outbox.store).await;
        assert!(relay.read_all().await.is_empty());
        let writer = outbox.client().await;
        for round in 0..50 {
            let sql = format!(
                "insert into postrider_outbox (topic, key, payload, expires_at)
                 select 't', 'k' || n, 'x', {expires_at} from generate_series(1, 1 + 20 * ({round} % 2)) n"
            );
            writer.batch_execute(&sql).await.unwrap();
            let rows = relay.read_all().await;
            assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), 1 + 20 * (round % 2));
            assert!(relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows.is_empty());
        }
        let fetched = fetched(&outbox, relay).await;
        let written =
            "select n_tup_upd || ' ' || n_tup_del from pg_stat_user_tables where relname = 'postrider_outbox'";
        costs.push((fetched, outbox.sql(written).await));
    }
    assert_eq!(costs[0].1, "0 550");
    assert_eq!(costs[0], costs[1], "rows fetched and written, without and with ends");
}
