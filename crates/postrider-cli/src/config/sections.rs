//! From layers to values: what belongs together is checked together.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use postrider_core::{Attempts, LaneCount, Retention, RetryPolicy, Secret, TopicPattern};

use super::layers::{Layers, Origin};
use super::{Admin, BrokerSection, Config, Log, Outbox, Relay, Route, values};
use crate::failure::{Failure, Outcome};
use crate::redact;

/// The word that turns the admin address off.
const OFF: &str = "off";
/// The shortest lease that can be renewed three times over a slow network.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

pub(super) fn read(layers: Layers) -> Outcome<Config> {
    let read = Reader(&layers);
    let outbox = outbox(&read)?;
    let brokers = brokers(&read)?;
    let retry = retry(&read, "retry", RetryPolicy::default())?;
    let retention = Retention {
        delivered: match layers.get("retention.delivered") {
            Some(_) => read.duration("retention.delivered"),
            None => outbox.history,
        },
        dead: read.duration("retention.dead"),
    };
    Ok(Config {
        relay: relay(&read)?,
        topics: topics(&read, retry)?,
        routes: routes(&read, &brokers)?,
        admin: admin(&read)?,
        log: Log { level: read.text("log.level"), format: read.text("log.format") },
        outbox,
        retry,
        brokers,
        retention,
        layers,
    })
}

/// Typed access to layers whose values were checked when they were read.
struct Reader<'a>(&'a Layers);

impl Reader<'_> {
    fn maybe(&self, path: &str) -> Option<String> {
        self.0.get(path)?.text()
    }

    /// A text that somebody set; none for the default.
    fn chosen(&self, path: &str) -> Option<String> {
        self.0.get(path).filter(|setting| setting.origin != Origin::Default)?.text()
    }

    fn text(&self, path: &str) -> String {
        self.maybe(path).unwrap_or_default()
    }

    fn duration(&self, path: &str) -> Option<Duration> {
        values::duration(&self.maybe(path)?)
    }

    fn count(&self, path: &str) -> Option<u64> {
        values::count(&self.maybe(path)?, 0, u64::MAX)
    }

    fn refuse(&self, path: &str, what: &str, next: impl Into<String>) -> Failure {
        let origin = self.0.get(path).map(|setting| format!(" ({})", setting.origin)).unwrap_or_default();
        Failure::usage(format!("{path}{origin}: {what}"), next)
    }

    /// A secret: its own value, or the first line of the file that holds it.
    fn secret(&self, path: &str) -> Outcome<Option<Secret>> {
        let file_path = format!("{path}_file");
        match (self.maybe(path), self.maybe(&file_path)) {
            (Some(_), Some(_)) => Err(self.refuse(
                path,
                "is set, and so is the file for it",
                format!("set {path} or {file_path}, not both"),
            )),
            (Some(value), None) => Ok(Some(Secret::new(value))),
            (None, Some(file)) => read_secret(Path::new(&file)).map(Some).map_err(|what| {
                self.refuse(&file_path, &what, "name a file that this user can read and that holds the secret alone")
            }),
            (None, None) => Ok(None),
        }
    }
}

fn read_secret(file: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{} is empty", file.display())),
        secret => Ok(Secret::new(secret)),
    }
}

fn outbox(read: &Reader<'_>) -> Outcome<Outbox> {
    let password = read.secret("outbox.store_password")?;
    let store = match (read.maybe("outbox.store"), password) {
        (Some(store), Some(password)) => Some(with_password(read, &store, &password)?),
        (store, _) => store.map(Secret::new),
    };
    for path in ["outbox.prefix", "outbox.schema"] {
        if let Some(name) = read.maybe(path).filter(|name| !identifier(name)) {
            return Err(read.refuse(
                path,
                &format!("{name:?} is no name"),
                "write lower-case letters, digits and '_', beginning with a letter or '_', at most 40 in all",
            ));
        }
    }
    let lanes = read.count("outbox.lanes").and_then(|lanes| u16::try_from(lanes).ok());
    Ok(Outbox {
        store,
        schema: read.maybe("outbox.schema"),
        prefix: read.chosen("outbox.prefix"),
        lanes: lanes.and_then(LaneCount::new),
        pooling: read.maybe("outbox.pooling"),
        history: read.duration("outbox.history"),
    })
}

