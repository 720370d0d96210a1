//! Every setting there is: one table, from which flags, variables, the file of `init`, the checks and
//! `config show` are made.

/// What a setting's value looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A value that is never printed, and has no flag because flags are seen by everybody on the machine.
    Secret,
    /// An address, printed without its password.
    Address,
    /// A whole number within bounds.
    Count {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A number of at least one, with a decimal point or without.
    Factor,
    /// A length of time, such as `10s`.
    Duration,
    /// A length of time, or `never`.
    DurationOrNever,
    /// A size, such as `1MiB`.
    Size,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A text, or several.
    Texts,
}

impl Kind {
    /// What to write, in words.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text | Self::Secret => "a text".to_owned(),
            Self::Address => "an address".to_owned(),
            Self::Count { least, most } if most == u64::MAX => format!("a whole number of at least {least}"),
            Self::Count { least, most } => format!("a whole number from {least} to {most}"),
            Self::Factor => "a number of at least 1, such as 2 or 1.5".to_owned(),
            Self::Duration => "a length of time such as \"250ms\", \"10s\", \"5m\", \"2h\" or \"7d\"".to_owned(),
            Self::DurationOrNever => "a length of time such as \"10s\" or \"7d\", or \"never\"".to_owned(),
            Self::Size => "a size such as \"512KiB\", \"1MiB\" or a number of bytes".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Texts => "a text, or a list of texts".to_owned(),
        }
    }

    /// Whether a TOML file holds it without quotes.
    pub(crate) const fn bare(self) -> bool {
        matches!(self, Self::Count { .. } | Self::Factor)
    }
}

/// Which flag sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// The flag of every verb with this name.
    Global(&'static str),
    /// A flag of `relay` and `config show`, made from the path: `retry.max_attempts` is `--retry-max-attempts`.
    Made,
    /// None: a secret, or one of many.
    None,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Where it stands: `*` for a name, `[]` for an entry of a list.
    pub(crate) path: &'static str,
    /// What its value looks like.
    pub(crate) kind: Kind,
    /// What it is when nobody sets it; none when it is then absent.
    pub(crate) default: Option<&'static str>,
    /// Its flag.
    pub(crate) flag: Flag,
    /// An example, where there is no default.
    pub(crate) example: &'static str,
    /// What it does, in one sentence.
    pub(crate) about: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Key {
    Key { path, kind, default, flag: Flag::Made, example: "", about }
}

const fn bare(path: &'static str, kind: Kind, example: &'static str, about: &'static str) -> Key {
    Key { path, kind, default: None, flag: Flag::Made, example, about }
}

const fn listed(path: &'static str, kind: Kind, default: Option<&'static str>, about: &'static str) -> Key {
    Key { path, kind, default, flag: Flag::None, example: "", about }
}

const fn secret(path: &'static str, about: &'static str) -> Key {
    Key { path, kind: Kind::Secret, default: None, flag: Flag::None, example: "", about }
}

const fn global(flag: &'static str, key: Key) -> Key {
    Key { flag: Flag::Global(flag), ..key }
}

/// The log levels.
pub(crate) const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];
/// The log formats.
pub(crate) const FORMATS: &[&str] = &["text", "json"];

/// Which messages wait for each other.
const ORDERINGS: &[&str] = &["key", "none"];

/// What may stand between the relay and PostgreSQL.
const POOLING: &[&str] = &["direct", "transaction"];

/// What may become of a message whose time has passed.
const ON_EXPIRE: &[&str] = &["dead", "drop"];
/// What may become of a message that is given up.
const ON_DEAD: &[&str] = &["skip", "hold", "forward"];

const ANY: Kind = Kind::Count { least: 0, most: u32::MAX as u64 };

