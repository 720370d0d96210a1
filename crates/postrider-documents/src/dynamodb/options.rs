//! How to reach the table.

use std::fmt;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use url::Url;

const SHAPE: &str = "expected dynamodb://table?region=eu-west-1";
const KNOWN: &str = "known options: region, endpoint, timeout";
const TABLE: &str = "expected the table to have 3 to 255 letters of ASCII, digits, '.', '-' or '_'";
const REGION: &str = "expected region to be as eu-west-1, in the URL or in AWS_REGION";
const ENDPOINT: &str = "expected endpoint to be https://host:port without a path or credentials";

/// What to open.
#[derive(Clone)]
pub struct DynamoOptions {
    pub(super) table: String,
    pub(super) region: String,
    pub(super) endpoint: String,
    pub(super) timeout: Duration,
    /// The variables that are for the service.
    pub(super) variables: Vec<(String, String)>,
}

impl fmt::Debug for DynamoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoOptions")
            .field("table", &self.table)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl DynamoOptions {
    /// The options of a URL, with the variables of an environment, of which those that begin with `AWS_` are taken.
    ///
    /// # Errors
    /// `Config` when the URL cannot be read, has an unknown option, or names no region where the variables name none.
    pub fn new(url: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "dynamodb").ok_or_else(|| refused(SHAPE))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("credentials do not stand in it; expected them in the variables AWS_"));
        }
        if url.port().is_some() || url.fragment().is_some() || !matches!(url.path(), "" | "/") {
            return Err(refused(SHAPE));
        }
        let table = url.host_str().filter(|table| !table.is_empty()).ok_or_else(|| refused(SHAPE))?;
        let variables: Vec<(String, String)> =
            variables.into_iter().filter(|(name, _)| name.starts_with("AWS_")).collect();
        let (mut region, mut endpoint, mut timeout) = (None, None, 10);
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" => region = Some(value.into_owned()),
                "endpoint" => endpoint = Some(value.into_owned()),
                "timeout" => timeout = seconds(&value)?,
                _ => return Err(refused(KNOWN)),
            }
        }
        let said = |names: [&str; 2]| names.iter().find_map(|name| variable(&variables, name));
        let region = located(region.or_else(|| said(["AWS_REGION", "AWS_DEFAULT_REGION"])))?;
        let endpoint = match endpoint.or_else(|| said(["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"])) {
            Some(endpoint) => reachable(&endpoint)?,
            None => own(&region),
        };
        Ok(Self { table: named(table)?, region, endpoint, timeout: Duration::from_secs(timeout), variables })
    }

    /// The table and where it is, for messages.
    pub(super) fn shown(&self) -> String {
        let at = if self.endpoint == own(&self.region) { String::new() } else { format!(" at {}", self.endpoint) };
        format!("dynamodb://{} in {}{at}", self.table, self.region)
    }
}

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the documents in DynamoDB cannot be read: {expected}"))
}

fn variable(variables: &[(String, String)], name: &str) -> Option<String> {
    variables.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.clone())
}

fn named(table: &str) -> Result<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_name = (3..=255).contains(&table.len()) && table.chars().all(part);
    is_name.then(|| table.to_owned()).ok_or_else(|| refused(TABLE))
}

/// The region, which stands in the name of a host and in signatures.
fn located(region: Option<String>) -> Result<String> {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let read = region.filter(|region| (1..=40).contains(&region.len()) && region.chars().all(part));
    read.ok_or_else(|| refused(REGION))
}

/// Where the service is in a region.
fn own(region: &str) -> String {
    let domain = match region.split_once('-') {
        Some(("cn", _)) => "amazonaws.com.cn",
        Some(("eusc", _)) => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("https://dynamodb.{region}.{domain}")
}

fn reachable(value: &str) -> Result<String> {
    let is_read = Url::parse(value).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    });
    is_read.then(|| value.trim_end_matches('/').to_owned()).ok_or_else(|| refused(ENDPOINT))
}

fn seconds(value: &str) -> Result<u64> {
    let seconds = value.parse().ok().filter(|seconds| (1..=600).contains(seconds));
    seconds.ok_or_else(|| refused("expected timeout to be 1 to 600 seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<const N: usize>(variables: [(&str, &str); N]) -> [(String, String); N] {
        variables.map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    #[test]
    fn a_url_says_where_and_the_environment_who() {
        let secret = variables([("AWS_SECRET_ACCESS_KEY", "hunter2"), ("PATH", "hunter2")]);
        let url = "dynamodb://Shop_1.Documents?region=eu-west-1&endpoint=http://127.0.0.1:9/&timeout=3";
        let options = DynamoOptions::new(url, secret).unwrap();
        assert_eq!((&*options.table, &*options.region), ("Shop_1.Documents", "eu-west-1"));
        assert_eq!(options.shown(), "dynamodb://Shop_1.Documents in eu-west-1 at http://127.0.0.1:9");
        assert_eq!((options.timeout, options.variables.len()), (Duration::from_secs(3), 1));
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn what_the_url_does_not_say_the_environment_says() {
        let told = variables([("AWS_DEFAULT_REGION", "cn-north-1"), ("AWS_REGION", "")]);
        let options = DynamoOptions::new("dynamodb://shop/", told).unwrap();
        assert_eq!(options.endpoint, "https://dynamodb.cn-north-1.amazonaws.com.cn");
        assert_eq!(options.shown(), "dynamodb://shop in cn-north-1");
        let told = variables([
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:2"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ]);
        let options = DynamoOptions::new("dynamodb://shop", told.clone()).unwrap();
        assert_eq!((&*options.region, &*options.endpoint), ("eu-west-1", "http://127.0.0.1:2"));
        let options = DynamoOptions::new("dynamodb://shop?endpoint=http://127.0.0.1:3&region=us-west-2", told).unwrap();
        assert_eq!((&*options.region, &*options.endpoint), ("us-west-2", "http://127.0.0.1:3"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_expected() {
        for (url, expected) in [
            ("dynamodb:", "dynamodb://table"),
            ("s3://hunter2", "dynamodb://table"),
            ("dynamodb://shop/hunter2?region=eu-west-1", "dynamodb://table"),
            ("dynamodb://hunter2:hunter2@shop?region=eu-west-1", "AWS_"),
            ("dynamodb://hunter2%20?region=eu-west-1", "3 to 255"),
            ("dynamodb://hu?region=eu-west-1", "3 to 255"),
            ("dynamodb://shop", "AWS_REGION"),
            ("dynamodb://shop?region=hunter2.example", "as eu-west-1"),
            ("dynamodb://shop?hunter2=1", "known options: region"),
            ("dynamodb://shop?region=eu-west-1&endpoint=hunter2", "https://host:port"),
            ("dynamodb://shop?region=eu-west-1&endpoint=https://hunter2@host", "credentials"),
            ("dynamodb://shop?region=eu-west-1&endpoint=https://host/hunter2", "without a path"),
            ("dynamodb://shop?region=eu-west-1&timeout=0", "1 to 600"),
        ] {
            let error = DynamoOptions::new(url, []).unwrap_err();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