fn identifier(name: &str) -> bool {
    name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Puts a password that came separately into an address that has a user and none.
fn with_password(read: &Reader<'_>, store: &str, password: &Secret) -> Outcome<Secret> {
    let refuse = |what: &str| {
        read.refuse(
            "outbox.store_password",
            what,
            "write the store as postgres://USER@HOST/DATABASE, without a password",
        )
    };
    let Some((scheme, rest)) = store.split_once("://") else { return Err(refuse("the store takes no password")) };
    let (user, host) = rest.split_once('@').ok_or_else(|| refuse("the store's address names no user"))?;
    if user.contains(':') {
        return Err(refuse("the store's address has a password already"));
    }
    let encoded: String = password
        .reveal()
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    Ok(Secret::new(format!("{scheme}://{user}:{encoded}@{host}")))
}

fn relay(read: &Reader<'_>) -> Outcome<Relay> {
    let lease = read.duration("relay.lease");
    if lease.is_some_and(|lease| lease < SHORTEST_LEASE) {
        return Err(read.refuse("relay.lease", "is too short to be renewed in time", "write at least \"500ms\""));
    }
    let poll_interval = read.duration("relay.poll_interval").unwrap_or_default();
    for path in ["relay.poll_interval", "relay.max_pause"] {
        if read.duration(path).unwrap_or_default().is_zero() {
            return Err(read.refuse(path, "may not be zero", "write at least \"1ms\""));
        }
    }
    let number = |path| read.count(path).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    Ok(Relay {
        name: read.maybe("relay.name").unwrap_or_else(own_name),
        window_rows: number("relay.window_rows"),
        window_bytes: values::size(&read.text("relay.window_bytes")).unwrap_or_default(),
        poll_interval,
        lease,
        stop_deadline: read.duration("relay.stop_deadline").unwrap_or_default(),
        max_pause: read.duration("relay.max_pause").unwrap_or_default(),
        patience: read.duration("relay.patience").unwrap_or_default(),
    })
}

/// Host name and process number.
fn own_name() -> String {
    let host = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_else(|| "relay".to_owned());
    format!("{host}-{}", std::process::id())
}

fn retry(read: &Reader<'_>, prefix: &str, base: RetryPolicy) -> Outcome<RetryPolicy> {
    let at = |name: &str| format!("{prefix}.{name}");
    let policy = RetryPolicy {
        initial: read.duration(&at("initial")).unwrap_or(base.initial),
        maximum: read.duration(&at("maximum")).unwrap_or(base.maximum),
        multiplier: read.maybe(&at("multiplier")).and_then(|text| values::factor(&text)).unwrap_or(base.multiplier),
        attempts: match read.count(&at("max_attempts")) {
            Some(0) => Attempts::Unlimited,
            Some(most) => Attempts::AtMost(u32::try_from(most).unwrap_or(u32::MAX)),
            None => base.attempts,
        },
    };
    if policy.initial.is_zero() {
        return Err(read.refuse(&at("initial"), "may not be zero", "write at least \"1ms\""));
    }
    if policy.initial > policy.maximum {
        return Err(read.refuse(&at("initial"), "is longer than the maximum", format!("raise {}", at("maximum"))));
    }
    Ok(policy)
}

fn topics(read: &Reader<'_>, base: RetryPolicy) -> Outcome<Vec<(TopicPattern, RetryPolicy)>> {
    let mut topics = Vec::new();
    for place in 0.. {
        let prefix = format!("retry.topic[{place}]");
        if !read.0.any_below(&format!("{prefix}.")) {
            break;
        }
        topics.push((pattern(read, &format!("{prefix}.pattern"), None)?, retry(read, &prefix, base)?));
    }
    Ok(topics)
}

fn pattern(read: &Reader<'_>, path: &str, default: Option<&str>) -> Outcome<TopicPattern> {
    let next = "write words joined by dots, with * for one word and # at the end for any number, such as \"orders.#\"";
    let text = read.maybe(path).or_else(|| default.map(str::to_owned));
    let text = text.ok_or_else(|| read.refuse(path, "is missing", next))?;
    TopicPattern::parse(&text).map_err(|what| read.refuse(path, &what, next))
}

fn brokers(read: &Reader<'_>) -> Outcome<Vec<BrokerSection>> {
    let mut brokers = Vec::new();
    for name in read.0.names("broker.") {
        let prefix = format!("broker.{name}.");
        let mut options = toml::Table::new();
        for (path, setting) in read.0.iter() {
            if let Some(option) = path.strip_prefix(&prefix).filter(|option| *option != "url") {
                options.insert(option.to_owned(), setting.value.clone());
            }
        }
        let url = read.maybe(&format!("{prefix}url")).ok_or_else(|| {
            Failure::usage(
                format!("broker.{name} has no url"),
                "write where it is: url = \"nats://host:4222\", \"http://host/path\", \"file:PATH\" or \"stdout:\"",
            )
        })?;
        brokers.push(BrokerSection { name, url: Secret::new(url), options });
    }
    Ok(brokers)
}

fn routes(read: &Reader<'_>, brokers: &[BrokerSection]) -> Outcome<Vec<Route>> {
    if read.0.any_below("route[1].") {
        return Err(Failure::usage(
            "there is more than one [[route]]: this version relays to one destination",
            "keep one [[route]], or run one relay and one outbox (outbox.prefix) per destination",
        ));
    }
    if brokers.is_empty() {
        return Ok(Vec::new());
    }
    let broker = match (read.maybe("route[0].broker"), brokers) {
        (Some(name), _) if brokers.iter().any(|broker| broker.name == name) => name,
        (Some(name), _) => {
            let known: Vec<_> = brokers.iter().map(|broker| broker.name.as_str()).collect();
            let what = format!("there is no [broker.{name}]");
            return Err(read.refuse("route[0].broker", &what, format!("write one of: {}", known.join(", "))));
        }
        (None, [only]) => only.name.clone(),
        (None, _) => {
            return Err(Failure::usage(
                "there are several brokers and no [[route]] that says which one messages go to",
                "write [[route]] with broker = \"NAME\"; this version relays to one of them",
            ));
        }
    };
    let destination = read.maybe("route[0].destination").unwrap_or_else(|| "{topic}".to_owned());
    Ok(vec![Route { topics: pattern(read, "route[0].topics", Some("#"))?, broker, destination }])
}

fn admin(read: &Reader<'_>) -> Outcome<Admin> {
    let token = read.secret("admin.token")?;
    let text = read.text("admin.listen");
    if text == OFF {
        return Ok(Admin { listen: None, token });
    }
    let listen: SocketAddr = text.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
        read.refuse(
            "admin.listen",
            &format!("{text:?} is no address"),
            "write an IP address and a port, such as 127.0.0.1:9640, or off",
        )
    })?;
    if !loopback(listen.ip()) && token.is_none() {
        return Err(read.refuse(
            "admin.listen",
            &format!("{listen} can be reached from other machines, and there is no token"),
            "set admin.token_file (or POSTRIDER_ADMIN__TOKEN), or listen on 127.0.0.1",
        ));
    }
    Ok(Admin { listen: Some(listen), token })
}

fn loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

pub(super) fn secrets(config: &Config) -> Vec<String> {
    let mut secrets = Vec::new();
    for address in config.outbox.store.iter().chain(config.brokers.iter().map(|broker| &broker.url)) {
        secrets.extend(redact::secrets_of(address.reveal()));
    }
    secrets.extend(config.admin.token.iter().map(|token| token.reveal().to_owned()));
    for broker in &config.brokers {
        for (name, value) in &broker.options {
            if let (true, Some(text)) = (redact::secret_option(name), value.as_str()) {
                secrets.extend(text.split_whitespace().map(str::to_owned));
            }
        }
    }
    secrets
}
