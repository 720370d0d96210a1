//! Where values come from: flags beat variables, variables beat the file, the file beats the defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Value;

use super::keys::{self, KEYS, Key, Kind};
use super::unknown::unknown;
use super::values;
use crate::failure::{Failure, Outcome, one_line};

/// The file that is read when nobody names one and it is there.
pub(crate) const DEFAULT_FILE: &str = "postrider.toml";
/// The variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "POSTRIDER_CONFIG";
/// What `--broker` sets; every other broker is forgotten then.
pub(crate) const QUICK_BROKER: &str = "broker.default.url";
/// Variables of the tests and of tools, which are no settings.
const NOT_SETTINGS: [&str; 2] = [FILE_VARIABLE, "POSTRIDER_NATS_SERVER"];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// The file.
    File(PathBuf),
    /// A variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The value as it was written.
    pub(crate) value: Value,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

impl Setting {
    /// A scalar as text.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Boolean(truth) => Some(truth.to_string()),
            Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
        }
    }

    /// A list of texts; a single text is a list of one.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        match &self.value {
            Value::Array(values) => values.iter().map(|value| Some(value.as_str()?.to_owned())).collect(),
            Value::String(text) => Some(vec![text.clone()]),
            _ => None,
        }
    }
}

/// Every value that is set, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    settings: BTreeMap<String, Setting>,
    /// How many entries each list of tables has: one that says nothing has no setting by which it could be seen.
    lists: BTreeMap<String, usize>,
}

impl Layers {
    /// Reads defaults, the file, variables and flags, and refuses what is not known.
    ///
    /// `flags` are pairs of path and value, with the name of the flag.
    pub(crate) fn read(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String, String)>,
    ) -> Outcome<Self> {
        let mut layers = Self::default();
        for key in KEYS.iter().filter(|key| !key.path.contains(['[', '*'])) {
            if let Some(default) = key.default {
                layers.set(key.path, Value::String(default.to_owned()), Origin::Default);
            }
        }
        if let Some(path) = file {
            layers.read_file(path)?;
        }
        for (name, value) in variables {
            layers.read_variable(&name, value)?;
        }
        for (path, value, flag) in flags {
            if path == QUICK_BROKER {
                layers.settings.retain(|path, _| !path.starts_with("broker.") && path != "route[0].broker");
            }
            layers.put(&path, Value::String(value), Origin::Flag(flag))?;
        }
        Ok(layers)
    }

    /// The setting of a path.
    pub(crate) fn get(&self, path: &str) -> Option<&Setting> {
        self.settings.get(path)
    }

    /// Every setting with its path, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(path, setting)| (path.as_str(), setting))
    }

    /// The names below a prefix such as `broker.`: what stands before the next dot, each once.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .settings
            .keys()
            .filter_map(|path| path.strip_prefix(prefix)?.split('.').next().map(str::to_owned))
            .collect();
        names.dedup();
        names
    }

    /// The path of every entry of a list of tables, such as `retry.topic[0]`, in order, also of those that say nothing.
    pub(crate) fn entries(&self, list: &str) -> Vec<String> {
        let count = self.lists.get(list).copied().unwrap_or_default();
        (0..count).map(|place| format!("{list}[{place}]")).collect()
    }

    fn set(&mut self, path: &str, value: Value, origin: Origin) {
        self.settings.insert(path.to_owned(), Setting { value, origin });
    }

    /// Checks and sets one value.
    fn put(&mut self, path: &str, value: Value, origin: Origin) -> Outcome<()> {
        let setting = Setting { value, origin };
        match keys::find(path) {
            Some(key) => check(key, path, &setting)?,
            None if is_broker_option(path) => {}
            None => return Err(unknown(path, &setting.origin)),
        }
        self.settings.insert(path.to_owned(), setting);
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Outcome<()> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(
                format!("cannot read the configuration file {shown}: {error}"),
                "name a file that is there with --config, or write one with `postrider init`",
            )
        })?;
        // The parser's own rendering quotes the line, which may hold a password: only its message is shown.
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            Failure::usage(
                format!("{shown}, line {line}: {}", one_line(error.message())),
                "correct that line; `postrider init` writes a commented example",
            )
        })?;
        let mut found = Vec::new();
        flatten(String::new(), Value::Table(table), &mut found, &mut self.lists);
        let origin = Origin::File(path.to_owned());
        for (key, value) in found {
            self.put(&key, value, origin.clone())?;
        }
        match self.lists.keys().find(|list| !keys::is_list(list)) {
            Some(list) => Err(unknown(&format!("{list}[]"), &origin)),
            None => Ok(()),
        }
    }

    fn read_variable(&mut self, name: &str, value: String) -> Outcome<()> {
        let Some(rest) = name.strip_prefix("POSTRIDER_") else { return Ok(()) };
        if NOT_SETTINGS.contains(&name) || injected(rest) || value.is_empty() {
            return Ok(());
        }
        if name.contains('[') {
            return Err(Failure::usage(
                format!("the variable {} names an entry of a list", one_line(name)),
                "write entries of lists, such as [[route]], into the file",
            ));
        }
        let origin = Origin::Variable(name.to_owned());
        let mut path = rest.to_ascii_lowercase().replace("__", ".");
        if let Some((broker, option)) = path.strip_prefix("broker.").and_then(|rest| rest.split_once('.')) {
            // A variable cannot write '-' or capitals: it means the broker of the file that reads the same.
            let spelled = |name: &str| name.to_ascii_lowercase().replace('-', "_");
            if let Some(known) = self.names("broker.").into_iter().find(|known| spelled(known) == broker) {
                path = format!("broker.{known}.{option}");
            }
        }
        self.put(&path, Value::String(value), origin)
    }
}

