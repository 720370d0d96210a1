//! How to reach the service.

use std::fmt;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use url::Url;

use super::names::Place;

/// Which service a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// S3 and what speaks its protocol.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Google,
}

impl Service {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Azure => "azure",
            Self::Google => "gs",
        }
    }

    /// What the variables begin with that are for it.
    pub(super) const fn variables(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Azure => "AZURE_",
            Self::Google => "GOOGLE_",
        }
    }

    const fn shape(self) -> &'static str {
        match self {
            Self::S3 => "s3://bucket/prefix?region=eu-west-1",
            Self::Azure => "az://container/prefix?account=name",
            Self::Google => "gs://bucket/prefix",
        }
    }

    const fn known(self) -> &'static str {
        match self {
            Self::S3 => "known options: region, endpoint, timeout, tombstones",
            Self::Azure => "known options: account, endpoint, timeout, tombstones",
            Self::Google => "known options: endpoint, timeout, tombstones",
        }
    }
}

/// Whether a tombstone can be told by a lifecycle rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tombstones {
    /// It has no tag.
    Plain,
    /// It has the tag `postrider=tombstone`.
    Tagged,
}

/// What to open.
#[derive(Clone)]
pub struct ObjectOptions {
    pub(super) service: Service,
    pub(super) bucket: String,
    pub(super) place: Place,
    pub(super) region: Option<String>,
    pub(super) account: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) timeout: Duration,
    pub(super) tombstones: Tombstones,
    /// The variables that are for the service.
    pub(super) variables: Vec<(String, String)>,
}

impl fmt::Debug for ObjectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectOptions")
            .field("service", &self.service)
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl ObjectOptions {
    /// The options of a URL, with the variables of an environment, of which the service's own are taken.
    ///
    /// # Errors
    /// `Config` when the URL cannot be read or has an unknown option.
    pub fn new(url: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let unread = || refused("expected s3://bucket/prefix, az://container/prefix or gs://bucket/prefix");
        let url = Url::parse(url).map_err(|_| unread())?;
        let service = match url.scheme() {
            "s3" => Service::S3,
            "az" | "azure" => Service::Azure,
            "gs" => Service::Google,
            _ => return Err(unread()),
        };
        let bucket = url.host_str().filter(|bucket| !bucket.is_empty()).ok_or_else(|| expected(service))?.to_owned();
        if !url.username().is_empty() || url.password().is_some() {
            let text =
                format!("credentials do not stand in it; expected them in the variables {}", service.variables());
            return Err(refused(&text));
        }
        if url.port().is_some() || url.fragment().is_some() {
            return Err(expected(service));
        }
        let prefix = percent_encoding::percent_decode_str(url.path()).decode_utf8().map_err(|_| expected(service))?;
        let (mut region, mut account, mut endpoint, mut tombstones) = (None, None, None, Tombstones::Plain);
        let mut timeout = 10;
        for (name, value) in url.query_pairs() {
            match (&*name, service) {
                ("region", Service::S3) => region = Some(value.into_owned()),
                ("account", Service::Azure) => account = Some(value.into_owned()),
                ("endpoint", _) => endpoint = Some(reachable(&value)?),
                ("timeout", _) => timeout = seconds(&value)?,
                ("tombstones", _) => tombstones = told(&value, service)?,
                _ => return Err(refused(service.known())),
            }
        }
        let own = |(name, _): &(String, String)| name.starts_with(service.variables());
        let variables: Vec<(String, String)> = variables.into_iter().filter(own).collect();
        if let Some(name) = variables.iter().find_map(unfit) {
            let text = format!(
                "the variable {name} has a line break or another character that no credential has; set it without"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(Self {
            service,
            bucket,
            place: Place::below(&prefix)?,
            region,
            account,
            endpoint,
            timeout: Duration::from_secs(timeout),
            tombstones,
            variables,
        })
    }

    /// The service, the bucket and where it is reached, for messages.
    pub(super) fn shown(&self) -> String {
        let at = self.endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
        format!("{}://{}{at}", self.service.name(), self.bucket)
    }
}

/// The name of a credential that can't stand in a header, where the client would put it without a look.
fn unfit((name, value): &(String, String)) -> Option<&str> {
    let is_credential = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].contains(&name.as_str());
    (is_credential && value.bytes().any(|byte| !byte.is_ascii_graphic())).then_some(name)
}

fn refused(expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the URL of the documents in an object store cannot be read: {expected}"))
}

fn expected(service: Service) -> Error {
    refused(&format!("expected {}", service.shape()))
}

fn reachable(value: &str) -> Result<String> {
    let is_read = Url::parse(value).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty() && url.query().is_none()
    });
    let value = value.trim_end_matches('/').to_owned();
    is_read.then_some(value).ok_or_else(|| refused("expected endpoint to be https://host:port without credentials"))
}

