//! What the configuration of an HTTP broker says.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{Error, ErrorKind, Result, Secret};
use url::{Host, Url};

use super::egress::{Egress, Guard, Network};
use super::signature::Signer;
use crate::config::BrokerConfig;
use crate::options::Options;
use crate::tls;

/// The longest time that a connection may take.
const MAX_CONNECT: Duration = Duration::from_secs(5);

/// The settings of one HTTP broker.
pub(super) struct Settings {
    /// The URL without credentials.
    pub(super) url: Url,
    /// The scheme, host and port: all of the URL that may stand in logs.
    pub(super) shown: String,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) concurrency: usize,
    pub(super) signer: Option<Signer>,
    /// The whole value of the `authorization` header.
    pub(super) authorization: Option<Secret>,
    pub(super) guard: Guard,
    pub(super) tls: rustls::ClientConfig,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("url", &self.shown)
            .field("timeout", &self.timeout)
            .field("concurrency", &self.concurrency)
            .field("signer", &self.signer)
            .field("authorization", &self.authorization)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub(super) fn parse(config: &BrokerConfig) -> Result<Self> {
        let options = Options::new(config);
        let (url, basic) = url(config)?;
        let host = url.host().ok_or_else(|| bad_url(config))?;
        let shown = url.origin().ascii_serialization();
        let timeout = options.duration(
            "timeout",
            Duration::from_secs(10),
            Duration::from_millis(100)..=Duration::from_secs(300),
        )?;
        let concurrency = options.number("concurrency", 16, 1..=256)?;
        let signer = match options.secrets("secret")? {
            None => None,
            Some(secret) => Some(Signer::parse(&secret).ok_or_else(|| {
                options.wrong(
                    "secret",
                    "one to four times whsec_ and base64 of 24 to 64 bytes, the newest first, none twice",
                )
            })?),
        };
        let bearer = options.secret("token")?.map(|token| Secret::new(format!("Bearer {}", token.reveal())));
        if bearer.is_some() && basic.is_some() {
            return Err(options.wrong("token", "no token beside the user and password of the URL"));
        }
        let guard = Guard::new(egress(&options)?, &host);
        if let Some(address) = literal(&host) {
            guard
                .admit(address)
                .map_err(|refused| Error::new(ErrorKind::Config, format!("the broker {shown}")).because(refused))?;
        }
        let ca_file = options.text("ca_file")?;
        options.finish()?;
        let tls = match url.scheme() {
            // A machine without authorities must be able to speak plain HTTP.
            "http" => tls::trusting_nobody()?,
            _ => tls::verifying(ca_file.as_deref().map(Path::new), None)?,
        };
        let connect_timeout = MAX_CONNECT.min(timeout / 2);
        let authorization = bearer.or(basic);
        Ok(Self { url, shown, timeout, connect_timeout, concurrency, signer, authorization, guard, tls })
    }
}

/// The URL, and the user and password that stood in it as an `authorization` header.
fn url(config: &BrokerConfig) -> Result<(Url, Option<Secret>)> {
    let mut url = Url::parse(&config.url).map_err(|_| bad_url(config))?;
    let basic = match (url.username(), url.password()) {
        ("", None) => None,
        (user, password) => {
            let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            let (user, password) = (decode(user), decode(password.unwrap_or_default()));
            Some(Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))))
        }
    };
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    cleared.map_err(|()| bad_url(config))?;
    url.set_fragment(None);
    Ok((url, basic))
}

fn bad_url(config: &BrokerConfig) -> Error {
    let text = format!("the broker {:?}: expected a URL such as https://host/path", config.shown());
    Error::new(ErrorKind::Config, text)
}

fn literal(host: &Host<&str>) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
    }
}

fn egress(options: &Options<'_>) -> Result<Egress> {
    let texts = options.texts("egress")?.unwrap_or_default();
    if let [text] = texts.as_slice() {
        match text.as_str() {
            "any" => return Ok(Egress::Any),
            "public" => return Ok(Egress::Public(Vec::new())),
            _ => {}
        }
    }
    let networks: Option<Vec<Network>> = texts.iter().map(|text| Network::parse(text)).collect();
    networks.map(Egress::Public).ok_or_else(|| {
        options.wrong("egress", "\"public\", \"any\", or a list of addresses and networks such as \"10.0.0.0/8\"")
    })
}