/// Every setting, in the order of the file.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    global("store", bare("outbox.store", Kind::Address, "sqlite:app.db", "Where messages wait: postgres://user@host/database, sqlite:FILE, or what else postrider --version --verbose lists.")),
    secret("outbox.store_password", "The database's password, where it is not part of the address."),
    bare("outbox.store_password_file", Kind::Text, "/run/secrets/database", "A file that holds the database's password."),
    bare("outbox.schema", Kind::Text, "public", "The schema of the tables (PostgreSQL); public by default."),
    key("outbox.prefix", Kind::Text, Some("postrider_"), "What the names of the tables begin with, such as billing_."),
    bare("outbox.lanes", Kind::Count { least: 1, most: 4096 }, "64", "Shares of the keys, fixed when the tables are made (64 by default, SQLite 8); 1 means one order of all messages, and one relay at a time. Another number than that of the tables is refused."),
    bare("outbox.pooling", Kind::Choice(POOLING), "transaction", "What stands between here and PostgreSQL: direct, or transaction for a pooler in transaction mode such as PgBouncer."),
    key("outbox.history", Kind::DurationOrNever, Some("never"), "How long delivered messages are kept to look at; never keeps none."),
    bare("relay.name", Kind::Text, "relay-1", "The relay's label in status and logs; by default host name and process number."),
    key("relay.ordering", Kind::Choice(ORDERINGS), Some("key"), "Which messages wait for each other: those of a key, or none; with outbox.lanes = 1 and key, all. The same for every relay of an outbox."),
    key("relay.window_rows", Kind::Count { least: 1, most: 1_000_000 }, Some("8192"), "The most messages in memory at once."),
    key("relay.window_bytes", Kind::Size, Some("32MiB"), "The most bytes of payload in memory at once; a larger message travels alone."),
    key("relay.poll_interval", Kind::Duration, Some("100ms"), "The longest pause between two looks at a quiet outbox."),
    bare("relay.lease", Kind::Duration, "10s", "How long a dead relay keeps its lanes; by default what suits the database (10s; SQLite 3s)."),
    key("relay.stop_deadline", Kind::Duration, Some("20s"), "How long a graceful stop may take."),
    key("relay.max_pause", Kind::Duration, Some("30s"), "The longest pause between two probes of a destination that is away."),
    key("relay.patience", Kind::Duration, Some("30s"), "How long --until-empty waits for a destination that is away."),
    key("retry.initial", Kind::Duration, Some("1s"), "The first interval between two attempts."),
    key("retry.maximum", Kind::Duration, Some("5m"), "The longest interval."),
    key("retry.multiplier", Kind::Factor, Some("2"), "What the interval grows by."),
    key("retry.max_attempts", ANY, Some("10"), "Attempts charged to a message before it is a dead letter; 0 means unlimited."),
    key("retry.max_age", Kind::DurationOrNever, Some("never"), "How long after it was written a message is over, by the database's clock: it is never sent after that."),
    key("retry.on_expire", Kind::Choice(ON_EXPIRE), Some("dead"), "What becomes of a message that is over, by its age or by its own expires_at: dead keeps it as a dead letter, drop removes it and counts it."),
    key("retry.on_dead", Kind::Choice(ON_DEAD), Some("skip"), "What becomes of the key of a message that is given up: skip (it goes on), hold (it waits until an operator replays or discards), or forward (it goes on, and the message is also published to the destination of dead letters)."),
    listed("retry.topic[].pattern", Kind::Text, None, "The topics this entry is for: words joined by dots, * for one word, # at the end for any number."),
    listed("retry.topic[].initial", Kind::Duration, None, "As retry.initial, for these topics."),
    listed("retry.topic[].maximum", Kind::Duration, None, "As retry.maximum, for these topics."),
    listed("retry.topic[].multiplier", Kind::Factor, None, "As retry.multiplier, for these topics."),
    listed("retry.topic[].max_attempts", ANY, None, "As retry.max_attempts, for these topics."),
    listed("retry.topic[].max_age", Kind::DurationOrNever, None, "As retry.max_age, for these topics."),
    listed("retry.topic[].on_expire", Kind::Choice(ON_EXPIRE), None, "As retry.on_expire, for these topics."),
    listed("retry.topic[].on_dead", Kind::Choice(ON_DEAD), None, "As retry.on_dead, for these topics."),
    listed("broker.*.url", Kind::Address, None, "Where messages go: stdout:, file:PATH, http(s)://..., nats://..., or what else postrider --version --verbose lists; further keys are the broker's own options."),
    listed("route[].topics", Kind::Texts, Some("#"), "The topics this route is for. Every route that matches applies."),
    listed("route[].broker", Kind::Text, None, "The name of the broker; needless when there is only one."),
    listed("route[].destination", Kind::Text, Some("{topic}"), "The place in the broker; {topic} stands for the message's topic, {key} and {header.NAME} for what the next keys allow."),
    listed("route[].name", Kind::Text, None, "The destination's name in metrics, in status and in the table, where it must stay what it is; by default the broker's."),
    listed("route[].allow.key", Kind::Texts, None, "The values that a message's key may put in the place of {key}; * stands for letters, digits, - and _."),
    listed("route[].allow.header.*", Kind::Texts, None, "The same for the header of this name and {header.NAME}."),
    bare("forward.broker", Kind::Text, "out", "The name of the broker that gets forwarded dead letters; needless when there is only one."),
    key("forward.destination", Kind::Text, Some("dead.{topic}"), "The place in it; {topic} stands for the message's topic."),
    bare("notify.url", Kind::Address, "https://hooks.example.com/dead", "Where messages that are given up are told, by HTTP POST, in batches."),
    secret("notify.secret", "Signs these requests as Standard Webhooks: whsec_..."),
    bare("notify.secret_file", Kind::Text, "/run/secrets/notify", "A file that holds that secret."),
    key("notify.egress", Kind::Text, Some("public"), "Which addresses may be connected to, as the option egress of the http broker: public, any, or networks parted by commas."),
    bare("retention.delivered", Kind::DurationOrNever, "7d", "How long delivered messages are kept; by default outbox.history."),
    key("retention.dead", Kind::DurationOrNever, Some("never"), "How long dead letters are kept."),
    bare("retention.archive", Kind::Address, "file:archive.jsonl", "Where what is removed is kept before, as lines of JSON: file:PATH, with the options of the file broker in its query. By default it is kept nowhere."),
    bare("inbox.keep", Kind::Duration, "14d", "How long the inbox remembers what was handled, at least 1s; on PostgreSQL it counts from when the id was made. One of the relays forgets what is older. By default none does, and the application calls Inbox::forget. Longer than the longest deliver_at, outage and age of a replayed dead letter."),
    key("admin.listen", Kind::Text, Some("127.0.0.1:9640"), "Where /metrics, /livez, /readyz and /status are served; off turns it off; beyond this machine it needs a token."),
    secret("admin.token", "The token that callers of the admin address present as `Authorization: Bearer`."),
    bare("admin.token_file", Kind::Text, "/run/secrets/postrider-admin", "A file that holds that token."),
    global("log-level", key("log.level", Kind::Choice(LEVELS), Some("info"), "How much is logged, to standard error.")),
    global("log-format", key("log.format", Kind::Choice(FORMATS), Some("text"), "How it is written.")),
];

