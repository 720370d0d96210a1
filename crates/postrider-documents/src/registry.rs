//! The list of backends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use postrider_core::{DocumentStore, Error, ErrorKind, Result};

/// A store that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn DocumentStore>>> + Send>>;

/// How a backend is opened.
pub type Open = fn(&str) -> Opening;

/// One backend: the schemes that choose it, its feature, and how it is opened.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The URL schemes, lower case.
    pub schemes: &'static [&'static str],
    /// The cargo feature that builds it.
    pub feature: &'static str,
    /// Opens it; none when this program was built without it.
    pub open: Option<Open>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("schemes", &self.schemes).field("feature", &self.feature).finish()
    }
}

macro_rules! backend {
    ($feature:literal, $module:ident, $schemes:expr) => {
        Backend {
            schemes: $schemes,
            feature: $feature,
            #[cfg(feature = $feature)]
            open: Some(|url| {
                let url = url.to_owned();
                Box::pin(async move { crate::$module::open(&url).await })
            }),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
}

static BACKENDS: &[Backend] = &[
    backend!("dynamodb", dynamodb, &["dynamodb"]),
    backend!("memory", memory, &["memory"]),
    backend!("objects", objects, &["s3", "az", "azure", "gs"]),
    backend!("postgres", postgres, &["postgres", "postgresql"]),
    backend!("redis", redis, &["redis", "rediss"]),
    backend!("sqlite", sqlite, &["sqlite"]),
];

/// Every backend that exists, built into this program or not.
pub fn backends() -> &'static [Backend] {
    BACKENDS
}

/// Opens the store of a URL.
///
/// # Errors
/// `Config` when no backend has the scheme, when its feature is not built in, or when an option is unknown or has a bad
/// value; what else opening it may give is the backend's to say.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    opener(BACKENDS, url)?(url).await
}

fn opener(backends: &[Backend], url: &str) -> Result<Open> {
    // What stands behind the scheme may hold a password.
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme).to_ascii_lowercase();
    let Some(backend) = backends.iter().find(|backend| backend.schemes.contains(&scheme.as_str())) else {
        return Err(unknown_scheme(backends, &scheme));
    };
    let feature = backend.feature;
    backend.open.ok_or_else(|| {
        let text = format!(
            "a store of documents at {scheme}: needs the feature {feature:?}, which this program was built without; build \
             it with --features {feature}"
        );
        Error::new(ErrorKind::Config, text)
    })
}

fn unknown_scheme(backends: &[Backend], scheme: &str) -> Error {
    if scheme == "file" {
        let text = "documents are not kept in files, which have no conditional write; on this machine keep them in SQLite, sqlite:///path/to/file.db";
        return Error::new(ErrorKind::Config, text);
    }
    let known: Vec<&str> = backends.iter().flat_map(|backend| backend.schemes).copied().collect();
    let nearest = known.iter().min_by_key(|known| strsim::damerau_levenshtein(known, scheme));
    let meant = nearest.filter(|known| strsim::damerau_levenshtein(known, scheme) <= 2);
    let meant = meant.map(|known| format!("; did you mean {known}:?")).unwrap_or_default();
    let shown: String = scheme.chars().take(20).collect();
    let text = format!("no store of documents has the scheme {shown:?}{meant}; known schemes: {}:", known.join(":, "));
    Error::new(ErrorKind::Config, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_names_the_nearest_and_all_known_ones_and_nothing_behind_it() {
        let error = opener(BACKENDS, "memori://user:canary@host").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains("did you mean memory:?") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn files_are_refused_with_what_to_use_for_them() {
        let error = opener(BACKENDS, "file:///canary").unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            text.contains("no conditional write") && text.contains("sqlite:") && !text.contains("canary"),
            "{text}"
        );
    }

    #[test]
    fn a_store_that_is_not_built_in_names_its_feature() {
        for backend in BACKENDS {
            for scheme in backend.schemes {
                let without = [Backend { open: None, ..*backend }];
                let text = opener(&without, &format!("{scheme}://user:canary@host")).unwrap_err().to_string();
                assert!(
                    text.contains(&format!("--features {}", backend.feature)) && !text.contains("canary"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn no_scheme_belongs_to_two_backends() {
        let mut seen: Vec<&str> = backends().iter().flat_map(|backend| backend.schemes).copied().collect();
        seen.sort_unstable();
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
