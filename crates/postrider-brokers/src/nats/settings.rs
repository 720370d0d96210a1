//! What the configuration of a NATS broker says.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use postrider_core::{Error, ErrorKind, Result, Secret};
use rustls::ClientConfig;
use url::Url;

use super::login::Login;
use crate::config::BrokerConfig;
use crate::options::Options;
use crate::tls::{self, Identity};

/// How long one attempt to connect may take.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// The longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The settings of one NATS broker.
pub(super) struct Settings {
    /// The servers without credentials: fit for logs and errors.
    pub(super) shown: String,
    pub(super) servers: Vec<ServerAddr>,
    pub(super) stream: Option<String>,
    pub(super) timeout: Duration,
    login: Login,
    tls: ClientConfig,
    tls_required: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("servers", &self.shown)
            .field("stream", &self.stream)
            .field("timeout", &self.timeout)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub(super) fn parse(config: &BrokerConfig) -> Result<Self> {
        let options = Options::with_query(config);
        let settings = Self::read(config, &options)?;
        options.finish()?;
        Ok(settings)
    }

    /// Reads what publishing and receiving have in common; the caller asks for what it has beside that, and ends the reading.
    pub(super) fn read(config: &BrokerConfig, options: &Options<'_>) -> Result<Self> {
        let (servers, in_url) = servers(config)?;
        let stream = options.text("stream")?;
        if stream.as_deref().is_some_and(|name| name.is_empty() || name.contains(['.', '*', '>', ' ', '\t', '/'])) {
            return Err(options.wrong("stream", "the name of a stream"));
        }
        let second = Duration::from_secs(1);
        let timeout = options.duration("timeout", second * 5, second / 10..=second * 60)?;
        let login = Login::parse(options, in_url)?;
        let ca_file = options.text("ca_file")?;
        let identity = match (options.text("client_cert_file")?, options.text("client_key_file")?) {
            (None, None) => None,
            (Some(certificates), Some(key)) => Some(Identity { certificates: certificates.into(), key: key.into() }),
            _ => return Err(options.wrong("client_cert_file", "client_cert_file and client_key_file together")),
        };
        let tls_required = config.scheme() == "tls";
        let tls = match tls::verifying(ca_file.as_deref().map(Path::new), identity.as_ref()) {
            // A machine without authorities must be able to speak plain NATS.
            Err(_) if !tls_required && ca_file.is_none() && identity.is_none() => tls::trusting_nobody()?,
            other => other?,
        };
        let shown = config.shown();
        Ok(Self { shown, servers, stream, timeout, login, tls, tls_required })
    }

    /// The options of the client.
    ///
    /// # Errors
    /// `Config` for creds that are none.
    pub(super) fn client(&self) -> Result<ConnectOptions> {
        let options = ConnectOptions::new()
            .name("postrider")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(CONNECT)
            .request_timeout(Some(self.timeout))
            .ping_interval(Duration::from_secs(5))
            .reconnect_delay_callback(pause)
            .no_echo()
            .require_tls(self.tls_required)
            .tls_client_config(self.tls.clone());
        self.login.tell(options)
    }
}

/// The pause before an attempt to connect: none before the first, then doubling.
fn pause(attempts: usize) -> Duration {
    match attempts {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(25 << more.min(10)).min(MAX_PAUSE),
    }
}

/// The servers without credentials, and the credentials of the first that has some.
fn servers(config: &BrokerConfig) -> Result<(Vec<ServerAddr>, Login)> {
    let bad = || {
        let text = format!("the broker {:?}: expected servers such as nats://host:4222,host2", config.shown());
        Error::new(ErrorKind::Config, text)
    };
    let scheme = config.scheme();
    let text = config.url.split(['?', '#']).next().unwrap_or_default();
    let (_, text) = text.split_once("://").ok_or_else(bad)?;
    let (mut servers, mut login) = (Vec::new(), Login::Nobody);
    for server in text.split(',') {
        let mut url = Url::parse(&format!("{scheme}://{server}")).map_err(|_| bad())?;
        if url.host_str().is_none_or(str::is_empty) || !matches!(url.path(), "" | "/") {
            return Err(bad());
        }
        if matches!(login, Login::Nobody) {
            let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            login = match (url.username(), url.password()) {
                ("", None) => Login::Nobody,
                (token, None) => Login::Token(Secret::new(decode(token))),
                (user, Some(password)) => Login::User(decode(user), Secret::new(decode(password))),
            };
        }
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        cleared.map_err(|()| bad())?;
        servers.push(ServerAddr::from_url(url).map_err(|_| bad())?);
    }
    Ok((servers, login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(config: BrokerConfig) -> Result<Settings> {
        Settings::parse(&config)
    }

    #[test]
    fn credentials_leave_the_url_and_are_shown_nowhere() {
        let settings = parse(BrokerConfig::new("nats://us%40er:can%2Bary@a:1,b")).unwrap();
        assert!(matches!(&settings.login, Login::User(user, word) if user == "us@er" && word.reveal() == "can+ary"));
        assert_eq!(settings.servers.len(), 2);
        let shown = format!("{settings:?} {:?}", settings.servers);
        assert!(!shown.contains("ary") && settings.shown == "nats://a:1,b", "{shown}");
        let settings = parse(BrokerConfig::new("nats://canary@a")).unwrap();
        assert!(matches!(&settings.login, Login::Token(token) if token.reveal() == "canary"));
    }

    #[test]
    fn options_stand_in_the_table_or_in_the_query() {
        let settings = parse(BrokerConfig::new("nats://a?stream=orders&timeout=2s")).unwrap();
        assert_eq!(settings.stream.as_deref(), Some("orders"));
        assert_eq!(settings.timeout, Duration::from_secs(2));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in ["nats:", "nats://", "nats://a/path", "nats://a,,b", "nats://a?stream=a.b", "nats://a?streem=x"] {
            assert_eq!(parse(BrokerConfig::new(bad)).unwrap_err().kind(), ErrorKind::Config, "{bad}");
        }
        assert!(parse(BrokerConfig::new("nats://u:p@a").option("token", "t")).is_err());
        assert!(parse(BrokerConfig::new("nats://a").option("client_key_file", "k")).is_err());
    }

    #[test]
    fn pauses_between_attempts_grow_to_a_bound() {
        assert_eq!(pause(1), Duration::ZERO);
        assert_eq!(pause(2), Duration::from_millis(100));
        assert_eq!(pause(usize::MAX), MAX_PAUSE);
    }
}