/// The setting of a path such as `retry.topic[3].pattern`, if there is one.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    let shape = shape(path);
    KEYS.iter().find(|key| key.path == shape)
}

/// Whether a path such as `retry.topic` is that of a list whose entries have settings.
pub(crate) fn is_list(path: &str) -> bool {
    let entry = format!("{}[].", shape(path));
    KEYS.iter().any(|key| key.path.starts_with(&entry))
}

/// The path with names and places replaced, as it stands in the table.
pub(crate) fn shape(path: &str) -> String {
    if let Some(("broker", rest)) = path.split_once('.') {
        return match rest.split_once('.') {
            Some((_, option)) => format!("broker.*.{option}"),
            None => path.to_owned(),
        };
    }
    if let Some((list, _)) = path.split_once("].allow.header.").filter(|(list, _)| list.starts_with("route[")) {
        return format!("{}].allow.header.*", list.trim_end_matches(|c: char| c.is_ascii_digit()));
    }
    let mut shape = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => {
                inside = true;
                shape.push('[');
            }
            ']' => {
                inside = false;
                shape.push(']');
            }
            _ if inside => {}
            c => shape.push(c),
        }
    }
    shape
}

/// The flag made from a path.
pub(crate) fn flag_name(path: &str) -> String {
    path.replace(['.', '_'], "-")
}

/// The variable made from a path.
pub(crate) fn variable_name(path: &str) -> String {
    format!("POSTRIDER_{}", path.replace('.', "__").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in KEYS {
            if let Some(default) = key.default {
                assert!(values::fits(key.kind, default), "{} = {default}", key.path);
            }
        }
    }

    #[test]
    fn no_secret_has_a_flag() {
        assert!(KEYS.iter().filter(|key| key.kind == Kind::Secret).all(|key| key.flag == Flag::None));
    }

    #[test]
    fn names_and_places_lead_to_the_table() {
        assert_eq!(find("retry.topic[12].pattern").map(|key| key.path), Some("retry.topic[].pattern"));
        assert_eq!(find("broker.events.url").map(|key| key.path), Some("broker.*.url"));
        assert_eq!(find("route[3].allow.header.x-tenant").map(|key| key.path), Some("route[].allow.header.*"));
        assert_eq!(find("route[3].allow.key").map(|key| key.path), Some("route[].allow.key"));
        assert!(find("retry.max_attempt").is_none());
    }
}
