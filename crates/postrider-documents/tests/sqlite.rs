//! Documents in SQLite pass the suite, and two processes share one file.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{DocumentStore, ErrorKind, Level, WriteError};
use postrider_documents::open;
use postrider_testkit::suites::documents::{DocumentHarness, Exclusion, draft, key, run};
use rusqlite::Connection;
use tempfile::TempDir;

const FILE: &str = "POSTRIDER_TEST_FILE";
const EACH: usize = 100;

async fn at(file: &Path) -> Arc<dyn DocumentStore> {
    open(&format!("sqlite://{}", file.display())).await.unwrap()
}

struct Harness {
    folder: TempDir,
    file: Mutex<PathBuf>,
    /// Somebody who keeps the write lock.
    writer: Mutex<Option<Connection>>,
}

impl Harness {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Mutex::new(folder.path().join("app.db"));
        let harness = Self { folder, file, writer: Mutex::default() };
        harness.client().await.prepare().await.unwrap();
        harness
    }

    fn file(&self) -> PathBuf {
        self.file.lock().unwrap().clone()
    }
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        at(&self.file()).await
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        at(&self.folder.path().join("empty.db")).await
    }

    async fn stop(&self) {
        let writer = Connection::open(self.file()).unwrap();
        writer.busy_timeout(Duration::from_secs(5)).unwrap();
        writer.execute_batch("begin immediate").unwrap();
        *self.writer.lock().unwrap() = Some(writer);
    }

    async fn start(&self) {
        self.writer.lock().unwrap().take();
    }

    /// What a killed process leaves: the file and its log, as they stand while it has them open.
    async fn crash(&self) {
        let after = self.folder.path().join("after.db");
        for end in ["", "-wal"] {
            std::fs::copy(format!("{}{end}", self.file().display()), format!("{}{end}", after.display())).unwrap();
        }
        *self.file.lock().unwrap() = after;
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(15)
    }

    fn rounds(&self) -> usize {
        30
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[
            Exclusion { case: "a_store_that_is_away_is_not_read", reason: "a reader never waits for a writer" },
            Exclusion { case: "check_of_a_store_that_is_away_fails", reason: "a reader never waits for a writer" },
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_sqlite_pass_the_suite() {
    run("sqlite", Harness::start).await.expect_success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_count_in_one_file_and_lose_nothing() {
    let harness = Harness::start().await;
    let store = harness.client().await;
    store.create(&key("7"), &draft("0")).await.unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inside_another_process", "--ignored"])
        .env(FILE, harness.file())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    count(&store).await;
    assert!(tokio::task::block_in_place(|| other.wait()).unwrap().success());
    let stored = store.load(&key("7")).await.unwrap().unwrap();
    assert_eq!(stored.json, format!("{}", 2 * EACH));
}

#[tokio::test]
#[ignore = "runs inside two_processes_count_in_one_file_and_lose_nothing"]
async fn inside_another_process() {
    count(&at(Path::new(&std::env::var(FILE).unwrap())).await).await;
}

async fn count(store: &Arc<dyn DocumentStore>) {
    let mut left = EACH;
    while left > 0 {
        let stored = store.load(&key("7")).await.unwrap().unwrap();
        let next = std::str::from_utf8(&stored.json).unwrap().parse::<usize>().unwrap() + 1;
        match store.replace(&key("7"), &stored.version, &draft(next.to_string())).await {
            Ok(_) => left -= 1,
            Err(WriteError::Conflict) => {}
            Err(other) => panic!("a replace neither succeeded nor conflicted: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_database_or_cannot_be_written_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (text, nowhere) = (folder.path().join("text"), folder.path().join("no/such/folder.db"));
    std::fs::write(&text, "no database, but long enough to look at: ".repeat(100)).unwrap();
    for (file, expected) in [(&text, "no SQLite database"), (&nowhere, "no such file")] {
        let error = at(file).await.prepare().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected) && error.advice().is_some(), "{error}");
    }
}

#[tokio::test]
async fn check_finds_a_journal_and_an_index_that_are_not_as_they_should_be() {
    let harness = Harness::start().await;
    let other = Connection::open(harness.file()).unwrap();
    other.execute_batch("drop index postrider_document_due; pragma journal_mode = delete").unwrap();
    drop(other);
    let findings = harness.client().await.check().await.unwrap();
    let warned: Vec<&str> =
        findings.iter().filter(|found| found.level == Level::Warning).map(|found| found.subject.as_str()).collect();
    assert_eq!(warned, ["journal", "index"], "{findings:?}");
}