/// Whether a variable is one that Kubernetes makes for a service called `postrider`.
fn injected(rest: &str) -> bool {
    rest.ends_with("SERVICE_HOST") || rest.contains("SERVICE_PORT") || rest == "PORT" || rest.starts_with("PORT_")
}

fn is_broker_option(path: &str) -> bool {
    path.strip_prefix("broker.").and_then(|rest| rest.split_once('.')).is_some_and(|(name, option)| {
        !option.is_empty()
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    })
}

/// Tables become paths; lists of tables become numbered paths; other lists stay values.
fn flatten(path: String, value: Value, found: &mut Vec<(String, Value)>, lists: &mut BTreeMap<String, usize>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        // What stands below a broker's option belongs to the broker.
        Value::Table(table) if path.matches('.').count() < 2 || !path.starts_with("broker.") => {
            for (name, value) in table {
                flatten(below(&name), value, found, lists);
            }
        }
        Value::Array(entries) if !entries.is_empty() && entries.iter().all(Value::is_table) => {
            if path.starts_with("broker.") {
                found.push((path, Value::Array(entries)));
                return;
            }
            lists.insert(path.clone(), entries.len());
            for (place, entry) in entries.into_iter().enumerate() {
                flatten(format!("{path}[{place}]"), entry, found, lists);
            }
        }
        value => found.push((path, value)),
    }
}

