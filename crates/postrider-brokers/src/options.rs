//! How a backend reads its options: by asking for each, then refusing what nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result, Secret};
use serde_json::{Map, Value};

use crate::config::BrokerConfig;

/// The options of one broker. Every name that is asked for is a known one; [`Options::finish`] refuses the others.
pub(crate) struct Options<'a> {
    broker: String,
    map: &'a Map<String, Value>,
    query: Map<String, Value>,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Options<'a> {
    /// The options of a configuration.
    pub(crate) fn new(config: &'a BrokerConfig) -> Self {
        Self { broker: config.shown(), map: &config.options, query: Map::new(), asked: RefCell::default() }
    }

    /// The same, with the query of the URL as further options; the table's own win.
    pub(crate) fn with_query(config: &'a BrokerConfig) -> Self {
        let mut options = Self::new(config);
        let text = config.url.split_once('?').map_or("", |(_, query)| query);
        let text = text.split('#').next().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            options.query.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        options
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.map.get(name).or_else(|| self.query.get(name))
    }

    /// An error about one option.
    pub(crate) fn wrong(&self, name: &str, expected: &str) -> Error {
        Error::new(ErrorKind::Config, format!("option {name:?} of the broker {}: expected {expected}", self.broker))
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(name, "a text")),
        }
    }

    /// A list of texts; a single text is a list of one.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        let wrong = || self.wrong(name, "a text or a list of texts");
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(vec![text.clone()])),
            Some(Value::Array(values)) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong));
                texts.collect::<Result<_>>().map(Some)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// A number within a range.
    pub(crate) fn number(&self, name: &str, default: usize, range: RangeInclusive<usize>) -> Result<usize> {
        let number = match self.get(name) {
            None => return Ok(default),
            Some(Value::Number(number)) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.wrong(name, &format!("a number from {} to {}", range.start(), range.end())))
    }

    /// A number within a range; none where it is not set.
    #[cfg(feature = "file")]
    pub(crate) fn optional_number(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        match self.get(name) {
            None => Ok(None),
            Some(_) => self.number(name, *range.start(), range).map(Some),
        }
    }

    /// A size such as `512KiB` or `1MiB`, or a number of bytes, within a range; none where it is not set.
    #[cfg(feature = "file")]
    pub(crate) fn size(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let found = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => size(text),
            Some(_) => None,
        };
        found.filter(|found| range.contains(found)).map(Some).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.wrong(name, &format!("a size such as \"512KiB\" or \"64MiB\", from {least} to {most} bytes"))
        })
    }

    /// A length of time within a range; none where it is not set.
    #[cfg(feature = "file")]
    pub(crate) fn optional_duration(&self, name: &str, range: RangeInclusive<Duration>) -> Result<Option<Duration>> {
        match self.get(name) {
            None => Ok(None),
            Some(_) => self.duration(name, *range.start(), range).map(Some),
        }
    }

    /// A length of time such as `500ms`, `10s`, `2m` or `1h`, within a range.
    pub(crate) fn duration(&self, name: &str, default: Duration, range: RangeInclusive<Duration>) -> Result<Duration> {
        match self.text(name)? {
            None => Ok(default),
            Some(text) => duration(&text).filter(|found| range.contains(found)).ok_or_else(|| {
                let (least, most) = (range.start(), range.end());
                self.wrong(name, &format!("a time such as \"500ms\", \"10s\" or \"2m\", from {least:?} to {most:?}"))
            }),
        }
    }

    /// A secret, given as `name`, or read from the file `name_file`, or from the variable `name_env`.
    pub(crate) fn secret(&self, name: &str) -> Result<Option<Secret>> {
        let (file_option, env_option) = (format!("{name}_file"), format!("{name}_env"));
        let (plain, file, env) = (self.text(name)?, self.text(&file_option)?, self.text(&env_option)?);
        match (plain, file, env) {
            (None, None, None) => Ok(None),
            (Some(plain), None, None) => Ok(Some(Secret::new(plain))),
            (None, Some(path), None) => {
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    self.wrong(&file_option, &format!("a readable file, found {path:?}")).because(error)
                })?;
                Ok(Some(Secret::new(text.trim())))
            }
            (None, None, Some(variable)) => std::env::var(&variable)
                .map(|text| Some(Secret::new(text.trim())))
                .map_err(|_| self.wrong(&env_option, &format!("a variable that is set, found {variable:?}"))),
            _ => Err(self.wrong(name, &format!("only one of {name}, {file_option} and {env_option}"))),
        }
    }

    /// Secrets, the newest first: as [`secret`](Self::secret), where white space parts them, or as a list. They come as one
    /// text, parted by line breaks.
    #[cfg(feature = "http")]
    pub(crate) fn secrets(&self, name: &str) -> Result<Option<Secret>> {
        if !matches!(self.get(name), Some(Value::Array(_))) {
            return self.secret(name);
        }
        for other in [format!("{name}_file"), format!("{name}_env")] {
            if self.get(&other).is_some() {
                return Err(self.wrong(name, &format!("only one of {name}, {name}_file and {name}_env")));
            }
        }
        Ok(self.texts(name)?.map(|texts| Secret::new(texts.join("\n"))))
    }

    /// Every option whose name begins with `prefix.`, without that, in the order of names: `prefix."a.b" = 1`,
    /// `prefix.a.b = 1` and `"prefix.a.b" = 1` are the same in a table.
    ///
    /// # Errors
    /// `Config` for a value that is no text, number or truth value.
    #[cfg(feature = "kafka")]
    pub(crate) fn below(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let mut found = std::collections::BTreeMap::new();
        for (name, value) in self.query.iter().chain(self.map) {
            let below = name.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('.'));
            let Some(below) = below else { continue };
            self.asked.borrow_mut().insert(name.clone());
            self.flatten(name, below.trim_start_matches('.'), value, &mut found)?;
        }
        self.asked.borrow_mut().insert(format!("{prefix}.*"));
        Ok(found.into_iter().collect())
    }

    #[cfg(feature = "kafka")]
    fn flatten(
        &self,
        name: &str,
        below: &str,
        value: &Value,
        found: &mut std::collections::BTreeMap<String, String>,
    ) -> Result<()> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Object(inner) => {
                let join = |next: &str| if below.is_empty() { next.to_owned() } else { format!("{below}.{next}") };
                return inner.iter().try_for_each(|(next, value)| self.flatten(name, &join(next), value, found));
            }
            Value::Null | Value::Array(_) => return Err(self.wrong(name, "a text, a number, true or false")),
        };
        if below.is_empty() {
            return Err(self.wrong(name, "a table of settings"));
        }
        found.insert(below.to_owned(), text);
        Ok(())
    }

    /// Refuses every option that was not asked for, naming the nearest valid one.
    pub(crate) fn finish(self) -> Result<()> {
        let asked = self.asked.into_inner();
        let Some(unknown) = self.map.keys().chain(self.query.keys()).find(|name| !asked.contains(*name)) else {
            return Ok(());
        };
        let nearest = asked.iter().min_by_key(|known| strsim::damerau_levenshtein(known, unknown));
        let meant = match nearest {
            Some(known) if strsim::damerau_levenshtein(known, unknown) <= 1 + unknown.len() / 3 => {
                format!("; did you mean {known:?}?")
            }
            _ => String::new(),
        };
        let known: Vec<&str> = asked.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let text = format!("the broker {} has no option {unknown:?}{meant} (options: {known})", self.broker);
        Err(Error::new(ErrorKind::Config, text))
    }
}

