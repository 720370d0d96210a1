//! The creds of a NATS broker: which of its options holds their text, and which the path of their file.

use std::path::Path;

use postrider_brokers::BrokerConfig;

use super::BrokerSection;
use super::reader::Reader;
use crate::failure::Outcome;
use crate::redact;

/// The option that holds the text of a creds file.
pub(super) const TEXT: &str = "creds";
/// The option that holds its path.
const FILE: &str = "creds_file";
/// A JWT and a seed are longer; shorter words of a creds file are those of its prose.
const SHORTEST_SECRET: usize = 40;

/// Refuses a path where the text belongs, and the text where a path does, without repeating it: the broker would say so only
/// when it is opened, and would show what it takes for a path.
pub(super) fn told_apart(read: &Reader<'_>, broker: &BrokerSection) -> Outcome<()> {
    let backend = postrider_brokers::backend(&BrokerConfig::new(broker.url.reveal()));
    if !backend.is_ok_and(|backend| backend.feature == "nats") {
        return Ok(());
    }
    if let Some((path, text)) = option(broker, TEXT).filter(|(_, text)| !is_text_of_a_file(text)) {
        let what = match Path::new(&text).is_file() {
            true => "is the path of a file, where the text of a creds file is expected",
            false => "is neither the text of a creds file, with its lines of dashes, nor the path of a file",
        };
        return Err(read.refuse(&path, what, format!("write {FILE} = \"PATH\" in its place, where PATH is the file")));
    }
    if let Some((path, _)) = option(broker, FILE).filter(|(_, text)| is_text_of_a_file(text)) {
        let what = "is the text of a creds file, where the path of one is expected";
        return Err(read.refuse(&path, what, format!("put the text into a file and name that, or call it {TEXT}")));
    }
    Ok(())
}

/// Whether a word of a creds file is its JWT or its seed. The others are prose, whose words stand in messages too, and lines
/// of dashes and stars.
pub(super) fn is_secret(word: &str) -> bool {
    word.len() >= SHORTEST_SECRET && !word.starts_with(['-', '*'])
}

/// The text of an option, of the table or else of the query, and where it stands.
fn option(broker: &BrokerSection, name: &str) -> Option<(String, String)> {
    if let Some(value) = broker.options.get(name) {
        return Some((format!("broker.{}.{name}", broker.name), value.as_str()?.to_owned()));
    }
    let (_, query) = broker.url.reveal().split_once('?')?;
    let mut parameters = query.split(['&', '#']).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(known, _)| *known == name)?;
    Some((format!("broker.{}.url?{name}", broker.name), redact::percent_decoded(value)))
}

/// Both parts of a creds file stand between lines of dashes, and no path begins with them.
fn is_text_of_a_file(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("---"))
}
