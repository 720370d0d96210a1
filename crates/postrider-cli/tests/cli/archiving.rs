//! What retention removes is archived before.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Place, lines, until};

/// A folder with a history of so many messages; their ids.
fn delivered(count: usize) -> (Place, BTreeSet<String>) {
    let place = Place::migrated();
    let text: String =
        (0..count).map(|n| format!("{{\"topic\":\"a.b\",\"key\":\"k{n}\",\"payload\":\"{n}\"}}\n")).collect();
    let run = place.run_fed(text.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]);
    run.good();
    place.drain("file:out.jsonl", &["--outbox-history", "7d"]).good();
    let ids = lines(&place.path("out.jsonl")).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    (place, ids)
}

/// The files of the archive, the oldest first.
fn files(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().path());
    let is_archive = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("archive.jsonl");
    let mut files: Vec<PathBuf> = entries.filter(is_archive).collect();
    // The one that is written has the shortest name.
    files.sort_by_key(|path| (path.as_os_str().len() == place.path("archive.jsonl").as_os_str().len(), path.clone()));
    files
}

fn archived(place: &Place) -> Vec<serde_json::Value> {
    files(place).iter().flat_map(|file| lines(file)).collect()
}

#[test]
fn prune_archives_what_it_removes_and_says_where_it_cannot() {
    let (place, ids) = delivered(3);
    let archive = ["--delivered", "1ms", "--archive", "file:archive.jsonl"];
    place.on(&[&["prune", "--dry-run"], &archive[..]].concat()).good();
    assert!(!place.path("archive.jsonl").exists(), "a dry run writes nothing");
    let run = place.on(&["prune", "--delivered", "1ms", "--archive", "nats://host"]);
    run.ends(2).says(&["retention.archive", "expected a file", "file:archive.jsonl?rotate_size=64MiB"]);
    let run = place.on(&["prune", "--delivered", "1ms", "--archive", "file:no/such/folder/archive.jsonl"]);
    run.ends(2).says(&["nothing was removed", "look at the place of the archive"]);
    let run = place.on(&[&["prune", "--json"], &archive[..]].concat());
    assert_eq!(run.good().json()["delivered"], 3);
    let rows = archived(&place);
    let found: BTreeSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ids);
    for row in &rows {
        assert_eq!((&row["archived"], &row["topic"]), (&"delivered".into(), &"a.b".into()), "{row}");
        assert!(row["settled_at"].as_str().unwrap().ends_with('Z') && row["payload"].is_string(), "{row}");
    }
    assert_eq!(place.on(&[&["prune", "--json"], &archive[..]].concat()).good().json()["delivered"], 0);
}

#[test]
fn a_dead_letter_is_archived_with_why_it_was_given_up() {
    let place = Place::migrated();
    let expired = ["enqueue", "a.b", "--key", "k", "--payload", "too late", "--expires-in", "1ms"];
    place.on(&expired).good();
    place.drain("file:out.jsonl", &[]).good();
    let run = place.on(&["prune", "--dead", "1ms", "--archive", "file:archive.jsonl", "--json"]);
    assert_eq!(run.good().json()["dead"], 1);
    let rows = archived(&place);
    let row = &rows[0];
    assert_eq!(
        (&row["archived"], &row["reason"], &row["key"]),
        (&"dead".into(), &"expired".into(), &"k".into()),
        "{row}"
    );
    assert_eq!((&row["payload"], rows.len()), (&"too late".into(), 1), "{row}");
    assert!(row["dead_at"].is_string(), "{row}");
}

#[test]
fn a_relay_archives_what_is_past_its_retention_and_removes_it_then() {
    let (place, ids) = delivered(60);
    let archive = "file:archive.jsonl";
    let settings = ["--outbox-history", "7d", "--retention-delivered", "1ms", "--retention-archive", archive];
    let _relay = place.relay("file:out.jsonl", &settings);
    until("an empty history", || {
        let counted = place.on(&["prune", "--delivered", "1ms", "--dry-run", "--json"]);
        (counted.good().json()["delivered"] == 0).then_some(())
    });
    let found: BTreeSet<String> = archived(&place).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ids);
}

/// What `check` finds about the archive at this address, and its exit code.
fn checked(place: &Place, archive: &str) -> (i32, serde_json::Value) {
    let sections = "[broker.out]\nurl = \"file:out.jsonl\"\n[retention]\n";
    place.write("postrider.toml", format!("{sections}archive = \"{archive}\"\n"));
    let run = place.on(&["check", "--json"]);
    let findings = run.json()["findings"].as_array().unwrap().clone();
    let about: Vec<_> = findings.into_iter().filter(|finding| finding["subject"] == "archive").collect();
    assert_eq!(about.len(), 1, "{}", run.out);
    (run.code, about[0].clone())
}

