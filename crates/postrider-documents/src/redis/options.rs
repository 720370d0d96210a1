//! How to reach the server.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use url::Url;

const SHAPE: &str = "expected redis://user:password@host:port/database?name=value, or rediss: for TLS";
const KNOWN: &str = "known options: prefix, ca_file, connections, timeout";
const PREFIX: &str = "expected prefix to have 1 to 64 letters of ASCII, digits, '-', '_', '.' or ':'";
const LONGEST_PREFIX: usize = 64;
const PORT: u16 = 6379;

/// What to open.
#[derive(Clone)]
pub struct RedisOptions {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: u32,
    pub(super) user: String,
    /// None: the server is asked without a login.
    pub(super) password: Option<String>,
    pub(super) encryption: Encryption,
    pub(super) prefix: String,
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

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("place", &self.place())
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// The options of a URL.
    ///
    /// # Errors
    /// `Config` when it cannot be read or has an unknown option.
    pub fn new(url: &str) -> Result<Self> {
        let url = Url::parse(url).map_err(|_| refused(SHAPE))?;
        let is_encrypted = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            _ => return Err(refused(SHAPE)),
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| refused("expected a host, as in redis://localhost/0"))?;
        if url.fragment().is_some() {
            return Err(refused(SHAPE));
        }
        let (mut prefix, mut authorities) = ("postrider".to_owned(), None);
        let (mut connections, mut timeout) = (8, 10);
        for (name, value) in url.query_pairs() {
            match &*name {
                "prefix" => prefix = named(&value)?,
                "ca_file" if is_encrypted => authorities = Some(PathBuf::from(&*value)),
                "ca_file" => return Err(refused("ca_file is for rediss:, which is encrypted")),
                "connections" => connections = within(&value, 100, "expected connections to be 1 to 100")?,
                "timeout" => timeout = within(&value, 600, "expected timeout to be 1 to 600 seconds")?,
                _ => return Err(refused(KNOWN)),
            }
        }
        let user = decoded(url.username())?;
        let password = url.password().map(decoded).transpose()?;
        if !user.is_empty() && password.is_none() {
            return Err(refused("it has a user and no password; expected redis://user:password@host"));
        }
        Ok(Self {
            host: decoded(host.trim_start_matches('[').trim_end_matches(']'))?,
            port: url.port().unwrap_or(PORT),
            database: numbered(url.path())?,
            user: if user.is_empty() { "default".to_owned() } else { user },
            password,
            encryption: if is_encrypted { Encryption::Verified(authorities) } else { Encryption::Disabled },
            prefix,
            connections,
            timeout: Duration::from_secs(timeout as u64),
        })
    }

    /// Host, port and database for messages; no user and no password.
    pub(super) fn place(&self) -> String {
        format!("{}:{}/{}", self.host, self.port, self.database)
    }

    /// Whether the server is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the Redis documents cannot be read: {expected}"))
}

/// What may stand in braces at the beginning of a key: without braces of its own.
fn named(value: &str) -> Result<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let is_legal = (1..=LONGEST_PREFIX).contains(&value.len()) && value.chars().all(part);
    is_legal.then(|| value.to_owned()).ok_or_else(|| refused(PREFIX))
}

fn numbered(path: &str) -> Result<u32> {
    match path.trim_start_matches('/') {
        "" => Ok(0),
        number => number.parse().map_err(|_| refused("expected the database to be a number, as in redis://host/0")),
    }
}

fn within(value: &str, most: usize, expected: &str) -> Result<usize> {
    value.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(|| refused(expected))
}

fn decoded(value: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(Into::into).map_err(|_| refused("expected UTF-8 after decoding %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let url = "redis://shop:a%2Fhunter2@h:7/3?prefix=shop:docs&connections=3&timeout=2";
        let options = RedisOptions::new(url).unwrap();
        assert_eq!((options.place().as_str(), options.prefix.as_str()), ("h:7/3", "shop:docs"));
        assert_eq!((options.user.as_str(), options.password.as_deref()), ("shop", Some("a/hunter2")));
        assert_eq!((options.connections, options.timeout), (3, Duration::from_secs(2)));
        assert_eq!(options.encryption, Encryption::Disabled);
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let options = RedisOptions::new("rediss://:secret@[::1]").unwrap();
        assert_eq!((options.place().as_str(), options.user.as_str()), ("::1:6379/0", "default"));
        assert_eq!((options.encryption.clone(), options.is_local()), (Encryption::Verified(None), true));
        assert_eq!(RedisOptions::new("redis://h/").unwrap().password, None);
        let authorities = RedisOptions::new("rediss://h?ca_file=/etc/a%20b/ca.pem").unwrap().encryption;
        assert_eq!(authorities, Encryption::Verified(Some(PathBuf::from("/etc/a b/ca.pem"))));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_expected_and_without_its_password() {
        for (url, expected) in [
            ("mysql://u:hunter2@h/0", "redis://user"),
            ("redis://u:hunter2@h:port/0", "redis://user"),
            ("redis:///0?hunter2", "a host"),
            ("redis://hunter2@h/0", "no password"),
            ("redis://u:hunter2@h/hunter2", "a number"),
            ("redis://u:hunter2@h/0?hunter2=1", "known options: prefix"),
            ("redis://u:hunter2@h/0?prefix={a}", "prefix"),
            ("redis://u:hunter2@h/0?prefix=", "1 to 64"),
            ("redis://u:hunter2@h/0?connections=0", "1 to 100"),
            ("redis://u:hunter2@h/0?timeout=10s", "1 to 600"),
            ("redis://u:hunter2@h/0?ca_file=/a.pem", "rediss:"),
            ("redis://u:hunter2%ff@h/0", "UTF-8"),
            ("redis://u:hunter2@h/0#a", "redis://user"),
        ] {
            let error = RedisOptions::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
