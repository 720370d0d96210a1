//! The archive of what retention removes, which has a file of its own.

use std::path::{Component, PathBuf, absolute};

use super::BrokerSection;
use super::reader::Reader;
use crate::failure::Outcome;
use crate::redact;

/// Where the archive is, if there is one.
///
/// The relay holds the lock of a broker's file as long as it runs: an archive in the same file would never be written, and
/// nothing would ever be removed.
pub(super) fn archive(read: &Reader<'_>, brokers: &[BrokerSection]) -> Outcome<Option<String>> {
    let path = "retention.archive";
    let Some(url) = read.maybe(path) else { return Ok(None) };
    let Some(file) = file_of(&url) else { return Ok(Some(url)) };
    match brokers.iter().find(|broker| file_of(broker.url.reveal()).as_ref() == Some(&file)) {
        None => Ok(Some(url)),
        Some(broker) => Err(read.refuse(
            path,
            &format!("{} is also the file of broker.{}", file.display(), broker.name),
            "give one of them a file of its own, such as archive = \"file:archive.jsonl\": that broker keeps the file \
             locked, and nothing could be archived",
        )),
    }
}

/// The file of an address, without the links on the way to it as far as it is there: two names of one file are the same.
fn file_of(url: &str) -> Option<PathBuf> {
    let (scheme, rest) = url.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = rest.split(['?', '#']).next()?;
    let path = match path.strip_prefix("//") {
        Some(host_and_path) => &host_and_path[host_and_path.find('/')?..],
        None => path,
    };
    let mut file = PathBuf::new();
    // In an address ".." takes back the word before it, also where that is a link.
    for part in absolute(redact::percent_decoded(path)).ok()?.components() {
        if part == Component::ParentDir {
            file.pop();
        } else {
            file.push(part);
        }
    }
    let in_its_folder = || Some(file.parent()?.canonicalize().ok()?.join(file.file_name()?));
    let real = file.canonicalize().ok().or_else(in_its_folder);
    Some(real.unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_the_same_by_all_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("file://{}/{name}", folder.path().display());
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        for is_there in [false, true] {
            if is_there {
                std::fs::write(folder.path().join("out.jsonl"), "").unwrap();
            }
            let file = file_of(&at("out.jsonl"));
            assert!(file.as_ref().is_some_and(|file| file.ends_with("out.jsonl")), "{file:?}");
            for name in ["out.jsonl?keep=3", "./out.jsonl", "inner/../out.jsonl", "link/out.jsonl", "o%75t.jsonl#x"] {
                assert_eq!(file_of(&at(name)), file, "{name}");
            }
            assert_eq!(file_of(&at("out.jsonl").replace("file://", "FILE://localhost")), file);
            assert_eq!(file_of(&at("out.jsonl").replace("file://", "file:")), file);
            for name in ["inner/out.jsonl", "out.json", "nowhere/out.jsonl"] {
                assert_ne!(file_of(&at(name)), file, "{name}");
            }
        }
        std::os::unix::fs::symlink("out.jsonl", folder.path().join("other.jsonl")).unwrap();
        assert_eq!(file_of(&at("other.jsonl")), file_of(&at("out.jsonl")));
    }

    #[test]
    fn a_file_without_a_folder_stands_in_the_working_folder() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(file_of("file:out.jsonl"), Some(here.join("out.jsonl")));
        for url in ["stdout:", "nats://host/out.jsonl", "file:", "file://host", "out.jsonl"] {
            assert_eq!(file_of(url), None, "{url}");
        }
    }
}
