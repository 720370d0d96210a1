//! What PostgreSQL and the people around it do to an outbox: each a clear error, and nothing lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::time::{Duration, Instant};

use postgres::{Outbox, ROOM, Relay, client, insert, lanes, payloads};
use postrider_core::{DeadFilter, ErrorKind, Level, Message, Outcome, Secret, Store};
use postrider_stores::postgres::{Names, PostgresOptions, PostgresStore, VERSION, ddl, migrate, migrate_check, roles};
use postrider_testkit::servers::postgres::{Postgres, shared};
use postrider_testkit::servers::process::{Signal, free_port, signal};

async fn refusal(options: PostgresOptions) -> postrider_core::Error {
    PostgresStore::open(options).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_says_where() {
    let url = format!("postgres://u:hunter2@127.0.0.1:{}/d", free_port().unwrap());
    let error = refusal(PostgresOptions::new(&url).unwrap()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.story().contains("127.0.0.1") && !error.story().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_a_matter_of_configuration_and_is_not_shown() {
    let server = shared().await.unwrap();
    let options = PostgresOptions::new(&server.url()).unwrap().password(&Secret::new("hunter2"));
    let error = refusal(options).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.story().contains("password") && !error.story().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_missing_or_has_no_tables_is_told_apart_with_the_next_step() {
    let server = shared().await.unwrap();
    let missing = refusal(PostgresOptions::new(&server.url_for("no_such_database")).unwrap()).await;
    assert_eq!(missing.kind(), ErrorKind::Config);
    assert!(missing.story().contains("does not exist"), "{missing}");
    let url = server.fresh_database().await.unwrap();
    let empty = refusal(PostgresOptions::new(&url).unwrap()).await;
    assert_eq!(empty.kind(), ErrorKind::Config);
    assert!(empty.story().contains("postrider migrate"), "{empty}");
    let (_, database) = url.rsplit_once('/').unwrap();
    assert!(empty.story().contains(&format!("/{database};")), "{empty}");
}

#[tokio::test]
async fn tables_that_stand_in_another_schema_are_named_where_they_are_looked_for_in_vain() {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    client(&url).await.batch_execute("create schema app").await.unwrap();
    let app = PostgresOptions::new(&url).unwrap().names(Names::new("app", "billing_").unwrap());
    migrate(&app, lanes(2)).await.unwrap();
    migrate(&app.clone().names(Names::new("app", "stock_").unwrap()), lanes(2)).await.unwrap();
    let story = refusal(PostgresOptions::new(&url).unwrap()).await.story();
    assert!(story.contains(r#"an outbox with outbox.schema = "app", outbox.prefix = "billing_""#), "{story}");
    assert!(story.contains(r#"and one with outbox.schema = "app", outbox.prefix = "stock_""#), "{story}");
    migrate(&PostgresOptions::new(&url).unwrap(), lanes(2)).await.unwrap();
    PostgresStore::open(PostgresOptions::new(&url).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_open_and_by_migrate_and_stays_as_it_is() {
    let outbox = Outbox::fresh().await;
    for (newer, needed) in [
        ("update postrider_meta set version = 99, compatible_from = 98", "98"),
        ("alter table postrider_meta drop column compatible_from", "99"),
    ] {
        outbox.sql(newer).await;
        for error in [
            refusal(outbox.options()).await,
            migrate(&outbox.options(), lanes(8)).await.unwrap_err(),
            migrate_check(&outbox.options()).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.story().contains("newer") && error.story().contains(needed), "{error}");
        }
        assert_eq!(outbox.sql("select version from postrider_meta").await, "99");
    }
    let script = ddl(&Names::default(), lanes(8));
    let error = outbox.client().await.batch_execute(&script).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "PR001", "{error}");
}

/// A migration that an older relay need not know of: both work side by side.
#[tokio::test]
async fn a_newer_schema_that_says_so_is_worked_on_and_stays_as_it_is() {
    let outbox = Outbox::fresh().await;
    outbox.sql(&format!("update postrider_meta set version = 99, compatible_from = {VERSION}")).await;
    let store = PostgresStore::open(outbox.options()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    outbox.enqueue(&[Message::new("t", "1")]).await;
    let rows = relay.read_all().await;
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), 1);
    migrate(&outbox.options(), lanes(8)).await.unwrap();
    let installed = migrate_check(&outbox.options()).await.unwrap().unwrap();
    assert_eq!((installed.version, installed.compatible_from), (99, Some(VERSION)));
    let error = migrate(&outbox.options(), lanes(16)).await.unwrap_err();
    assert!(error.story().contains("8 lanes and 16 were asked for"), "{error}");
    let script = ddl(&Names::default(), lanes(8));
    let error = outbox.client().await.batch_execute(&script).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "PR003", "{error}");
    assert_eq!(outbox.sql("select version from postrider_meta").await, "99");
}

#[tokio::test]
async fn another_number_of_lanes_is_refused() {
    let outbox = Outbox::fresh().await;
    let error = migrate(&outbox.options(), lanes(16)).await.unwrap_err();
    assert!(error.story().contains("8 lanes and 16 were asked for"), "{error}");
}

#[tokio::test]
async fn a_sequence_that_caches_numbers_is_refused_until_it_does_not() {
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox alter column id set cache 10").await;
    let error = refusal(outbox.options()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.story().contains("set cache 1"), "{error}");
    outbox.sql("alter table public.postrider_outbox alter column id set cache 1").await;
    PostgresStore::open(outbox.options()).await.unwrap();
}

#[tokio::test]
async fn several_starters_migrate_at_once() {
    let server = shared().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    let starters: Vec<_> = (0..6)
        .map(|_| {
            let options = PostgresOptions::new(&url).unwrap();
            tokio::spawn(async move { migrate(&options, lanes(8)).await })
        })
        .collect();
    for starter in starters {
        starter.await.unwrap().unwrap();
    }
    PostgresStore::open(PostgresOptions::new(&url).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_migration_that_meets_a_lock_of_the_application_blocks_nobody_for_more_than_two_seconds() {
    let outbox = Outbox::fresh().await;
    outbox.sql("update postrider_meta set version = 0").await;
    let application = outbox.client().await;
    application.batch_execute("begin; select from postrider_meta").await.unwrap();
    let options = outbox.options();
    let migrating = tokio::spawn(async move { migrate(&options, lanes(8)).await });
    let (mut worst, until) = (Duration::ZERO, Instant::now() + Duration::from_secs(4));
    let other = outbox.client().await;
    while Instant::now() < until {
        let started = Instant::now();
        insert(&other, "b", "2").await;
        worst = worst.max(started.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!migrating.is_finished(), "the lock was not met");
    assert!(worst < Duration::from_millis(2_500), "an insert waited {worst:?}");
    application.batch_execute("commit").await.unwrap();
    migrating.await.unwrap().unwrap();
    assert_eq!(outbox.sql("select version from postrider_meta").await, VERSION.to_string());
}

/// What is there is not made sure of: that would wait for whoever writes, and let nobody write meanwhile.
#[tokio::test]
async fn an_upgrade_waits_for_no_transaction_that_writes() {
    let outbox = Outbox::fresh().await;
    outbox.sql("update postrider_meta set version = 0").await;
    let application = outbox.client().await;
    application.batch_execute("begin").await.unwrap();
    insert(&application, "a", "1").await;
    application
        .batch_execute(
            "insert into postrider_delivered (id, message_id, lane, topic, payload, created_at, attempts)
               values (-1, gen_random_uuid(), 0, 't', 'x', now(), 1);
             insert into postrider_idempotency (caller, operation, key, fingerprint, epoch, leased_until)
               values ('c', 'o', 'k', 'f', 1, now());
             insert into postrider_inbox_cursor values ('c', 's', 0, 1);
             select postrider_first_seen('c', gen_random_uuid()), postrider_first_seen('c', postrider_uuid7())",
        )
        .await
        .unwrap();
    let options = outbox.options();
    let migrating = migrate(&options, lanes(8));
    tokio::time::timeout(Duration::from_secs(10), migrating).await.expect("it waits for the application").unwrap();
    application.batch_execute("commit").await.unwrap();
    assert_eq!(outbox.sql("select version from postrider_meta").await, VERSION.to_string());
}

#[tokio::test]
async fn tables_of_the_first_version_are_upgraded_where_they_stand() {
    let outbox = Outbox::fresh().await;
    let repeated = "select postrider_enqueue('t', 'k', 'x', '{\"a\": \"1\", \"a\": \"2\"}')";
    // The function as it was: it looked at nothing.
    outbox
        .sql(
            "update postrider_meta set version = 1;
             create or replace function postrider_enqueue(
               topic text, key text, payload bytea, headers json default null, content_type text default null,
               attributes json default null, deliver_at timestamptz default null, expires_at timestamptz default null,
               message_id uuid default null
             ) returns uuid language sql as $$
               insert into postrider_outbox (topic, key, payload, headers) values (topic, key, payload, headers)
               returning message_id $$",
        )
        .await;
    outbox.sql(repeated).await;
    let refused = refusal(outbox.options()).await;
    assert!(refused.story().contains("version 1, older than") && refused.story().contains("postrider migrate"));
    for _ in 0..2 {
        migrate(&outbox.options(), lanes(8)).await.unwrap();
        assert_eq!(outbox.sql("select version from postrider_meta").await, VERSION.to_string());
    }
    let writer = outbox.client().await;
    for refused in [repeated, "select postrider_enqueue('t', 'k', 'x', '{\"a\": 1}')"] {
        let error = writer.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "22023", "{error}");
    }
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "1", "what was there stays");
    PostgresStore::open(outbox.options()).await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = Postgres::start().await.unwrap();
    migrate(&PostgresOptions::new(&server.url()).unwrap(), lanes(8)).await.unwrap();
    let standby = server.standby().await.unwrap();
    let error = refusal(PostgresOptions::new(&standby.url()).unwrap()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.story().contains("replica"), "{error}");
}

#[tokio::test]
async fn a_crash_of_the_server_discards_what_was_read_and_loses_nothing() {
    let server = Postgres::start().await.unwrap();
    let options = PostgresOptions::new(&server.url()).unwrap();
    migrate(&options, lanes(8)).await.unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let writer = client(&server.url()).await;
    writer.batch_execute("checkpoint").await.unwrap();
    for _ in 0..20 {
        writer.batch_execute("begin").await.unwrap();
        insert(&writer, "a", "ghost").await;
        writer.batch_execute("rollback").await.unwrap();
    }
    assert!(relay.read_all().await.is_empty());
    let victim = client(&server.url()).await;
    let row = victim.query_one("select pg_backend_pid()", &[]).await.unwrap();
    signal(u32::try_from(row.get::<_, i32>(0)).unwrap(), Signal::Kill).unwrap();
    // Until the server ends the others it has not noticed, and lets in who will be ended too.
    for _ in 0..500 {
        if writer.simple_query("select 1").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut writer = None;
    for _ in 0..500 {
        if let Ok((client, connection)) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await {
            tokio::spawn(connection);
            if client.simple_query("select 1").await.is_ok() {
                writer = Some(client);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let writer = writer.unwrap();
    for n in 0..5 {
        insert(&writer, "a", &n.to_string()).await;
    }
    let (mut found, mut discontinued) = (Vec::new(), false);
    for _ in 0..50 {
        match relay.source.read(&relay.held, ROOM).await {
            Ok(page) => {
                discontinued |= page.discontinued;
                found.extend(page.rows);
            }
            Err(error) => assert_ne!(error.kind(), ErrorKind::Config, "{error}"),
        }
        if found.len() >= 5 {
            break;
        }
    }
    assert_eq!(payloads(&found), ["0", "1", "2", "3", "4"]);
    assert!(discontinued, "the relay was not told that its trust is void");
}

/// While one connection stands, the server's life is looked at with every sixty-fifth read.
#[tokio::test]
async fn a_boot_id_that_disappeared_discards_what_was_read() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1")]).await;
    assert_eq!(payloads(&relay.read_all().await), ["1"]);
    outbox.sql("delete from postrider_boot").await;
    let mut reads = 0;
    while !relay.read().await.discontinued {
        reads += 1;
        assert!(reads <= 64, "it was not told");
    }
    assert_eq!(payloads(&relay.read_all().await), ["1"], "read anew");
    assert_eq!(outbox.sql("select count(*) from postrider_boot").await, "1");
}

#[tokio::test]
async fn rows_from_the_future_are_read_once_after_a_restore() {
    let outbox = Outbox::fresh().await;
    outbox
        .sql("insert into postrider_outbox (topic, payload, xid) select 't', n::text::bytea, '1000000000' from generate_series(100, 399) n")
        .await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert_eq!(relay.read_all().await.len(), 300);
    assert!(relay.read_all().await.is_empty());
    outbox.enqueue(&[Message::new("t", "new")]).await;
    assert_eq!(payloads(&relay.read_all().await), ["new"]);
}

#[tokio::test]
async fn a_lost_connection_is_opened_again_and_everything_pending_is_read_anew() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1")]).await;
    let rows = relay.read_all().await;
    let terminate = format!(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = '{}' and pid <> pg_backend_pid()",
        outbox.database
    );
    outbox.sql(&terminate).await;
    let until = Instant::now() + Duration::from_secs(10);
    let found = loop {
        if let Ok(page) = relay.source.read(&relay.held, ROOM).await
            && !page.rows.is_empty()
        {
            break page.rows;
        }
        assert!(Instant::now() < until, "never read again");
    };
    assert_eq!(payloads(&found), ["1"]);
    let settled = loop {
        let batch = [postgres::settlement(&rows[0], Outcome::Delivered)];
        if let Ok(settled) = relay.settler.settle(relay.me, &relay.held, &batch).await {
            break settled;
        }
        assert!(Instant::now() < until, "never settled");
    };
    assert_eq!(settled.rows, [rows[0].id]);
}

#[tokio::test]
async fn a_table_that_the_application_locks_or_truncates_makes_the_relay_wait_and_go_on() {
    let outbox = Outbox::with(|options| options.timeout(Duration::from_millis(400))).await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1"), Message::new("t", "2")]).await;
    let rows = relay.read_all().await;
    let application = outbox.client().await;
    application.batch_execute("begin; lock table postrider_outbox in access exclusive mode").await.unwrap();
    let error = relay.source.due(&relay.held, ROOM, &[]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
    application.batch_execute("truncate postrider_outbox; commit").await.unwrap();
    let settled = relay.settle(&rows, Outcome::Delivered).await;
    assert!(settled.rows.is_empty());
    assert!(!settled.lanes.is_empty(), "the lanes are held: the rows are gone");
    outbox.enqueue(&[Message::new("t", "3")]).await;
    assert_eq!(payloads(&relay.read_all().await), ["3"]);
}

#[tokio::test]
async fn a_read_that_is_cancelled_in_the_middle_loses_nothing() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert!(relay.read_all().await.is_empty());
    outbox.enqueue(&[Message::new("t", "1")]).await;
    for micros in (0..4_000).step_by(100) {
        let read = relay.source.read(&relay.held, ROOM);
        if let Ok(Ok(page)) = tokio::time::timeout(Duration::from_micros(micros), read).await
            && !page.rows.is_empty()
        {
            return;
        }
    }
    assert_eq!(payloads(&relay.read_all().await), ["1"]);
}

#[tokio::test]
async fn the_writer_can_only_enqueue_and_the_relay_works_wholly_as_its_role() {
    let server = Postgres::start().await.unwrap();
    let database = server.create_database().await.unwrap();
    let names = Names::new("mail", "box_").unwrap();
    let owner = PostgresOptions::new(&server.url_for(&database)).unwrap().names(names.clone());
    server.psql(&database, "alter default privileges revoke execute on functions from public").await.unwrap();
    migrate(&owner, lanes(8)).await.unwrap();
    server.psql(&database, &roles(&names)).await.unwrap();
    let logins = "create role app login password 'a' in role postrider_writer;
         create role mover login password 'm' in role postrider_relay;
         create role boss login password 'b' in role postrider_admin";
    server.psql(&database, logins).await.unwrap();

    let writer = client(&server.url_as("app", "a", &database)).await;
    let call =
        "select mail.box_enqueue('orders.placed', 'k', convert_to('{}', 'UTF8'), '{\"a\": \"b\"}', 'application/json')";
    let id: uuid::Uuid = writer.query_one(call, &[]).await.unwrap().get(0);
    assert_eq!(id.get_version_num(), 7);
    let plain = "begin; insert into mail.box_outbox (topic, payload) values ('t', ''); rollback";
    writer.batch_execute(plain).await.unwrap();
    for forbidden in [
        "select * from mail.box_outbox",
        "update mail.box_outbox set topic = 'x'",
        "delete from mail.box_outbox",
        "insert into mail.box_outbox (topic, payload, state) values ('t', '', 1)",
        "insert into mail.box_outbox (topic, payload, xid) values ('t', '', '1')",
        "select * from mail.box_lane",
    ] {
        assert!(writer.batch_execute(forbidden).await.is_err(), "{forbidden}");
    }
    for invalid in [
        "select mail.box_enqueue('no topic', null, '')",
        "select mail.box_enqueue('t', '', '')",
        "select mail.box_enqueue('t', E'a\\nb', '')",
        "select mail.box_enqueue('t', null, null)",
        "select mail.box_enqueue('t', null, '', '{\"a b\": \"x\"}')",
        "select mail.box_enqueue('t', null, '', '{\"a\": \"x\\ry\"}')",
        "select mail.box_enqueue('t', null, '', '[]')",
        "select mail.box_enqueue('t', null, '', '{\"a\": \"1\", \"a\": \"2\"}')",
        "select mail.box_enqueue('t', null, '', null, 'nonsense')",
    ] {
        let error = writer.batch_execute(invalid).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "22023", "{invalid}: {error:?}");
    }

    let mover = PostgresOptions::new(&server.url_as("mover", "m", &database)).unwrap().names(names.clone());
    let store = PostgresStore::open(mover.history(postrider_stores::History::Kept)).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    server.psql(&database, "delete from mail.box_boot").await.unwrap();
    let rows = relay.read_all().await;
    assert_eq!(payloads(&rows), ["{}"]);
    let dead = Outcome::Dead {
        reason: postrider_core::DeadReason::Attempts,
        attempts: 1,
        waiting_for: None,
        failures: vec![],
    };
    assert_eq!(relay.settle(&rows, dead).await.rows.len(), 1);
    let mut operator = store.operator().await.unwrap();
    operator.status(10).await.unwrap();
    assert_eq!(operator.replay(&DeadFilter::default(), 10).await.unwrap().len(), 1);
    let due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert_eq!(relay.settle(&due.rows, Outcome::Delivered).await.rows.len(), 1);
    let kept = postrider_core::Retention { delivered: Some(Duration::ZERO), dead: Some(Duration::ZERO) };
    assert_eq!(operator.prune(&kept, 10).await.unwrap().delivered, 1);
    assert!(operator.enqueue(&[Message::new("t", "")]).await.is_err(), "the relay does not enqueue");
    let findings = operator.check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level < Level::Failure), "{findings:?}");
    relay.leases.evict().await.unwrap();
    assert_eq!(relay.leases.members().await.unwrap(), [relay.me]);
    assert_eq!(relay.leases.owned(relay.me).await.unwrap(), relay.held);
    assert_eq!(relay.leases.release(relay.me, &relay.held).await.unwrap().len(), 8);
    relay.leases.leave(relay.me).await.unwrap();

    let boss = PostgresOptions::new(&server.url_as("boss", "b", &database)).unwrap().names(names);
    let mut operator = PostgresStore::open(boss).await.unwrap().operator().await.unwrap();
    operator.enqueue(&[Message::new("t", "")]).await.unwrap();
}

#[tokio::test]
async fn the_doctor_warns_of_asynchronous_commits_and_of_missing_rights() {
    let outbox = Outbox::fresh().await;
    let mut operator = outbox.operator().await;
    let good = operator.check().await.unwrap();
    assert!(good.iter().all(|finding| finding.level == Level::Good), "{good:?}");
    let role = format!("careless_{}", outbox.database);
    outbox.sql(&format!("alter database {} set synchronous_commit = off", outbox.database)).await;
    outbox.sql(&format!("create role {role} login password 'x'; alter role {role} set synchronous_commit = off")).await;
    let findings = operator.check().await.unwrap();
    let warned: Vec<_> =
        findings.iter().filter(|f| f.subject == "synchronous_commit").map(|f| f.found.as_str()).collect();
    assert!(warned.iter().any(|found| found.contains("database")), "{findings:?}");
    assert!(warned.iter().any(|found| found.contains(&role)), "{findings:?}");
    outbox
        .sql(&format!(
            "grant usage on schema public to {role}; grant select on postrider_meta, postrider_lane to {role}"
        ))
        .await;
    let poor = PostgresOptions::new(&outbox.server.url_as(&role, "x", &outbox.database)).unwrap();
    let mut operator = PostgresStore::open(poor).await.unwrap().operator().await.unwrap();
    let findings = operator.check().await.unwrap();
    assert!(findings.iter().any(|f| f.subject == "privileges" && f.level == Level::Failure), "{findings:?}");
}
