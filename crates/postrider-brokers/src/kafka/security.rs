//! How the connection is protected, and how the relay proves who it is.

use std::fmt;
use std::path::Path;

use postrider_core::{Error, ErrorKind, Result, Secret};
use rdkafka::ClientConfig;

use super::servers::Login;
use crate::config::BrokerConfig;
use crate::options::Options;

/// Whether this program speaks TLS, and so SCRAM, to Kafka.
const HAS_TLS: bool = cfg!(feature = "kafka-tls");

/// The protection of the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Security {
    tls: bool,
    sasl: Option<(Mechanism, Login)>,
    ca_file: Option<String>,
    identity: Option<Identity>,
}

/// Our own certificate.
#[derive(Debug, Clone)]
struct Identity {
    certificates: String,
    key: String,
    password: Option<Secret>,
}

/// How a user and a password are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        })
    }
}

impl Security {
    /// Reads the options and the scheme of the URL.
    ///
    /// # Errors
    /// `Config` for a bad value, for options that do not fit each other, for a file that can't be read, and for what
    /// this build can't do.
    pub(super) fn parse(config: &BrokerConfig, options: &Options<'_>, in_url: Option<Login>) -> Result<Self> {
        let by_scheme = config.scheme() == "kafka+ssl";
        let tls = match options.text("security")?.as_deref() {
            None => by_scheme,
            Some("tls") => true,
            Some("plaintext") if !by_scheme => false,
            Some("plaintext") => return Err(options.wrong("security", "tls, as the scheme kafka+ssl says")),
            Some(_) => return Err(options.wrong("security", "plaintext or tls")),
        };
        let login = login(options, in_url)?;
        let sasl = sasl(options, login, tls)?;
        let ca_file = options.text("ca_file")?;
        let identity = identity(options)?;
        for (name, path) in [
            ("ca_file", ca_file.as_ref()),
            ("client_cert_file", identity.as_ref().map(|identity| &identity.certificates)),
            ("client_key_file", identity.as_ref().map(|identity| &identity.key)),
        ] {
            let Some(path) = path else { continue };
            if !tls {
                return Err(options.wrong(name, "TLS beside it: kafka+ssl:// or security = \"tls\""));
            }
            std::fs::read(Path::new(path))
                .map_err(|error| options.wrong(name, &format!("a readable file, found {path:?}")).because(error))?;
        }
        let security = Self { tls, sasl, ca_file, identity };
        security.built_in(config)?;
        Ok(security)
    }

    /// # Errors
    /// `Config` when it needs what this program was built without.
    fn built_in(&self, config: &BrokerConfig) -> Result<()> {
        let what = match &self.sasl {
            _ if HAS_TLS => return Ok(()),
            _ if self.tls => "TLS".to_owned(),
            Some((mechanism, _)) if *mechanism != Mechanism::Plain => mechanism.to_string(),
            _ => return Ok(()),
        };
        let text = format!(
            "the broker {}: {what} needs the feature \"kafka-tls\", which this program was built without; build it with \
             --features kafka-tls (with libssl-dev and pkg-config)",
            config.shown()
        );
        Err(Error::new(ErrorKind::Config, text))
    }

    /// Whether a password travels readable.
    pub(super) fn shows_the_password(&self) -> bool {
        !self.tls && matches!(self.sasl, Some((Mechanism::Plain, _)))
    }

    /// The same as librdkafka is told.
    pub(super) fn tell(&self, native: &mut ClientConfig) {
        let protocol = match (self.tls, self.sasl.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        native.set("security.protocol", protocol);
        if let Some((mechanism, login)) = &self.sasl {
            native.set("sasl.mechanism", mechanism.to_string());
            native.set("sasl.username", &login.user);
            native.set("sasl.password", login.password.reveal());
        }
        if !self.tls {
            return;
        }
        native.set("enable.ssl.certificate.verification", "true");
        native.set("ssl.endpoint.identification.algorithm", "https");
        if let Some(file) = &self.ca_file {
            native.set("ssl.ca.location", file);
        }
        if let Some(identity) = &self.identity {
            native.set("ssl.certificate.location", &identity.certificates);
            native.set("ssl.key.location", &identity.key);
            if let Some(password) = &identity.password {
                native.set("ssl.key.password", password.reveal());
            }
        }
    }
}

fn login(options: &Options<'_>, in_url: Option<Login>) -> Result<Option<Login>> {
    match (options.text("user")?, options.secret("password")?, in_url) {
        (None, None, login) => Ok(login),
        (Some(user), Some(password), None) => Ok(Some(Login { user, password })),
        _ => Err(options.wrong("user", "user and password together, as options or in the URL")),
    }
}

fn sasl(options: &Options<'_>, login: Option<Login>, tls: bool) -> Result<Option<(Mechanism, Login)>> {
    let expected = "plain, scram-sha-256 or scram-sha-512";
    let mechanism = match options.text("sasl")?.map(|text| text.to_ascii_lowercase()).as_deref() {
        None => None,
        Some("plain") => Some(Mechanism::Plain),
        Some("scram-sha-256") => Some(Mechanism::ScramSha256),
        Some("scram-sha-512") => Some(Mechanism::ScramSha512),
        Some(_) => return Err(options.wrong("sasl", expected)),
    };
    match (mechanism, login) {
        (None, None) => Ok(None),
        (Some(mechanism), Some(login)) => Ok(Some((mechanism, login))),
        (None, Some(login)) if tls => Ok(Some((Mechanism::Plain, login))),
        // Nobody sends a password readable without having said so.
        (None, Some(_)) => Err(options.wrong("sasl", expected)),
        (Some(_), None) => Err(options.wrong("user", "user and password, which the option sasl asks for")),
    }
}

fn identity(options: &Options<'_>) -> Result<Option<Identity>> {
    let password = options.secret("client_key_password")?;
    match (options.text("client_cert_file")?, options.text("client_key_file")?) {
        (None, None) if password.is_none() => Ok(None),
        (Some(certificates), Some(key)) => Ok(Some(Identity { certificates, key, password })),
        _ => Err(options.wrong("client_cert_file", "client_cert_file and client_key_file together")),
    }
}
