//! Rotation of the file broker: whole files, no line torn or lost, whenever the writer dies.
#![cfg(feature = "file")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_brokers::file::{ArchiveFile, FileBroker, Rotation};
use postrider_core::{
    Archive, Attempt, Broker, DeliveredView, Destination, ErrorKind, Lane, Message, Outgoing, PastRow, Published,
    RowId, Term, Timestamp,
};

/// Two or three of the lines of these tests.
const SMALL: u64 = 1_200;
/// How often the writer is killed; `POSTRIDER_FULL=1` makes it ten times as often.
const KILLS: usize = 25;

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

async fn accepted(broker: &FileBroker, payload: &str) {
    match &broker.publish(&[outgoing(payload.to_owned())]).await[..] {
        [Published::Accepted(_)] => {}
        other => panic!("expected an acknowledgement, found {other:?}"),
    }
}

/// The files of a path: the rotated ones by age, and then the one that is written.
fn files(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}."))).collect();
    files.sort();
    files.extend(path.exists().then(|| path.to_owned()));
    files
}

/// The payloads of a file, which has whole lines only.
fn payloads(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "a torn last line in {}: {text:?}", file.display());
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["payload"].as_str().unwrap().to_owned()).collect()
}

fn all_payloads(path: &Path) -> Vec<String> {
    files(path).iter().flat_map(|file| payloads(file)).collect()
}

fn by_size(keep: Option<usize>) -> Rotation {
    Rotation { size: Some(SMALL), keep: keep.and_then(NonZeroUsize::new), ..Rotation::default() }
}

#[tokio::test]
async fn a_file_gives_way_before_it_grows_beyond_its_size_and_every_line_stands_once_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let broker = FileBroker::rotating(&path, by_size(None)).unwrap();
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for number in &numbers {
        accepted(&broker, number).await;
    }
    assert_eq!(all_payloads(&path), numbers);
    let files = files(&path);
    assert!(files.len() > 5, "{files:?}");
    assert!(files.iter().all(|file| (1..=SMALL).contains(&fs::metadata(file).unwrap().len())), "{files:?}");
    // A batch that is larger than a file stands whole in one of its own.
    accepted(&broker, &"x".repeat(5_000)).await;
    assert_eq!(payloads(&path).len(), 1);
}

#[tokio::test]
async fn no_more_old_files_stay_than_are_to_be_kept_and_no_other_file_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let foreign = folder.path().join("out.jsonl.of-mine");
    fs::write(&foreign, "mine").unwrap();
    let broker = FileBroker::rotating(&path, by_size(Some(2))).unwrap();
    for number in 0..40 {
        accepted(&broker, &number.to_string()).await;
    }
    let old: Vec<PathBuf> = files(&path).into_iter().filter(|file| *file != foreign && *file != path).collect();
    assert_eq!(old.len(), 2, "{old:?}");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "mine");
    let last: Vec<String> = old.iter().chain([&path]).flat_map(|file| payloads(file)).collect();
    let expected: Vec<String> = (40 - last.len()..40).map(|number| number.to_string()).collect();
    assert_eq!(last, expected);
}