#[test]
fn check_opens_the_archive_and_says_what_to_do_where_rows_could_not_be_kept() {
    let place = Place::migrated();
    let (code, found) = checked(&place, "file:archive.jsonl");
    assert_eq!((code, &found["level"]), (0, &"good".into()), "{found}");
    assert_eq!(place.read("archive.jsonl"), "");
    for (archive, what, advice) in [
        ("file:no/such/folder/archive.jsonl", "opening the file", "name a file in a folder that is there"),
        ("nats://host", "expected a file", "write file:PATH"),
        ("file:archive.jsonl?keep=0", "keep", "write file:PATH"),
    ] {
        let (code, found) = checked(&place, archive);
        assert_eq!((code, &found["level"]), (1, &"failure".into()), "{found}");
        assert!(found["found"].as_str().unwrap().contains(what), "{found}");
        assert!(found["advice"].as_str().unwrap().contains(advice), "{found}");
    }
    // A rotation is due, and with it the end of the oldest file: that is for who writes.
    let (text, old) = (format!("{}\n", "x".repeat(2_000)), "archive.jsonl.20260131T235959.123456Z");
    place.write("archive.jsonl", &text);
    place.write(old, &text);
    let (code, found) = checked(&place, "file:archive.jsonl?rotate_size=1KiB&keep=1");
    assert_eq!((code, &found["level"]), (0, &"good".into()), "{found}");
    assert_eq!(files(&place), [place.path(old), place.path("archive.jsonl")]);
    assert_eq!((place.read("archive.jsonl"), place.read(old)), (text.clone(), text));
}

#[test]
fn a_file_that_somebody_else_has_locked_is_named_with_what_to_do() {
    let place = Place::migrated();
    let held = std::fs::File::create(place.path("held.jsonl")).unwrap();
    held.lock().unwrap();
    let (code, found) = checked(&place, "file:held.jsonl");
    assert_eq!((code, &found["level"]), (1, &"failure".into()), "{found}");
    assert!(found["found"].as_str().unwrap().contains("held.jsonl"), "{found}");
    assert!(found["advice"].as_str().unwrap().contains("run this again; if it stays"), "{found}");
    place.write("postrider.toml", "");
    let run = place.drain("file:held.jsonl", &[]);
    run.ends(2).says(&["held.jsonl", "next: see who has it open (`lsof FILE`)"]);
}

#[test]
fn an_archive_in_the_file_of_a_broker_is_refused_and_both_are_named() {
    let place = Place::migrated();
    std::os::unix::fs::symlink(place.path("."), place.path("link")).unwrap();
    let whole = format!("file://{}?rotate_age=1h", place.path("out.jsonl").display());
    let run = |archive: &str, verb: &[&str]| {
        let sections = "[broker.events]\nurl = \"file:out.jsonl?rotate_size=1MiB\"\n[retention]\n";
        place.write("postrider.toml", format!("{sections}archive = \"{archive}\"\n"));
        place.on(verb)
    };
    for is_there in [false, true] {
        if is_there {
            place.write("out.jsonl", "");
        }
        for archive in ["file:out.jsonl", "FILE:./link/out.jsonl", "file:link/../out.jsonl", &whole] {
            for verb in [&["status"][..], &["check"], &["relay", "--until-empty"]] {
                let words = ["retention.archive", "is also the file of broker.events", "next: give one of them a file"];
                run(archive, verb).ends(2).says(&words);
            }
        }
    }
    let prune = ["prune", "--dead", "1d", "--archive"];
    run("file:archive.jsonl", &[&prune[..], &["file:out.jsonl"]].concat()).ends(2).says(&["(flag --archive)"]);
    run("file:archive.jsonl", &[&prune[..], &["file:other.jsonl"]].concat()).good();
}

/// It is killed at any moment, again and again: every row that is gone stands in the archive, in whole lines.
#[test]
fn kill_nine_of_a_prune_loses_no_row_between_the_database_and_the_archive() {
    let (place, ids) = delivered(6_000);
    let arguments = ["prune", "--delivered", "1ms", "--archive", "file:archive.jsonl?rotate_size=256KiB", "--store"];
    let arguments = [&arguments[..], &["sqlite:app.db"]].concat();
    for round in 0..25 {
        let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + round * 3));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    place.run(&arguments).good();
    let counted = place.on(&["prune", "--delivered", "1ms", "--dry-run", "--json"]);
    assert_eq!(counted.good().json()["delivered"], 0);
    let found: BTreeSet<String> = archived(&place).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ids);
    assert!(files(&place).len() > 1, "the archive never gave way to a new file");
}