fn seconds(value: &str) -> Result<u64> {
    let seconds = value.parse().ok().filter(|seconds| (1..=600).contains(seconds));
    seconds.ok_or_else(|| refused("expected timeout to be 1 to 600 seconds"))
}

fn told(value: &str, service: Service) -> Result<Tombstones> {
    match (value, service) {
        ("plain", _) => Ok(Tombstones::Plain),
        ("tagged", Service::Google) => {
            Err(refused("objects of Google Cloud Storage have no tags; expected tombstones=plain"))
        }
        ("tagged", _) => Ok(Tombstones::Tagged),
        _ => Err(refused("expected tombstones to be plain or tagged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> [(String, String); 3] {
        ["AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "PATH"]
            .map(|name| (name.to_owned(), "hunter2".to_owned()))
    }

    #[test]
    fn a_url_says_where_and_the_environment_who() {
        let url = "s3://shop/docs/of%20it?region=eu-west-1&endpoint=http://127.0.0.1:9/&timeout=3&tombstones=tagged";
        let options = ObjectOptions::new(url, variables()).unwrap();
        assert_eq!(
            (options.service, &*options.bucket, options.region.as_deref()),
            (Service::S3, "shop", Some("eu-west-1"))
        );
        assert_eq!(options.shown(), "s3://shop at http://127.0.0.1:9");
        assert_eq!((options.timeout, options.tombstones), (Duration::from_secs(3), Tombstones::Tagged));
        assert_eq!(options.variables.len(), 1);
        assert!(!format!("{options:?}").contains("hunter2"));
        for (url, service) in
            [("az://c", Service::Azure), ("azure://c/p", Service::Azure), ("gs://b/", Service::Google)]
        {
            assert_eq!(ObjectOptions::new(url, []).unwrap().service, service);
        }
    }

    #[test]
    fn a_credential_with_a_line_break_is_refused_by_its_name() {
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"] {
            let error = ObjectOptions::new("s3://shop", [(name.to_owned(), "hunter2\n".to_owned())]).unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == ErrorKind::Config && text.contains(name) && !text.contains("hunter2"), "{text}");
        }
        assert!(ObjectOptions::new("s3://shop", [("AWS_PROFILE".to_owned(), "a b".to_owned())]).is_ok());
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_expected() {
        for (url, expected) in [
            ("s3:", "s3://bucket"),
            ("s3://hunter2:hunter2@bucket", "AWS_"),
            ("az://container?hunter2=1", "known options: account"),
            ("gs://bucket?region=hunter2", "known options: endpoint"),
            ("s3://bucket?endpoint=hunter2", "https://host:port"),
            ("s3://bucket?endpoint=https://hunter2@host", "without credentials"),
            ("s3://bucket?timeout=0", "1 to 600"),
            ("s3://bucket?tombstones=hunter2", "plain or tagged"),
            ("gs://bucket?tombstones=tagged", "plain"),
            ("s3://bucket//hunter2", "single '/'"),
            ("file:///tmp/hunter2", "az://container"),
        ] {
            let error = ObjectOptions::new(url, []).unwrap_err();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
