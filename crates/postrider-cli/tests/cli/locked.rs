//! Somebody else holds a lock: every verb says who, soon, and how to end it.

use std::time::{Duration, Instant};

use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::postgres::{self, Postgres};
use tokio_postgres::{Client, NoTls};

use crate::harness::{Place, Run, lines, until};

/// Above the five seconds that a verb waits, with room for a slow machine.
const SOON: Duration = Duration::from_secs(14);
const LOCK: &str = "begin; lock table postrider_outbox in access exclusive mode";
/// Which sessions wait for a lock of this database.
const WAITING: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

async fn outbox(place: &Place, server: &Postgres) -> String {
    let url = server.fresh_database().await.unwrap();
    place.run(&["migrate", "--store", &url]).good();
    url
}

/// A session of the application, and its process at the server.
async fn session(url: &str) -> (Client, String) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    (client, pid.to_string())
}

/// Runs a verb that is not to wait for long, off the thread of the sessions.
#[track_caller]
fn soon(place: &Place, arguments: &[&str]) -> Run {
    let started = Instant::now();
    let run = tokio::task::block_in_place(|| place.run(arguments));
    assert!(started.elapsed() < SOON, "{arguments:?} took {:?}: {}", started.elapsed(), run.err);
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_is_told_with_its_holder_by_every_verb() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let (application, pid) = session(&url).await;
    application.batch_execute(LOCK).await.unwrap();
    let (terminate, holder) = (format!("select pg_terminate_backend({pid})"), format!("held by pid {pid} (user "));
    let words = [&holder[..], &terminate, ", since ", "idle in transaction", "`begin; lock table postrider_outbox in"];
    for verb in [
        &["status"][..],
        &["explain", "k"],
        &["dead", "list"],
        &["dead", "replay", "--topic", "a", "--yes"],
        &["prune", "--dead", "1d"],
        &["enqueue", "a", "--payload", "x"],
    ] {
        soon(&place, &[verb, &["--store", &url]].concat()).ends(2).says(&words);
    }
    application.batch_execute("rollback; begin; lock table postrider_meta in access exclusive mode").await.unwrap();
    soon(&place, &["migrate", "--check", "--store", &url]).ends(2).says(&[&holder, &terminate]);
    let check = soon(&place, &["check", "--broker", "stdout:", "--store", &url]);
    assert!(check.ends(1).out.contains(&terminate) && check.out.contains(&holder), "{}", check.out);
    application.batch_execute("rollback").await.unwrap();
    place.run(&["status", "--store", &url]).good();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_told_behind_a_pooler_in_transaction_mode_which_keeps_no_setting_of_it() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let pooler = PgBouncer::start(server, 1).await.unwrap();
    let pooled = pooler.url_for(url.rsplit('/').next().unwrap());
    place.write("postrider.toml", format!("[outbox]\nstore = \"{pooled}\"\npooling = \"transaction\"\n"));
    let (application, pid) = session(&url).await;
    application.batch_execute(LOCK).await.unwrap();
    soon(&place, &["status"]).ends(2).says(&[&format!("select pg_terminate_backend({pid})")]);
    application.batch_execute("rollback").await.unwrap();
    soon(&place, &["enqueue", "a", "--payload", "x"]).good();
    // The pooler's one connection to the server has another user now.
    let (through, _) = session(&pooled).await;
    let left: String = through.query_one("select current_setting('lock_timeout')", &[]).await.unwrap().get(0);
    assert_eq!(left, "0");
}