/// Reads `500ms`, `10s`, `2m`, `1h`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    match unit.trim() {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// Reads `4096`, `512KiB`, `64MiB`, `2GiB`, and the same by thousands: `kB`, `MB`, `GB`.
#[cfg(feature = "file")]
fn size(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest_valid_one() {
        let config = BrokerConfig::new("memory:").option("tiemout", "1s");
        let options = Options::new(&config);
        let range = Duration::ZERO..=Duration::from_secs(60);
        options.duration("timeout", Duration::from_secs(1), range).unwrap();
        options.secret("token").unwrap();
        let error = options.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("did you mean \"timeout\"?"), "{error}");
    }

    #[test]
    fn an_unknown_name_in_the_query_is_refused_too() {
        let config = BrokerConfig::new("nats://host?streem=orders");
        let options = Options::with_query(&config);
        assert_eq!(options.text("stream").unwrap(), None);
        assert!(options.finish().unwrap_err().to_string().contains("did you mean \"stream\"?"));
    }

    #[test]
    fn a_secret_comes_from_a_file_or_a_variable_but_from_one_place_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "hidden\n").unwrap();
        let path = path.to_str().unwrap();
        let secret = |config: &BrokerConfig| Options::new(config).secret("token");
        let file = BrokerConfig::new("x:").option("token_file", path);
        assert_eq!(secret(&file).unwrap().unwrap().reveal(), "hidden");
        let variable = BrokerConfig::new("x:").option("token_env", "CARGO_PKG_NAME");
        assert_eq!(secret(&variable).unwrap().unwrap().reveal(), "postrider-brokers");
        assert!(secret(&file.option("token", "hidden")).is_err());
        let missing = BrokerConfig::new("x:").option("token_env", "POSTRIDER_NO_SUCH_VARIABLE");
        assert!(secret(&missing).unwrap_err().to_string().contains("POSTRIDER_NO_SUCH_VARIABLE"));
    }

    #[test]
    fn a_bad_value_says_what_was_expected_and_not_what_was_found() {
        let config = BrokerConfig::new("x:").option("timeout", "canary").option("size", 0).option("token", 7);
        let options = Options::new(&config);
        let range = Duration::ZERO..=Duration::from_secs(60);
        let error = options.duration("timeout", Duration::ZERO, range).unwrap_err().to_string();
        assert!(error.contains("\"500ms\"") && !error.contains("canary"), "{error}");
        assert!(options.number("size", 1, 1..=5).is_err());
        assert!(options.secret("token").is_err());
    }

    #[test]
    fn durations_keep_their_grammar() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        for bad in ["", "10", "s", "-1s", "1.5s", "1 day", "99999999999999999999s", "9999999999999999999h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[cfg(feature = "file")]
    #[test]
    fn sizes_keep_their_grammar() {
        for (text, bytes) in [("4096", 4_096), ("512KiB", 512 << 10), ("64 MiB", 64 << 20), ("2GB", 2_000_000_000)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "1.5MiB", "-1", "1 potato", "99999999999GiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }
}
