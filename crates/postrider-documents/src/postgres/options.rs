//! How to reach the database.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

const SHAPE: &str = "expected postgres://user:password@host:port/database?name=value";
const MODES: &str = "expected sslmode to be verify-full (with sslrootcert for a private authority) or disable: the others \
    verify nobody, and whoever stands between reads along";
const KNOWN: &str = "known options: schema, sslmode, sslrootcert, connections, timeout, application_name, host, port, \
    channel_binding";
const LONGEST_SCHEMA: usize = 63;

/// What to open.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) encryption: Encryption,
    /// Whether the server is on this machine.
    pub(super) is_local: bool,
    pub(super) schema: String,
    pub(super) connections: usize,
    pub(super) timeout: Duration,
}

/// Whether the connection is encrypted, and whom it believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encryption {
    /// It is not.
    Disabled,
    /// The chain and the host's name are verified: by the authorities of a file, or else of this machine.
    Verified(Option<PathBuf>),
}

impl PostgresOptions {
    /// The options of a URL.
    ///
    /// # Errors
    /// `Config` when it cannot be read or has an unknown option.
    pub fn new(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if !base.starts_with("postgres://") && !base.starts_with("postgresql://") {
            return Err(refused(SHAPE));
        }
        let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
        let (mut schema, mut connections, mut timeout) = ("public".to_owned(), 8, 10);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| refused(SHAPE))?;
            match name {
                "schema" => schema = named(value)?,
                "sslmode" => mode = Some(value),
                "sslrootcert" => authorities = Some(PathBuf::from(decoded(value)?)),
                "connections" => connections = within(value, 100, "expected connections to be 1 to 100")?,
                "timeout" => timeout = within(value, 600, "expected timeout to be 1 to 600 seconds")?,
                "application_name" | "host" | "port" | "channel_binding" => rest.push(pair),
                _ => return Err(refused(KNOWN)),
            }
        }
        // The parser's own error quotes no value, but it could come to; its text is not repeated.
        let mut config: Config = format!("{base}?{}", rest.join("&")).parse().map_err(|_| refused(SHAPE))?;
        if config.get_hosts().is_empty() {
            return Err(refused("expected a host, as in postgres://user@localhost/database"));
        }
        let is_local = loopback(&config);
        let encryption = match mode {
            Some("disable") => Encryption::Disabled,
            None if is_local && authorities.is_none() => Encryption::Disabled,
            Some("verify-full") | None => Encryption::Verified(authorities),
            Some(_) => return Err(refused(MODES)),
        };
        let timeout = Duration::from_secs(timeout as u64);
        config.ssl_mode(match encryption {
            Encryption::Disabled => SslMode::Disable,
            Encryption::Verified(_) => SslMode::Require,
        });
        // A replica answers by what was.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives(true).keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(timeout);
        config.connect_timeout(timeout / 2);
        if config.get_application_name().is_none() {
            config.application_name("postrider");
        }
        Ok(Self { config, encryption, is_local, schema, connections, timeout })
    }

    /// Host, port and database for error messages; no user and no password.
    pub(super) fn place(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{host}:{port}/{database}")
    }

    /// The name of the table, quoted.
    pub(super) fn table(&self) -> String {
        format!("\"{}\".postrider_document", self.schema)
    }
}

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the PostgreSQL documents cannot be read: {expected}"))
}

/// The name of a schema, which may stand between quotes in a statement.
fn named(value: &str) -> Result<String> {
    let first = value.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if first && value.len() <= LONGEST_SCHEMA && value.chars().all(part) {
        return Ok(value.to_owned());
    }
    Err(refused("expected schema to have 1 to 63 lower case letters, digits or '_', no digit first"))
}

fn within(value: &str, most: usize, expected: &str) -> Result<usize> {
    value.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(|| refused(expected))
}

fn decoded(value: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(Into::into).map_err(|_| refused("expected UTF-8 after decoding %"))
}

fn loopback(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_verified_unless_the_server_is_here_or_the_user_says_otherwise() {
        let file = || Some(PathBuf::from("/etc/a b/ca.pem"));
        for (url, expected) in [
            ("postgres://u@db.example.com/d", Encryption::Verified(None)),
            ("postgres://u@db.example.com/d?sslrootcert=/etc/a%20b/ca.pem", Encryption::Verified(file())),
            ("postgresql://u@127.0.0.1,db.example.com/d", Encryption::Verified(None)),
            ("postgres://u@127.0.0.1/d", Encryption::Disabled),
            ("postgres://u@localhost/d?sslmode=verify-full", Encryption::Verified(None)),
            ("postgres://u@%2Frun%2Fpostgresql/d", Encryption::Disabled),
            ("postgres://u@db.example.com/d?sslmode=disable", Encryption::Disabled),
        ] {
            assert_eq!(PostgresOptions::new(url).unwrap().encryption, expected, "{url}");
        }
    }

    #[test]
    fn options_are_read() {
        let url = "postgres://u:hunter2@h:7/d?schema=shop&connections=3&timeout=2&application_name=shop";
        let options = PostgresOptions::new(url).unwrap();
        assert_eq!((options.place().as_str(), options.table().as_str()), ("h:7/d", "\"shop\".postrider_document"));
        assert_eq!((options.connections, options.timeout), (3, Duration::from_secs(2)));
        assert_eq!(options.config.get_application_name(), Some("shop"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_expected_and_without_its_password() {
        for (url, expected) in [
            ("mysql://u:hunter2@h/d", "postgres://user"),
            ("postgres://u:hunter2@h:port/d", "postgres://user"),
            ("postgres://u:hunter2@/d", "a host"),
            ("postgres://u:hunter2@h/d?sslmode=require", "verify-full"),
            ("postgres://u:hunter2@h/d?hunter2=1", "known options: schema"),
            ("postgres://u:hunter2@h/d?target_session_attrs=any", "known options"),
            ("postgres://u:hunter2@h/d?schema=a%22b", "schema"),
            ("postgres://u:hunter2@h/d?connections=0", "1 to 100"),
            ("postgres://u:hunter2@h/d?timeout=10s", "1 to 600"),
            ("postgres://u:hunter2@h/d?sslrootcert=%ff", "UTF-8"),
        ] {
            let error = PostgresOptions::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
