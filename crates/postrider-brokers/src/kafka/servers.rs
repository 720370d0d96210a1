//! The servers of a URL, and the credentials in it.

use postrider_core::{Error, ErrorKind, Result, Secret};
use url::Url;

use crate::config::BrokerConfig;

/// Where Kafka listens when nothing else is said.
const PORT: u16 = 9092;

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
}

/// The servers without credentials, as `host:port` parted by commas, and the credentials of the first that has some.
///
/// # Errors
/// `Config` when the URL names no servers.
pub(super) fn parse(config: &BrokerConfig) -> Result<(String, Option<Login>)> {
    let bad = || {
        let text = format!("the broker {:?}: expected servers such as kafka://host:9092,host2", config.shown());
        Error::new(ErrorKind::Config, text)
    };
    let text = config.url.split(['?', '#']).next().unwrap_or_default();
    let (_, text) = text.split_once("://").ok_or_else(bad)?;
    let (mut servers, mut login) = (Vec::new(), None);
    for server in text.split(',') {
        let url = Url::parse(&format!("kafka://{server}")).map_err(|_| bad())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(bad)?;
        if !matches!(url.path(), "" | "/") {
            return Err(bad());
        }
        servers.push(format!("{host}:{}", url.port().unwrap_or(PORT)));
        if login.is_none() && !url.username().is_empty() {
            let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            let password = Secret::new(decode(url.password().unwrap_or_default()));
            login = Some(Login { user: decode(url.username()), password });
        }
    }
    Ok((servers.join(","), login))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_credentials_are_told_apart() {
        let (servers, login) = parse(&BrokerConfig::new("kafka://us%40er:can%2Bary@a:1,b,[::1]:3?x=y")).unwrap();
        assert_eq!(servers, "a:1,b:9092,[::1]:3");
        let login = login.unwrap();
        assert_eq!((login.user.as_str(), login.password.reveal()), ("us@er", "can+ary"));
        assert!(!format!("{login:?}").contains("ary"));
        assert_eq!(parse(&BrokerConfig::new("kafka://a")).unwrap(), ("a:9092".to_owned(), None));
    }

    #[test]
    fn a_url_without_servers_is_refused_without_its_credentials() {
        for bad in ["kafka:", "kafka://", "kafka://a,,b", "kafka://u:canary@a/topic", "kafka:a:9092", "kafka://a:port"]
        {
            let error = parse(&BrokerConfig::new(bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{bad}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}