/// A link goes on naming the file that is written; it is not the one that gives way.
#[cfg(unix)]
#[tokio::test]
async fn behind_a_link_the_file_that_it_names_gives_way_whether_it_was_there_or_not() {
    for (was_there, target) in [(true, "real/out.jsonl"), (false, "real/out.jsonl"), (false, "second.jsonl")] {
        let folder = tempfile::tempdir().unwrap();
        let (link, real) = (folder.path().join("link.jsonl"), folder.path().join("real/out.jsonl"));
        fs::create_dir(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        // For the link to a link.
        std::os::unix::fs::symlink(&real, folder.path().join("second.jsonl")).unwrap();
        if was_there {
            fs::write(&real, "").unwrap();
        }
        let broker = FileBroker::rotating(&link, by_size(None)).unwrap();
        let numbers: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        for number in &numbers {
            accepted(&broker, number).await;
        }
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        assert_eq!(files(&link), std::slice::from_ref(&link), "what gave way stands beside the link");
        assert!(files(&real).len() > 2, "{:?}", files(&real));
        assert_eq!(all_payloads(&real), numbers);
        assert_eq!(payloads(&link), payloads(&real));
    }
}

/// Its lines are never in memory as one, and so the file gives way between them.
#[tokio::test]
async fn an_archive_is_written_in_pieces_between_which_the_file_gives_way() {
    const LARGEST: u64 = 512 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.jsonl");
    let row = |number: i64| {
        let message = Message::new("orders.placed", format!("{number} {}", "x".repeat(50_000)));
        PastRow::Delivered(Box::new(DeliveredView {
            row: RowId(number),
            message,
            attempts: 0,
            settled_at: Timestamp(1_800_000_000_000_000),
        }))
    };
    let rows: Vec<PastRow> = (0..60).map(row).collect();
    let rotation = Rotation { size: Some(LARGEST), ..Rotation::default() };
    ArchiveFile::new(&path, rotation).keep(&rows).await.unwrap();
    let files = files(&path);
    assert!(files.len() > 4, "{files:?}");
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= LARGEST), "{files:?}");
    let found = all_payloads(&path);
    let numbers: Vec<&str> = found.iter().filter_map(|payload| payload.split(' ').next()).collect();
    assert_eq!(numbers, (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_file_that_is_old_gives_way_to_the_next_batch_also_when_it_was_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let rotation = Rotation { age: Some(Duration::from_secs(1)), ..Rotation::default() };
    let until = Instant::now() + Duration::from_secs(20);
    let mut count = 0;
    while files(&path).len() < 3 {
        assert!(Instant::now() < until, "never rotated: {:?}", files(&path));
        // A new broker each time: the age is that of the file, not that of its writer.
        accepted(&FileBroker::rotating(&path, rotation).unwrap(), &count.to_string()).await;
        count += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    assert_eq!(all_payloads(&path), expected);
}

#[tokio::test]
async fn a_folder_that_is_away_when_a_file_is_to_give_way_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let broker = FileBroker::rotating(&path, by_size(None)).unwrap();
    while fs::metadata(&path).unwrap().len() + 600 < SMALL {
        accepted(&broker, "fits").await;
    }
    let before = payloads(&path);
    fs::rename(folder.path(), folder.path().with_extension("moved")).unwrap();
    let failed = broker.publish(&[outgoing("x".repeat(2_000))]).await;
    assert!(matches!(&failed[..], [Published::Failed(error)] if error.kind() == ErrorKind::Config), "{failed:?}");
    fs::rename(folder.path().with_extension("moved"), folder.path()).unwrap();
    assert_eq!(all_payloads(&path), before);
    accepted(&broker, "after").await;
    assert_eq!(all_payloads(&path).last().unwrap(), "after");
}

/// Every state that a writer can leave behind when it dies within a rotation.
#[tokio::test]
async fn a_writer_that_died_within_a_rotation_is_followed_by_one_that_goes_on() {
    for torn in [None, Some(""), Some("{\"payload\":\"torn")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let old = folder.path().join("out.jsonl.20260131T235959.123456Z");
        fs::write(&old, "{\"payload\":\"old\"}\n").unwrap();
        if let Some(torn) = torn {
            fs::write(&path, torn).unwrap();
        }
        let broker = FileBroker::rotating(&path, by_size(None)).unwrap();
        accepted(&broker, "next").await;
        assert_eq!(all_payloads(&path), ["old", "next"], "{torn:?}");
    }
}

/// The writer tells what was acknowledged and is killed, again and again, while a file gives way at every second or third
/// line. What was acknowledged stands in the files, whole and in order; what was not may stand there once more.
#[test]
fn kill_nine_at_any_moment_tears_and_loses_no_line_of_rotated_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let kills = if std::env::var_os("POSTRIDER_FULL").is_some() { KILLS * 10 } else { KILLS };
    let mut acknowledged = BTreeSet::new();
    let mut next = 0_u64;
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "inside_a_writer_that_is_killed", "--ignored", "--nocapture"])
            .env("POSTRIDER_TEST_FILE", &path)
            .env("POSTRIDER_TEST_FIRST", next.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = |line: std::io::Result<String>| line.ok()?.strip_prefix("acknowledged ")?.parse().ok();
        // Another number each time: the kills must meet different moments of a rotation.
        let enough = 6 + round % 11;
        let mut told: Vec<u64> = lines.by_ref().filter_map(numbers).take(enough).collect();
        assert_eq!(told.len(), enough, "the writer ended by itself");
        std::thread::sleep(Duration::from_micros(137 * round as u64 % 1_700));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had told before it died.
        told.extend(lines.filter_map(numbers));
        next = told.last().unwrap() + 1;
        acknowledged.extend(told);
        let files = files(&path);
        let newest = files.last().unwrap();
        assert!(files.len() > 1, "no file gave way in round {round}");
        files.iter().filter(|file| *file != newest).for_each(|file| drop(payloads(file)));
    }
    // The last writer's torn line is cut off by whoever opens the file next.
    FileBroker::rotating(&path, by_size(None)).unwrap();
    let found: Vec<u64> = all_payloads(&path).iter().map(|payload| payload.parse().unwrap()).collect();
    let lost: Vec<&u64> = acknowledged.iter().filter(|number| !found.contains(number)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    // A number is only ever followed by its successor, or by the repeat of one that was not acknowledged.
    assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1 || pair[1] == pair[0]), "out of order: {found:?}");
}

#[tokio::test]
#[ignore = "runs inside kill_nine_at_any_moment_tears_and_loses_no_line_of_rotated_files"]
async fn inside_a_writer_that_is_killed() {
    let path = PathBuf::from(std::env::var_os("POSTRIDER_TEST_FILE").unwrap());
    let first: u64 = std::env::var("POSTRIDER_TEST_FIRST").unwrap().parse().unwrap();
    let broker = FileBroker::rotating(&path, by_size(None)).unwrap();
    for number in first..first + 1_000_000 {
        accepted(&broker, &number.to_string()).await;
        let mut out = std::io::stdout().lock();
        // Nobody listens any more: the test has ended.
        if writeln!(out, "acknowledged {number}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
