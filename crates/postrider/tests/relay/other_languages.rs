//! The programs under `examples/` that are not written in Rust, run as their readers run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use postrider_testkit::servers::postgres::shared;
use rusqlite::Connection;

use super::{Got, migrated, relayed};

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(path)
}

/// Runs a program to its end; what it wrote to standard error when it failed.
fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Result<(), String> {
    let out = Command::new(program.as_ref()).args(arguments).output().map_err(|error| error.to_string())?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

fn one_order(got: &[Got]) {
    let [got] = got else { panic!("{got:?}") };
    assert_eq!(got.payload, r#"{"id": 7, "customer": "ann", "item": "book"}"#);
    assert_eq!((got.key.as_deref(), got.correlation_id.as_deref()), (Some("ann"), Some("7")));
    assert_eq!(got.content_type.as_deref(), Some("application/json"));
}

fn three_orders(got: &[Got]) {
    let of = |customer: &str| -> Vec<_> {
        let of = got.iter().filter(|got| got.key.as_deref() == Some(customer));
        of.map(|got| got.correlation_id.clone().unwrap()).collect()
    };
    assert_eq!((of("ann"), of("bob")), (vec!["1".to_owned(), "3".to_owned()], vec!["2".to_owned()]));
    assert!(got.iter().all(|got| got.content_type.as_deref() == Some("application/json")), "{got:?}");
    assert_eq!(got.len(), 3);
}

#[tokio::test]
async fn psql_enqueues_with_the_sql_function() {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    migrated(&url).await;
    let file = example("from-sql/postgres.sql");
    run("psql", &[&url, "-v", "ON_ERROR_STOP=1", "-q", "-f", file.to_str().unwrap()]).unwrap();
    one_order(&relayed(&url).await);
}

#[tokio::test]
async fn sql_inserts_the_row_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/shop.db", folder.path().display());
    migrated(&url).await;
    let sql = std::fs::read_to_string(example("from-sql/sqlite.sql")).unwrap();
    Connection::open(folder.path().join("shop.db")).unwrap().execute_batch(&sql).unwrap();
    one_order(&relayed(&url).await);
}

#[tokio::test]
async fn python_inserts_the_row_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let url = format!("sqlite://{}", path.display());
    migrated(&url).await;
    let program = example("from-python/sqlite.py");
    if run("python3", &["-c", "import sqlite3"]).is_err() {
        println!("NOT RUN: python: python3 with its sqlite3 module is not installed");
        return;
    }
    run("python3", &[program.to_str().unwrap(), path.to_str().unwrap()]).unwrap();
    three_orders(&relayed(&url).await);
}

#[tokio::test]
async fn python_inserts_the_row_with_psycopg() {
    let Some(python) = psycopg() else { return };
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    migrated(&url).await;
    let program = example("from-python/postgres.py");
    run(python, &[program.to_str().unwrap(), &url]).unwrap();
    three_orders(&relayed(&url).await);
}

#[tokio::test]
async fn python_receives_a_message_once_with_psycopg() {
    let Some(python) = psycopg() else { return };
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    migrated(&url).await;
    let program = example("from-python/receiving.py");
    let receive = |id: &str| {
        let out = Command::new(&python).arg(&program).args([&url, id, "7"]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    };
    let (fresh, old) = (postrider::MessageId::fresh().to_string(), "01700000-0000-7000-8000-000000000000");
    assert_eq!([receive(&fresh), receive(&fresh)], ["invoiced\n", "was invoiced before\n"]);
    let keep =
        "import psycopg, sys; psycopg.connect(sys.argv[1], autocommit=True).execute('select postrider_inbox_keep()')";
    run(&python, &["-c", keep, &url]).unwrap();
    assert_eq!(receive(old), format!("kept for a person: message {old} is too old\n"));
}

/// A Python that has psycopg; where there is none, the test says that it was not run.
fn psycopg() -> Option<PathBuf> {
    found_psycopg().inspect_err(|reason| println!("NOT RUN: psycopg: {reason}")).ok()
}

/// One of the machine's, or one with an environment of its own beside the build.
fn found_psycopg() -> Result<PathBuf, String> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("psycopg");
    let own = environment.join("bin/python");
    let has = |python: &Path| run(python, &["-c", "import psycopg"]).is_ok();
    if let Some(found) = [Path::new("python3"), Path::new("/usr/bin/python3"), &own].into_iter().find(|path| has(path))
    {
        return Ok(found.to_owned());
    }
    run("python3", &["-m", "venv", environment.to_str().unwrap()])?;
    let install = ["-m", "pip", "install", "--quiet", "psycopg[binary]"];
    run(&own, &install).map_err(|said| said.lines().last().unwrap_or("pip failed").to_owned())?;
    if has(&own) { Ok(own) } else { Err("it was installed and cannot be imported".to_owned()) }
}
