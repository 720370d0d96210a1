//! Which stores are compiled in, by the scheme of their URL.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result, Store};

use crate::History;

/// What a store is told beside its URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreOptions {
    /// Whether delivered messages are kept; off by default.
    pub history: History,
    /// How long a statement waits for a lock before it gives up and the error says who holds it. None, the default of a
    /// relay: as long as a statement may take. SQLite waits 5 s for the file either way.
    pub lock_wait: Option<Duration>,
    /// What one backend alone understands, such as `prefix`; a name it does not know is refused.
    pub settings: BTreeMap<String, String>,
}

impl StoreOptions {
    /// The settings by name, when `known` has them all.
    ///
    /// # Errors
    /// `Config` for a name that is not among them.
    pub fn known(&self, known: &[&str]) -> Result<&BTreeMap<String, String>> {
        match self.settings.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(&self.settings),
            Some(name) => Err(Error::new(
                ErrorKind::Config,
                format!("the store does not know the setting {name:?}; it knows {}", known.join(", ")),
            )),
        }
    }
}

/// What a migration is told beside the store's URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigrateOptions {
    /// The options of the store.
    pub store: StoreOptions,
    /// The number of lanes, fixed when the outbox is created; none means the backend's default, or what is there.
    pub lanes: Option<LaneCount>,
}

/// A future of a backend's function.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// One kind of store: its line in the registry.
#[derive(Clone, Copy)]
pub struct Backend {
    /// The schemes of its URLs, such as `sqlite`.
    pub schemes: &'static [&'static str],
    /// Opens an outbox.
    pub open: for<'a> fn(&'a str, &'a StoreOptions) -> Pending<'a, Arc<dyn Store>>,
    /// Creates or updates its tables; harmless when nothing is to do.
    pub migrate: for<'a> fn(&'a str, &'a MigrateOptions) -> Pending<'a, ()>,
    /// Removes the tables of a prefix that is not the default one, with everything in them.
    pub remove: for<'a> fn(&'a str, &'a StoreOptions) -> Pending<'a, ()>,
    /// The statements that [`migrate`](Self::migrate) runs on an empty database.
    pub ddl: fn(&MigrateOptions) -> Result<String>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("schemes", &self.schemes).finish_non_exhaustive()
    }
}

/// The stores that are compiled in.
pub const BACKENDS: &[Backend] = &[
    #[cfg(feature = "mysql")]
    crate::mysql::BACKEND,
    #[cfg(feature = "postgres")]
    crate::postgres::BACKEND,
    #[cfg(feature = "sqlite")]
    crate::sqlite::BACKEND,
];

/// Every scheme there is and the feature it needs.
const FEATURES: &[(&str, &str)] = &[("sqlite", "sqlite"), ("postgres", "postgres"), ("postgresql", "postgres")];

/// Schemes of databases that people look for and no store of the binary has.
const NOT_YET: &[&str] = &["mariadb", "mysql"];

/// Opens the outbox that a URL names.
///
/// # Errors
/// `Config` when no compiled-in store has the scheme, or the store cannot be used as it is; `Unavailable` when it is
/// away.
pub async fn open(url: &str, options: &StoreOptions) -> Result<Arc<dyn Store>> {
    (backend(url)?.open)(url, options).await
}

/// Creates or updates the tables of the outbox that a URL names.
///
/// # Errors
/// As [`open`].
pub async fn migrate(url: &str, options: &MigrateOptions) -> Result<()> {
    (backend(url)?.migrate)(url, options).await
}

/// Removes the tables of the outbox that a URL and a prefix name, with everything in them; harmless when there are none.
///
/// # Errors
/// As [`open`]; `Config` too for the default prefix, which an application's own outbox has.
pub async fn remove(url: &str, options: &StoreOptions) -> Result<()> {
    (backend(url)?.remove)(url, options).await
}

/// The statements that create the tables of the outbox that a URL names.
///
/// # Errors
/// `Config` when no compiled-in store has the scheme, or the options are not valid.
pub fn ddl(url: &str, options: &MigrateOptions) -> Result<String> {
    (backend(url)?.ddl)(options)
}

/// The store of a URL. Only the scheme of the URL is ever shown: the rest may hold a password.
fn backend(url: &str) -> Result<&'static Backend> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    if let Some(backend) = BACKENDS.iter().find(|backend| backend.schemes.contains(&scheme)) {
        return Ok(backend);
    }
    let compiled: Vec<&str> = BACKENDS.iter().flat_map(|backend| backend.schemes).copied().collect();
    let compiled = if compiled.is_empty() { "none".to_owned() } else { compiled.join(", ") };
    let text = match FEATURES.iter().find(|(known, _)| *known == scheme) {
        Some((_, feature)) => format!(
            "stores of the scheme {scheme:?} are not compiled in (compiled in: {compiled}); build with the feature \
             {feature:?}"
        ),
        None if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            format!("the store's URL has no scheme; expected one such as sqlite:///path/app.db (known: {compiled})")
        }
        None if NOT_YET.contains(&scheme) => {
            format!("stores of the scheme {scheme:?} are not supported yet (known: {compiled})")
        }
        None => format!("there is no store of the scheme {scheme:?} (compiled in: {compiled})"),
    };
    Err(Error::new(ErrorKind::Config, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheme_names_those_that_are_there_and_never_shows_the_url() {
        for url in ["mongodb://user:hush@host/db", "no scheme hush", "user:hush@host", "://hush"] {
            let text = backend(url).unwrap_err().to_string();
            assert!(!text.contains("hush"), "{text}");
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_store_that_is_not_compiled_in_names_its_feature() {
        let text = backend("postgresql://host/db").unwrap_err().to_string();
        assert!(text.contains("feature \"postgres\""), "{text}");
    }

    #[test]
    fn a_setting_nobody_knows_is_refused() {
        let options =
            StoreOptions { settings: [("prefx".to_owned(), String::new())].into(), ..StoreOptions::default() };
        assert!(options.known(&["prefix"]).unwrap_err().to_string().contains("prefix"));
    }
}
