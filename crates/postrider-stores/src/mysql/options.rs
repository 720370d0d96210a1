//! How to reach the database, and how much of it to use.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};
use postrider_core::{Error, ErrorKind, Result, Secret};

use super::Names;
use crate::History;
use crate::encryption::{Encryption, decoded};
use crate::parameter::called;

/// What to open.
#[derive(Clone)]
pub struct MysqlOptions {
    pub(super) opts: Opts,
    pub(super) place: String,
    pub(super) encryption: Encryption,
    /// Whether the server is on this machine.
    pub(super) is_local: bool,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) names: Names,
    pub(super) history: History,
    pub(super) timeout: Duration,
    pub(super) lock_wait: Option<Duration>,
}

impl std::fmt::Debug for MysqlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The driver's own options would show the password.
        f.debug_struct("MysqlOptions")
            .field("place", &self.place)
            .field("encryption", &self.encryption)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl MysqlOptions {
    /// The default time limit of one statement.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Options for `mysql://user:password@host:port/database?sslmode=...&sslrootcert=...&socket=...`; `mariadb://` is the
    /// same.
    ///
    /// `sslmode` is `disable`, `prefer`, `require` or `verify-full`; without it `verify-full`, or `prefer` for a
    /// loopback host. Over a socket nothing is encrypted. The names of the database's own tools, `ssl-mode` and `ssl-ca`,
    /// mean the same.
    ///
    /// # Errors
    /// `Config` when the URL cannot be read.
    pub fn new(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let rest = base.strip_prefix("mysql://").or_else(|| base.strip_prefix("mariadb://"));
        let rest = rest.ok_or_else(|| refused("expected mysql://user:password@host:port/database"))?;
        let (mut mode, mut root_certificates, mut socket) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode" | "ssl-mode", value)) => {
                    mode = Some(Encryption::named(value).ok_or_else(|| refused(MODES))?)
                }
                Some(("sslrootcert" | "ssl-ca", value)) => {
                    root_certificates = Some(PathBuf::from(decoded(value).map_err(refused)?))
                }
                Some(("socket", value)) => socket = Some(decoded(value).map_err(refused)?),
                _ => {
                    let known = "the parameters are sslmode, sslrootcert and socket";
                    return Err(refused(&format!("{} is unknown; {known}", called(pair))));
                }
            }
        }
        // The parser's own error could come to quote a value; its text is not repeated.
        let opts = Opts::from_url(&format!("mysql://{rest}"))
            .map_err(|_| refused("expected mysql://user:password@host:port/database?name=value"))?;
        let database = opts.db_name().unwrap_or_default().to_owned();
        if opts.ip_or_hostname().is_empty() || database.is_empty() {
            return Err(refused("expected a host and a database, as in mysql://user@localhost/database"));
        }
        let host = opts.ip_or_hostname().trim_matches(['[', ']']);
        let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if socket.is_some() && matches!(mode, Some(Encryption::Required | Encryption::Verified)) {
            return Err(refused("nothing is encrypted over a socket; leave sslmode or socket out"));
        }
        let is_local = socket.is_some() || is_loopback;
        let encryption = match mode {
            // Where the server offers TLS the driver would ask for it over a socket too, and not speak it.
            _ if socket.is_some() => Encryption::Disabled,
            Some(mode) => mode,
            None if is_loopback => Encryption::Preferred,
            None => Encryption::Verified,
        };
        let place = match &socket {
            Some(socket) => format!("{socket}/{database}"),
            None => format!("{}:{}/{database}", opts.ip_or_hostname(), opts.tcp_port()),
        };
        // Matched rows are counted, not changed ones: an outcome that is recorded twice was recorded. The driver would go to
        // a socket by itself, which may be that of another server than the one behind a forwarded port.
        let builder = OptsBuilder::from_opts(opts)
            .client_found_rows(true)
            .prefer_socket(false)
            .socket(socket)
            .tcp_keepalive(Some(Duration::from_secs(10)));
        Ok(Self {
            opts: builder.into(),
            place,
            encryption,
            is_local,
            root_certificates,
            names: Names::default(),
            history: History::Off,
            timeout: Self::TIMEOUT,
            lock_wait: None,
        })
    }

    /// The same options with a password from elsewhere than the URL.
    #[must_use]
    pub fn password(mut self, password: &Secret) -> Self {
        self.opts = OptsBuilder::from_opts(self.opts).pass(Some(password.reveal())).into();
        self
    }

    /// The same options with another prefix.
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

    /// The same options with another time limit of one statement; default 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same options with a limit to how long a statement of the operator waits for a lock, in whole seconds and at
    /// least one, whose holder the error then names; without it a lock is waited for as long as a statement may take.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = Some(wait);
        self
    }
}

const MODES: &str = "expected sslmode to be disable, prefer, require or verify-full";

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the MySQL store cannot be read: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_verified_unless_the_host_is_loopback_or_the_user_says_otherwise() {
        for (url, expected) in [
            ("mysql://u@db.example.com/d", Encryption::Verified),
            ("mysql://u@127.0.0.1/d", Encryption::Preferred),
            ("mysql://u@[::1]:7/d", Encryption::Preferred),
            ("mariadb://u@localhost:7/d", Encryption::Preferred),
            ("mariadb://u@db.example.com/d?socket=/run/s.sock&sslmode=prefer", Encryption::Disabled),
            ("mysql://u@localhost/d?sslmode=verify-full", Encryption::Verified),
            ("mysql://u@db.example.com/d?ssl-mode=REQUIRED", Encryption::Required),
            ("mysql://u@db.example.com/d?ssl-mode=VERIFY_IDENTITY", Encryption::Verified),
            ("mysql://u@db.example.com/d?sslmode=disable", Encryption::Disabled),
        ] {
            assert_eq!(MysqlOptions::new(url).unwrap().encryption, expected, "{url}");
        }
    }

    #[test]
    fn a_loopback_host_and_a_socket_are_on_this_machine_whatever_the_mode() {
        for (url, is_local) in [
            ("mysql://u@db.example.com/d?sslmode=prefer", false),
            ("mysql://u@192.168.1.7/d?sslmode=disable", false),
            ("mysql://u@127.0.0.1/d?sslmode=verify-full", true),
            ("mysql://u@localhost/d", true),
            ("mysql://u@db.example.com/d?socket=/run/s.sock", true),
        ] {
            assert_eq!(MysqlOptions::new(url).unwrap().is_local, is_local, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for url in [
            "postgres://u:hunter2@h/d",
            "mysql://u:hunter2@h:port/d",
            "mysql://u:hunter2@h",
            "mysql://u:hunter2@h/d?sslmode=maybe",
            "mysql://u:hunter2@h/d?sslmode=verify-full&socket=/run/s.sock",
            "mysql://u:hunter2@h/d?nonsense=hunter2",
            "mysql://u:hunter2@h/d?sslrootcert=%zz",
        ] {
            let error = MysqlOptions::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(!error.story().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn no_password_is_shown_in_what_is_written_for_debugging() {
        let options = MysqlOptions::new("mysql://u:hunter2@h/d").unwrap().password(&Secret::new("hunter3"));
        let shown = format!("{options:?}");
        assert!(!shown.contains("hunter") && shown.contains("h:3306/d"), "{shown}");
    }
}
