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

/// A kind of store that exists, built into this program or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The cargo feature that builds it; in the library it is called `store-` and this.
    pub feature: &'static str,
    /// The schemes of its URLs.
    pub schemes: &'static [&'static str],
}

impl Kind {
    /// Whether this program was built with it.
    pub fn is_built_in(&self) -> bool {
        BACKENDS.iter().any(|backend| backend.schemes.iter().any(|scheme| self.schemes.contains(scheme)))
    }
}

/// Every kind of store that a URL can name, built into this program or not.
pub const KINDS: &[Kind] = &[
    Kind { feature: "sqlite", schemes: &["sqlite"] },
    Kind { feature: "postgres", schemes: &["postgres", "postgresql"] },
    Kind { feature: "mysql", schemes: &["mysql", "mariadb"] },
];

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

/// The store of a URL.
fn backend(url: &str) -> Result<&'static Backend> {
    find(BACKENDS, url)
}

/// The kind of store of a URL, built in or not.
///
/// # Errors
/// `Config` when there is no store of the scheme.
pub fn kind(url: &str) -> Result<&'static Kind> {
    kind_beside(BACKENDS, url)
}

/// The store of a URL among those that are built in.
fn find<'a>(built_in: &'a [Backend], url: &str) -> Result<&'a Backend> {
    let scheme = scheme(url);
    if let Some(backend) = built_in.iter().find(|backend| backend.schemes.contains(&scheme)) {
        return Ok(backend);
    }
    let feature = kind_beside(built_in, url)?.feature;
    let known = known(built_in);
    let text = format!(
        "stores of the scheme {scheme:?} need the feature {feature:?}, which this program was built without (built in: \
         {known}); build it with --features {feature}"
    );
    Err(Error::new(ErrorKind::Config, text))
}

fn kind_beside(built_in: &[Backend], url: &str) -> Result<&'static Kind> {
    let (scheme, known) = (scheme(url), known(built_in));
    KINDS.iter().find(|kind| kind.schemes.contains(&scheme)).ok_or_else(|| {
        let text = if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
            format!("the store's URL has no scheme; expected one such as sqlite:///path/app.db (built in: {known})")
        } else {
            format!("there is no store of the scheme {scheme:?}{} (built in: {known})", meant(scheme))
        };
        Error::new(ErrorKind::Config, text)
    })
}

/// What of a URL may be shown: the rest may hold a password.
fn scheme(url: &str) -> &str {
    url.split_once(':').map_or("", |(scheme, _)| scheme)
}

/// The schemes of these, in a sentence.
fn known(built_in: &[Backend]) -> String {
    let known: Vec<&str> = built_in.iter().flat_map(|backend| backend.schemes).copied().collect();
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// The scheme that this is a slip of, built in or not.
fn meant(scheme: &str) -> String {
    let apart = |known: &&str| strsim::damerau_levenshtein(known, scheme);
    let nearest = KINDS.iter().flat_map(|kind| kind.schemes).copied().min_by_key(apart);
    nearest.filter(|known| apart(known) <= 2).map(|known| format!("; did you mean {known}:?")).unwrap_or_default()
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

    #[test]
    fn a_mistyped_scheme_is_answered_with_the_one_that_was_meant() {
        for (typed, meant) in [("postgress", "postgres"), ("sqllite", "sqlite"), ("myqsl", "mysql"), ("cassandra", "")]
        {
            let text = backend(&format!("{typed}://user:hush@host/db")).unwrap_err().to_string();
            assert!(!text.contains("hush"), "{text}");
            let said = text.split_once("did you mean ").map_or("", |(_, said)| said);
            assert_eq!(said.split_once(":?").map_or("", |(scheme, _)| scheme), meant, "{text}");
        }
    }

    /// The same program, built without any store.
    #[test]
    fn a_store_that_is_not_built_in_names_its_feature() {
        for kind in KINDS {
            for scheme in kind.schemes {
                let text = find(&[], &format!("{scheme}://user:hush@host/db")).unwrap_err().to_string();
                assert!(text.contains(&format!("need the feature {:?}", kind.feature)), "{text}");
                assert!(text.contains(&format!("--features {}", kind.feature)) && !text.contains("hush"), "{text}");
            }
        }
    }

    /// With a feature the scheme leads to its store, without it to the name of the feature.
    #[test]
    fn a_kind_is_found_by_its_scheme_where_it_is_built_in() {
        for kind in KINDS {
            for scheme in kind.schemes {
                assert_eq!(backend(&format!("{scheme}://host/db")).is_ok(), kind.is_built_in(), "{scheme}");
            }
        }
        assert_eq!(KINDS.iter().filter(|kind| kind.is_built_in()).count(), BACKENDS.len());
        for (feature, is_on) in [
            ("sqlite", cfg!(feature = "sqlite")),
            ("postgres", cfg!(feature = "postgres")),
            ("mysql", cfg!(feature = "mysql")),
        ] {
            let kind = KINDS.iter().find(|kind| kind.feature == feature).unwrap();
            assert_eq!(kind.is_built_in(), is_on, "{feature}");
        }
    }

    #[test]
    fn a_setting_nobody_knows_is_refused() {
        let options =
            StoreOptions { settings: [("prefx".to_owned(), String::new())].into(), ..StoreOptions::default() };
        assert!(options.known(&["prefix"]).unwrap_err().to_string().contains("prefix"));
    }
}
