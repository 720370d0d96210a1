//! From layers to values: what belongs together is checked together.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use postrider_core::machine::Ordering;
use postrider_core::{Attempts, LaneCount, OnExpire, Retention, RetryPolicy, Secret};

use super::archive::archive;
use super::creds;
use super::given_up::{forward, notify, on_dead};
use super::layers::Layers;
use super::reader::Reader;
use super::routing::{brokers, routes, topics};
use super::{Admin, Config, Log, Outbox, Relay, values};
use crate::failure::Outcome;
use crate::{ordinary, redact};

/// The word that turns the admin address off.
const OFF: &str = "off";
/// The shortest lease that can be renewed three times over a slow network.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);
/// The shortest time that an inbox remembers anything.
const SHORTEST_KEEP: Duration = Duration::from_secs(1);

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
    let (on_dead, routes) = (on_dead(&read)?, routes(&read, &brokers)?);
    Ok(Config {
        relay: relay(&read)?,
        topics: topics(&read, retry)?,
        forward: forward(&read, &on_dead, &brokers, &routes)?,
        archive: archive(&read, &brokers)?,
        notify: notify(&read)?,
        inbox: inbox(&read)?,
        on_dead,
        routes,
        admin: admin(&read)?,
        log: Log { level: read.text("log.level"), format: read.text("log.format") },
        outbox,
        retry,
        brokers,
        retention,
        layers,
    })
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
                "write lower-case letters, digits and '_', beginning with a letter, at most 40 in all",
            ));
        }
    }
    if let Some(prefix) = read.maybe("outbox.prefix").filter(|prefix| !prefix.ends_with('_')) {
        return Err(read.refuse("outbox.prefix", "does not end with '_'", format!("write \"{prefix}_\"")));
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
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Puts a password that came separately into an address that has a user and none.
fn with_password(read: &Reader<'_>, store: &str, password: &Secret) -> Outcome<Secret> {
    let split = store.split_once("://");
    let refuse = |what: &str| {
        let scheme = split.map_or("postgres", |(scheme, _)| scheme);
        let next = format!("write the store as {scheme}://USER@HOST/DATABASE, without a password");
        read.refuse("outbox.store_password", what, next)
    };
    let Some((scheme, rest)) = split else { return Err(refuse("the store takes no password")) };
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
        ordering: if read.text("relay.ordering") == "none" { Ordering::None } else { Ordering::Key },
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

pub(super) fn retry(read: &Reader<'_>, prefix: &str, base: RetryPolicy) -> Outcome<RetryPolicy> {
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
        max_age: match read.maybe(&at("max_age")) {
            Some(_) => read.duration(&at("max_age")),
            None => base.max_age,
        },
        on_expire: match read.maybe(&at("on_expire")).as_deref() {
            Some("drop") => OnExpire::Drop,
            Some(_) => OnExpire::Dead,
            None => base.on_expire,
        },
    };
    if policy.max_age.is_some_and(|most| most.is_zero()) {
        return Err(read.refuse(&at("max_age"), "may not be zero", "write at least \"1s\", or \"never\""));
    }
    if policy.initial.is_zero() {
        return Err(read.refuse(&at("initial"), "may not be zero", "write at least \"1ms\""));
    }
    if policy.initial > policy.maximum {
        return Err(read.refuse(&at("initial"), "is longer than the maximum", format!("raise {}", at("maximum"))));
    }
    Ok(policy)
}

fn inbox(read: &Reader<'_>) -> Outcome<Option<Duration>> {
    let keep = read.duration("inbox.keep");
    if keep.is_some_and(|keep| keep < SHORTEST_KEEP) {
        let next = "write at least \"1s\", and rather what the longest repeat needs, such as \"14d\"";
        return Err(read.refuse("inbox.keep", "is too short", next));
    }
    Ok(keep)
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

/// Every name in it that is no secret, in lower case.
pub(super) fn names(config: &Config) -> BTreeSet<String> {
    let addresses = config.outbox.store.iter().chain(config.brokers.iter().map(|broker| &broker.url));
    let mut names: BTreeSet<String> = addresses.flat_map(|address| ordinary::names_of(address.reveal())).collect();
    names.extend(config.brokers.iter().map(|broker| broker.name.to_ascii_lowercase()));
    names.extend(config.routes.iter().map(|route| route.name.to_ascii_lowercase()));
    names.extend(config.outbox.schema.iter().map(|schema| schema.to_ascii_lowercase()));
    names.insert(config.relay.name.to_ascii_lowercase());
    names
}

pub(super) fn secrets(config: &Config) -> Vec<String> {
    let mut secrets = Vec::new();
    for address in config.outbox.store.iter().chain(config.brokers.iter().map(|broker| &broker.url)) {
        secrets.extend(redact::secrets_of(address.reveal()));
    }
    if let Some(notify) = &config.notify {
        secrets.extend(redact::secrets_of(notify.url.reveal()));
        // While one replaces another there are several.
        let words = notify.secret.iter().flat_map(|secret| secret.reveal().split_whitespace());
        secrets.extend(words.map(str::to_owned));
    }
    secrets.extend(config.admin.token.iter().map(|token| token.reveal().to_owned()));
    for broker in &config.brokers {
        broker.options.iter().for_each(|(name, value)| secrets_below(name, value, &mut secrets));
    }
    secrets
}

/// The texts of an option that is secret by its name, however deep it stands.
fn secrets_below(name: &str, value: &toml::Value, secrets: &mut Vec<String>) {
    match value {
        toml::Value::String(text) if redact::secret_option(name) => {
            let words = text.split_whitespace().filter(|word| name != creds::TEXT || creds::is_secret(word));
            secrets.extend(words.map(str::to_owned));
        }
        toml::Value::Array(values) => values.iter().for_each(|value| secrets_below(name, value, secrets)),
        toml::Value::Table(table) => {
            let is_secret = redact::secret_option(name);
            for (inner, value) in table {
                secrets_below(if is_secret { name } else { inner }, value, secrets);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets_with(settings: &[(&str, &str)]) -> Vec<String> {
        let flags = settings.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned(), "flag".to_owned()));
        secrets(&read(Layers::read(None, [], flags).unwrap()).unwrap())
    }

    #[test]
    fn of_a_creds_file_the_jwt_and_the_seed_are_secrets_and_its_prose_is_none() {
        let (jwt, seed) = (format!("eyJ0eXAi.{}", "x".repeat(300)), format!("SU{}", "A".repeat(56)));
        let creds = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\
             NKEY Seed printed below can be used to sign and prove identity.\n\
             -----------------------------------------------------------------\n\
             *****************************************************************\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let url = ("broker.bus.url", "nats://host");
        assert_eq!(secrets_with(&[url, ("broker.bus.creds", creds.as_str())]), [jwt, seed]);
        assert_eq!(secrets_with(&[url, ("broker.bus.password", "hunter2")]), ["hunter2"]);
    }

    #[test]
    fn each_secret_that_signs_notifications_is_known_by_itself() {
        let url = ("notify.url", "https://hooks.example.com/dead");
        assert_eq!(secrets_with(&[url, ("notify.secret", "whsec_new whsec_old")]), ["whsec_new", "whsec_old"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "whsec_new\nwhsec_old\n").unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(secrets_with(&[url, ("notify.secret_file", path)]), ["whsec_new", "whsec_old"]);
    }
}
