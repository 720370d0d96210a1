//! `config show`: what is in force and where it comes from, without secrets.

use serde::Serialize;
use toml::Value;

use super::Config;
use super::keys::{KEYS, Kind, find};
use super::layers::{Origin, Setting};
use crate::redact;

/// One line of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Shown {
    /// The setting.
    pub(crate) key: String,
    /// Its value, redacted; none when it is not set.
    pub(crate) value: Option<String>,
    /// Where it comes from.
    pub(crate) origin: String,
}

/// Every setting, in the order of the file.
pub(crate) fn effective(config: &Config) -> Vec<Shown> {
    let mut lines = Vec::new();
    for key in KEYS {
        if key.path.contains(['[', '*']) {
            let prefix: &str = key.path.split(['[', '*']).next().unwrap_or_default();
            let first_of_section =
                KEYS.iter().find(|other| other.path.starts_with(prefix) && other.path.contains(['[', '*']));
            if first_of_section.is_some_and(|first| first.path == key.path) {
                let listed = |path: &str| path.starts_with(prefix) && (prefix == "broker." || path.contains('['));
                lines.extend(
                    config.layers.iter().filter(|(path, _)| listed(path)).map(|(path, setting)| shown(path, setting)),
                );
            }
            continue;
        }
        lines.push(match config.layers.get(key.path) {
            Some(setting) => shown(key.path, setting),
            None => unset(config, key.path),
        });
    }
    lines
}

fn shown(path: &str, setting: &Setting) -> Shown {
    let text = || setting.text().unwrap_or_else(|| setting.value.to_string());
    let value = match find(path).map(|key| key.kind) {
        Some(Kind::Secret) => redact::MASK.to_owned(),
        Some(Kind::Address) => redact::address(&text()),
        Some(_) => text(),
        None => match option(path.rsplit('.').next().unwrap_or_default(), &setting.value) {
            Value::String(text) => text,
            shown => shown.to_string(),
        },
    };
    Shown { key: path.to_owned(), value: Some(redact::scrub(&value)), origin: setting.origin.to_string() }
}

/// A broker's option without what is secret in it, however deep that stands.
fn option(name: &str, value: &Value) -> Value {
    if redact::secret_option(name) {
        return Value::String(redact::MASK.to_owned());
    }
    match value {
        Value::String(text) => Value::String(redact::address(text)),
        Value::Array(values) => Value::Array(values.iter().map(|value| option(name, value)).collect()),
        Value::Table(table) => {
            Value::Table(table.iter().map(|(name, value)| (name.clone(), option(name, value))).collect())
        }
        value => value.clone(),
    }
}

/// What is in force for a setting that nobody set and whose default depends on others.
fn unset(config: &Config, path: &str) -> Shown {
    let value = match path {
        "relay.name" => Some(config.relay.name.clone()),
        "retention.delivered" => Some(config.retention.delivered.map_or("never".to_owned(), super::values::spoken)),
        _ => None,
    };
    Shown { key: path.to_owned(), value, origin: Origin::Default.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_broker_are_masked_in_lists_and_tables_too() {
        let options: toml::Table = toml::from_str(
            "secret = [\"canary-1\", \"canary-2\"]\nallow = [1, 2]\ntimeout = \"1s\"\nmirror = \"nats://u:canary@b\"\n\
             [producer]\nssl.key.password = \"canary-3\"\nlinger = 5\n",
        )
        .unwrap();
        let shown: Vec<String> =
            options.iter().map(|(name, value)| format!("{name}={}", option(name, value))).collect();
        let shown = shown.join(" ");
        assert!(!shown.contains("canary"), "{shown}");
        for whole in ["allow=[1, 2]", "timeout=\"1s\"", "nats://u:***@b", "linger = 5"] {
            assert!(shown.contains(whole), "{whole}: {shown}");
        }
    }
}