fn check(key: &Key, path: &str, setting: &Setting) -> Outcome<()> {
    let list = setting.texts().filter(|_| key.kind == Kind::Texts && setting.value.is_array());
    if list.is_some_and(|texts| !texts.is_empty() && texts.iter().all(|text| values::fits(key.kind, text))) {
        return Ok(());
    }
    let text = setting.text();
    let number = matches!(setting.value, Value::Integer(_) | Value::Float(_));
    // A bare number is a number, or bytes; anything else is text.
    let wrong_type = number && !key.kind.bare() && key.kind != Kind::Size || matches!(setting.value, Value::Boolean(_));
    if !wrong_type && text.as_deref().is_some_and(|text| values::fits(key.kind, text)) {
        return Ok(());
    }
    let shown = match (key.kind, text) {
        (Kind::Secret | Kind::Address, _) => String::new(),
        (_, Some(text)) => format!(" {:?}", text.chars().take(60).collect::<String>()),
        (_, None) => format!(" a {}", setting.value.type_str()),
    };
    Err(Failure::usage(
        format!("{path} ({}) may not be{}", setting.origin, if shown.is_empty() { " this" } else { &shown }),
        format!("write {}", key.kind.expected()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> Outcome<Layers> {
        Layers::read(None, [(name.to_owned(), value.to_owned())], [])
    }

    fn file(text: &str) -> Outcome<Layers> {
        let path = std::env::temp_dir().join(format!("postrider-{}.toml", uuid::Uuid::now_v7()));
        std::fs::write(&path, text).unwrap();
        let layers = Layers::read(Some(&path), [], []);
        std::fs::remove_file(&path).unwrap();
        layers
    }

    #[test]
    fn a_single_underscore_in_a_variable_is_caught() {
        let failure = variable("POSTRIDER_RETRY_MAX_ATTEMPTS", "3").unwrap_err();
        assert_eq!(failure.next, "did you mean POSTRIDER_RETRY__MAX_ATTEMPTS?");
    }

    #[test]
    fn a_variable_names_no_entry_of_a_list_however_far_out_it_is() {
        for place in ["0", "1", "18446744073709551615"] {
            let failure = variable(&format!("POSTRIDER_ROUTE[{place}]__TOPICS"), "x").unwrap_err();
            assert!(failure.next.contains("into the file"), "{failure:?}");
        }
    }

    #[test]
    fn variables_made_by_kubernetes_for_a_service_of_this_name_are_no_settings() {
        for name in
            ["POSTRIDER_SERVICE_HOST", "POSTRIDER_PORT_9640_TCP_ADDR", "POSTRIDER_PORT", "POSTRIDER_SERVICE_PORT_HTTP"]
        {
            assert!(variable(name, "10.0.0.1").is_ok(), "{name}");
        }
    }

    #[test]
    fn nested_keys_and_lists_are_checked_too() {
        let failure = file("[[retry.topic]]\npattern = \"#\"\nmax_attempt = 3\n").unwrap_err();
        assert_eq!(failure.next, "did you mean retry.topic[].max_attempts?");
        let failure = file("[[route]]\ntopic = \"#\"\n").unwrap_err();
        assert_eq!(failure.next, "did you mean route[].topics?");
    }

    #[test]
    fn a_value_of_the_wrong_kind_says_what_to_write() {
        let failure = file("[relay]\nlease = 10\n").unwrap_err();
        assert!(failure.what.contains("relay.lease") && failure.next.contains("\"10s\""), "{failure:?}");
        assert!(file("[relay]\nwindow_rows = 0\n").is_err());
        assert!(file("[relay]\nwindow_bytes = 1048576\n").is_ok());
    }

    #[test]
    fn a_broken_file_is_named_with_its_line_and_without_its_content() {
        let failure = file("[outbox]\nstore = \"postgres://u:s3cret@db\n").unwrap_err();
        assert!(failure.what.contains("line 2") && !failure.what.contains("s3cret"), "{failure:?}");
    }

    #[test]
    fn a_list_of_texts_may_be_one_text() {
        let route = |values: &str| file(&format!("[[route]]\ntopics = {values}\n"));
        let texts = |values: &str| route(values).unwrap().get("route[0].topics").unwrap().texts().unwrap();
        assert_eq!(texts("\"a.#\""), ["a.#"]);
        assert_eq!(texts("[\"a.#\", \"b\"]"), ["a.#", "b"]);
        for wrong in ["[]", "[1]", "[\"\"]", "3", "[[\"a\"]]"] {
            assert!(route(wrong).unwrap_err().next.contains("a list of texts"), "{wrong}");
        }
    }

    #[test]
    fn an_entry_that_says_nothing_is_an_entry() {
        let layers = file("[[route]]\n[[route]]\nname = \"copies\"\n[[retry.topic]]\n").unwrap();
        assert_eq!(layers.entries("route"), ["route[0]", "route[1]"]);
        assert_eq!(layers.entries("retry.topic"), ["retry.topic[0]"]);
        assert!(file("").unwrap().entries("route").is_empty());
    }

    #[test]
    fn a_list_that_is_no_setting_is_refused_though_its_entries_say_nothing() {
        let failure = file("[[retry.topics]]\n").unwrap_err();
        assert!(failure.what.contains("retry.topics[] is no setting"), "{failure:?}");
        assert!(file("[[relay]]\n").unwrap_err().what.contains("relay[] is no setting"));
    }

    #[test]
    fn what_messages_may_decide_is_read_by_the_name_of_its_header() {
        let layers = file("[[route]]\nallow.key = \"a\"\nallow.header.\"x.region\" = [\"eu\"]\n").unwrap();
        assert_eq!(layers.get("route[0].allow.header.x.region").unwrap().texts().unwrap(), ["eu"]);
        let failure = file("[[route]]\nallow.keys = \"a\"\n").unwrap_err();
        assert_eq!(failure.next, "did you mean route[].allow.key?");
    }

    #[test]
    fn a_broker_keeps_its_own_options_as_they_are() {
        let layers = file("[broker.events]\nurl = \"http://x\"\nheaders = { a = \"b\" }\nallow = [1, 2]\n").unwrap();
        assert!(layers.get("broker.events.headers").unwrap().value.is_table());
        assert!(layers.get("broker.events.allow").unwrap().value.is_array());
    }
}
