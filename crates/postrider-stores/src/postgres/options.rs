//! How to reach the database, and how much of it to use.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result, Secret};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::Names;
use crate::History;
use crate::encryption::{Encryption, decoded};
use crate::parameter::called;

/// What stands between the relay and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Nothing: planner settings and timeouts travel as startup options.
    Direct,
    /// A pooler in transaction mode, such as PgBouncer, which refuses startup options. Give the relay's role the
    /// planner settings of `roles.sql`; without them the backlog is read in spans of row numbers.
    Transaction,
}

/// What to open.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) place: String,
    pub(super) encryption: Encryption,
    /// Whether the server is on this machine.
    pub(super) is_local: bool,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) names: Names,
    pub(super) history: History,
    pub(super) pooling: Pooling,
    pub(super) timeout: Duration,
    pub(super) lock_wait: Option<Duration>,
}

impl PostgresOptions {
    /// The default time limit of one statement.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Options for `postgres://user:password@host:port/database?sslmode=...&sslrootcert=...`.
    ///
    /// `sslmode` is `disable`, `prefer`, `require` or `verify-full`; without it `verify-full`, or `prefer` for a
    /// loopback host. Other parameters are those of libpq that tokio-postgres knows.
    ///
    /// # Errors
    /// `Config` when the URL cannot be read.
    pub fn new(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if !base.starts_with("postgres://") && !base.starts_with("postgresql://") {
            return Err(refused("expected postgres://user:password@host:port/database"));
        }
        let (mut mode, mut root_certificates, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(Encryption::named(value).ok_or_else(|| refused(MODES))?),
                Some(("sslrootcert", value)) => {
                    root_certificates = Some(PathBuf::from(decoded(value).map_err(refused)?))
                }
                _ => rest.push(pair),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|_| unreadable(base, &rest))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused("expected a host, as in postgres://user@localhost/database"));
        }
        let is_local = loopback(&config);
        let encryption = mode.unwrap_or(if is_local { Encryption::Preferred } else { Encryption::Verified });
        config.ssl_mode(match encryption {
            Encryption::Disabled => SslMode::Disable,
            Encryption::Preferred => SslMode::Prefer,
            Encryption::Required | Encryption::Verified => SslMode::Require,
        });
        Ok(Self {
            place: place(&config),
            config,
            encryption,
            is_local,
            root_certificates,
            names: Names::default(),
            history: History::Off,
            pooling: Pooling::Direct,
            timeout: Self::TIMEOUT,
            lock_wait: None,
        })
    }

    /// The same options with a password from elsewhere than the URL.
    #[must_use]
    pub fn password(mut self, password: &Secret) -> Self {
        self.config.password(password.reveal());
        self
    }

    /// The same options with another schema and prefix.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// The same options with or without history.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// The same options with a pooler between, or none.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = pooling;
        self
    }

    /// The same options with another time limit of one statement; default 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same options with a limit to how long a statement of the operator waits for a lock, whose holder the error then
    /// names; without it a lock is waited for as long as a statement may take.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = Some(wait);
        self
    }
}

const MODES: &str = "expected sslmode to be disable, prefer, require or verify-full";

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the PostgreSQL store cannot be read: {expected}"))
}

/// The parser's own error quotes no value, but it could come to; its text is not repeated.
fn unreadable(base: &str, parameters: &[&str]) -> Error {
    let is_read = |url: &str| url.parse::<Config>().is_ok();
    let unknown = || parameters.iter().find(|pair| !is_read(&format!("{base}?{pair}")));
    match is_read(base).then(unknown).flatten() {
        Some(pair) => {
            let other = "leave out what is meant for another driver or a pooler";
            refused(&format!("{} is unknown, or its value cannot be read; {other}", called(pair)))
        }
        None => refused("expected postgres://user:password@host:port/database?name=value"),
    }
}

fn loopback(config: &Config) -> bool {
    let local = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// Host, port and database for error messages; no user and no password.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{host}:{port}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_verified_unless_the_host_is_loopback_or_the_user_says_otherwise() {
        for (url, expected) in [
            ("postgres://u@db.example.com/d", Encryption::Verified),
            ("postgres://u@127.0.0.1/d", Encryption::Preferred),
            ("postgres://u@[::1]/d", Encryption::Preferred),
            ("postgresql://u@localhost:7/d", Encryption::Preferred),
            ("postgres://u@localhost/d?sslmode=verify-full", Encryption::Verified),
            ("postgres://u@db.example.com/d?sslmode=require&connect_timeout=3", Encryption::Required),
            ("postgres://u@db.example.com/d?sslmode=disable", Encryption::Disabled),
        ] {
            assert_eq!(PostgresOptions::new(url).unwrap().encryption, expected, "{url}");
        }
    }

    #[test]
    fn a_loopback_host_and_a_socket_are_on_this_machine_whatever_the_mode() {
        for (url, is_local) in [
            ("postgres://u@db.example.com/d?sslmode=prefer", false),
            ("postgres://u@192.168.1.7/d?sslmode=disable", false),
            ("postgres://u@127.0.0.1,db.example.com/d?sslmode=prefer", false),
            ("postgres://u@127.0.0.1/d?sslmode=verify-full", true),
            ("postgres://u@localhost/d", true),
            ("postgres://u@%2Frun%2Fpostgresql/d", true),
        ] {
            assert_eq!(PostgresOptions::new(url).unwrap().is_local, is_local, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for url in [
            "mysql://u:hunter2@h/d",
            "postgres://u:hunter2@h:port/d",
            "postgres://u:hunter2@h/d?sslmode=maybe",
            "postgres://u:hunter2@h/d?nonsense=hunter2",
            "postgres://u:hunter2@h/d?sslrootcert=%zz",
        ] {
            let error = PostgresOptions::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(!error.story().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_parameter_of_another_driver_is_named_where_the_rest_can_be_read() {
        for (url, named) in [
            ("postgres://u@h/d?connect_timeout=3&statement-cache-capacity=0", Some("statement-cache-capacity")),
            ("postgres://u@h/d?schema=public", Some("schema")),
            ("postgres://u@h/d?connect_timeout=soon", Some("connect_timeout")),
            ("postgres://u:hunter@h:port/d?two=2", None),
        ] {
            let told = PostgresOptions::new(url).unwrap_err().story();
            assert_eq!(told.contains("is unknown, or its value cannot be read"), named.is_some(), "{told}");
            assert!(named.is_none_or(|name| told.contains(&format!("the parameter {name:?}"))), "{told}");
            assert!(!told.contains("two"), "{told}");
        }
    }

    #[test]
    fn the_root_certificate_may_have_any_path() {
        let options = PostgresOptions::new("postgres://u@h/d?sslrootcert=/etc/a%20b/ca.pem").unwrap();
        assert_eq!(options.root_certificates.unwrap(), PathBuf::from("/etc/a b/ca.pem"));
    }
}
