//! The file broker: what stands in the file after a torn line, a full disk, a rotation.
#![cfg(feature = "file")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use postrider_brokers::file::{ArchiveFile, FileBroker, Rotation};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{
    Archive, Attempt, Broker, Destination, Error, ErrorKind, Lane, Message, Outgoing, Published, Term,
};

fn outgoing(payload: impl Into<bytes::Bytes>) -> Outgoing {
    Outgoing {
        message: Arc::new(Message::new("orders.placed", payload)),
        destination: Destination::new("orders.placed"),
        attempt: Attempt(1),
        lane: Lane(0),
        term: Term(1),
        given_up: None,
    }
}

fn payloads(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "a torn last line: {text:?}");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["payload"].as_str().unwrap().to_owned()).collect()
}

/// Runs this program anew. What it prints is kept from the output of the tests, in whose lines it would stand.
fn succeeds(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}

fn failure(results: Vec<Published>) -> Error {
    match results.into_iter().next() {
        Some(Published::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test]
async fn a_line_torn_by_a_crash_is_cut_off_when_the_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let whole = format!("{{\"payload\":\"{}\"}}\n", "x".repeat(200_000));
    for torn in ["{\"payload\":\"torn", "", &*"y".repeat(150_000)] {
        fs::write(&path, format!("{whole}{torn}")).unwrap();
        let broker = FileBroker::open(&path).unwrap();
        assert_eq!(payloads(&path).len(), 1);
        assert!(matches!(broker.publish(&[outgoing("next")]).await[..], [Published::Accepted(_)]));
        assert_eq!(payloads(&path)[1], "next");
    }
    fs::write(&path, "nothing but a torn line").unwrap();
    FileBroker::open(&path).unwrap();
    assert!(payloads(&path).is_empty());
}

#[tokio::test]
async fn a_second_writer_of_the_same_file_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let first = FileBroker::open(&path).unwrap();
    let archive = ArchiveFile::new(&path, Rotation::default());
    for error in [FileBroker::open(&path).unwrap_err(), archive.keep(&[]).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config);
        let (text, file) = (error.to_string(), path.display().to_string());
        let says = [&*file, "another process writes", "name another file", "one relay", "an archive and a file broker"];
        assert!(says.iter().all(|says| text.contains(says)), "{text}");
    }
    drop(first);
    FileBroker::open(&path).unwrap();
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("out.jsonl"), folder.path().join("out.1.jsonl"));
    let broker = FileBroker::open(&path).unwrap();
    broker.publish(&[outgoing("one")]).await;
    fs::rename(&path, &old).unwrap();
    broker.publish(&[outgoing("two")]).await;
    fs::remove_file(&path).unwrap();
    broker.check(&[]).await.unwrap();
    broker.publish(&[outgoing("three")]).await;
    assert_eq!(payloads(&old), ["one"]);
    assert_eq!(payloads(&path), ["three"]);
}

#[tokio::test]
async fn what_a_foreign_hand_appended_or_cut_is_respected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let broker = FileBroker::open(&path).unwrap();
    broker.publish(&[outgoing("one")]).await;
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"payload\":\"foreign\"}\n{torn").unwrap();
    broker.publish(&[outgoing("two")]).await;
    assert_eq!(payloads(&path), ["one", "foreign", "two"]);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    broker.publish(&[outgoing("three")]).await;
    assert_eq!(payloads(&path), ["three"]);
}

#[test]
fn a_path_that_cannot_be_a_file_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("file://{}/no/such/folder/out.jsonl", folder.path().display());
    let folder = format!("file://{}", folder.path().display());
    for url in ["file:", "file:.", "file://host/path", "file:///", "file:///dev/null", &*folder, &*missing] {
        let error = open(&BrokerConfig::new(url)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
    }
}

#[test]
fn a_relative_path_is_a_file_of_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    succeeds(command.args(["--exact", "inside_a_working_folder", "--ignored"]).current_dir(folder.path()));
    assert_eq!(payloads(&folder.path().join("out.jsonl")), ["here"]);
}

#[tokio::test]
#[ignore = "runs inside a_relative_path_is_a_file_of_the_working_folder"]
async fn inside_a_working_folder() {
    let broker = open(&BrokerConfig::new("file:out.jsonl")).unwrap();
    assert!(matches!(broker.publish(&[outgoing("here")]).await[..], [Published::Accepted(_)]));
}

/// The limit on the size of files stands in for a full disk: the write fails in the middle of a line in both cases.
#[test]
fn a_full_disk_leaves_no_line_of_the_failed_batch_and_the_file_goes_on_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact inside_a_size_limit --ignored --nocapture"])
        .arg(program)
        .env("POSTRIDER_TEST_FOLDER", folder.path());
    succeeds(&mut command);
    assert_eq!(payloads(&folder.path().join("out.jsonl")), ["small", "small again"]);
}

#[tokio::test]
#[ignore = "runs inside a_full_disk_leaves_no_line_of_the_failed_batch_and_the_file_goes_on_afterwards"]
async fn inside_a_size_limit() {
    let path = Path::new(&std::env::var("POSTRIDER_TEST_FOLDER").unwrap()).join("out.jsonl");
    let broker = FileBroker::open(&path).unwrap();
    assert!(matches!(broker.publish(&[outgoing("small")]).await[..], [Published::Accepted(_)]));
    let error = failure(broker.publish(&[outgoing("fits"), outgoing("x".repeat(100_000))]).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(payloads(&path), ["small"]);
    assert!(matches!(broker.publish(&[outgoing("small again")]).await[..], [Published::Accepted(_)]));
}