async fn somebody_waits(look: &Client) {
    let started = Instant::now();
    while look.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(started.elapsed() < SOON, "nobody waits");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_behind_a_waiting_lock_names_who_is_at_the_head() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let (head, pid) = session(&url).await;
    let writing = "begin; insert into postrider_outbox (topic, payload) values ('a', 'canary')";
    head.batch_execute(writing).await.unwrap();
    let (migration, behind) = session(&url).await;
    let altering = tokio::spawn(async move { migration.batch_execute(LOCK).await });
    somebody_waits(&session(&url).await.0).await;
    let run = soon(&place, &["status", "--store", &url]);
    run.ends(2).says(&[&format!("held by pid {pid} "), &format!("pg_terminate_backend({pid})"), "values (...`"]);
    run.hides("canary").hides(&format!("pid {behind} "));
    head.batch_execute("rollback").await.unwrap();
    altering.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_transaction_that_holds_the_lock_is_named_by_its_id() {
    let place = Place::empty();
    let server = Postgres::start_with(&["max_prepared_transactions=2"]).await.unwrap();
    let url = outbox(&place, &server).await;
    let (application, _) = session(&url).await;
    application.batch_execute(&format!("{LOCK}; prepare transaction 'the shop''s'")).await.unwrap();
    let words = ["the prepared transaction 'the shop''s' (user ", "next: ", "`rollback prepared 'the shop''s'`"];
    soon(&place, &["status", "--store", &url]).ends(2).says(&words);
    application.batch_execute("rollback prepared 'the shop''s'").await.unwrap();
    // Behind one that only wrote, and one that waits for it.
    let writing = "begin; insert into postrider_outbox (topic, payload) values ('a', 'x'); prepare transaction 'w'";
    application.batch_execute(writing).await.unwrap();
    let waiting = tokio::spawn(async move { application.batch_execute(LOCK).await });
    let (look, _) = session(&url).await;
    somebody_waits(&look).await;
    soon(&place, &["status", "--store", &url]).ends(2).says(&["`rollback prepared 'w'`"]);
    look.batch_execute("rollback prepared 'w'").await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_meets_a_lock_says_at_once_who_holds_it_and_goes_on_when_it_is_gone() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let (application, pid) = session(&url).await;
    application.batch_execute("update postrider_meta set version = 0").await.unwrap();
    // It waits for nobody who writes; what the outbox says of itself is written anew.
    application.batch_execute("begin; select from postrider_meta").await.unwrap();
    let mut command = place.command(&["migrate", "--store", &url]);
    let mut migration = command.stderr(std::fs::File::create(place.path("log")).unwrap()).spawn().unwrap();
    let told = format!("select pg_terminate_backend({pid})");
    tokio::task::block_in_place(|| until("the holder", || place.read("log").contains(&told).then_some(())));
    application.batch_execute("commit").await.unwrap();
    let ended = tokio::task::block_in_place(|| until("the migration", || migration.try_wait().unwrap()));
    assert!(ended.success(), "{}", place.read("log"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_see_the_holder_is_told_so() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let database = url.rsplit('/').next().unwrap();
    let role = format!("blind_{database}");
    let sql = format!(
        "create role {role} login password 'x'; grant select, update, delete on all tables in schema public to {role}"
    );
    server.psql(database, &sql).await.unwrap();
    let (application, pid) = session(&url).await;
    application.batch_execute(LOCK).await.unwrap();
    let run = soon(&place, &["status", "--store", &server.url_as(&role, "x", database)]);
    let grant = format!("grant pg_read_all_stats to \"{role}\"");
    run.ends(2).says(&[&format!("held by pid {pid} (user "), "is hidden from the role", &grant]);
}

/// What it locks is not removed, and is no reason to write it again in the next round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_somebody_has_locked_is_archived_once_and_stays() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let url = outbox(&place, server).await;
    let run = |arguments: &[&str]| tokio::task::block_in_place(|| place.run(&[arguments, &["--store", &url]].concat()));
    for key in ["a", "b", "c"] {
        run(&["enqueue", "t", "--key", key, "--payload", "too late", "--expires-in", "1ms"]).good();
    }
    run(&["relay", "--until-empty", "--broker", "file:out.jsonl", "--admin-listen", "off"]).good();
    let (application, _) = session(&url).await;
    application.batch_execute("begin; select from postrider_outbox where key = 'b' for update").await.unwrap();
    let prune = ["prune", "--dead", "1ms", "--archive", "file:archive.jsonl", "--json"];
    assert_eq!(run(&prune).good().json()["dead"], 2);
    let archived = || -> Vec<String> {
        lines(&place.path("archive.jsonl")).iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(archived(), ["a", "b", "c"]);
    application.batch_execute("rollback").await.unwrap();
    // Another process cannot know what is in the archive: it writes what it removes.
    assert_eq!(run(&prune).good().json()["dead"], 1);
    assert_eq!(archived(), ["a", "b", "c", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_another_process_has_locked_is_told_with_how_to_find_it() {
    let place = Place::migrated();
    let application = rusqlite::Connection::open(place.path("app.db")).unwrap();
    application.execute_batch("begin immediate").unwrap();
    let words =
        ["another process has kept app.db locked", "next: see which process", "`fuser -v app.db`", "`lsof app.db`"];
    let store = ["--store", "sqlite:app.db"];
    for verb in [&["enqueue", "a", "--payload", "x"][..], &["prune", "--dead", "1d"], &["migrate"]] {
        soon(&place, &[verb, &store].concat()).ends(2).says(&words);
    }
    let check = soon(&place, &[&["check", "--broker", "stdout:"], &store[..]].concat());
    assert!(check.ends(1).out.contains("fuser -v app.db"), "{}", check.out);
    // Without the write-ahead log a writer that commits keeps readers out too.
    application.execute_batch("rollback; pragma journal_mode = delete; begin exclusive").unwrap();
    for verb in [&["status"][..], &["explain", "k"], &["dead", "list"], &["migrate", "--check"]] {
        soon(&place, &[verb, &store].concat()).ends(2).says(&words);
    }
    application.execute_batch("rollback").unwrap();
    place.on(&["status"]).good();
}
