//! Opening stores and brokers as the configuration says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::BrokerConfig;
use postrider_core::{Archive, Broker, Operator, Secret, Store};
use postrider_stores::{History, MigrateOptions, StoreOptions};

use crate::config::{BrokerSection, Config};
use crate::failure::{Failure, Outcome};

/// How long a verb waits for a lock: whoever typed it is told who holds it instead.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The address of the outbox.
pub(crate) fn store_url(config: &Config) -> Outcome<&str> {
    config.outbox.store.as_ref().map(Secret::reveal).ok_or_else(|| {
        Failure::usage(
            "no outbox is named",
            "say where messages wait: --config FILE (the relay's own, such as /etc/postrider.toml), --store URL, \
             POSTRIDER_OUTBOX__STORE, or store under [outbox] in postrider.toml",
        )
    })
}

/// Opens the outbox for a relay, once.
pub(crate) async fn open(config: &Config) -> postrider_core::Result<Arc<dyn Store>> {
    opened(config, &store_options(config)).await
}

/// Opens the outbox for somebody who waits for the answer, once.
pub(crate) async fn open_promptly(config: &Config) -> postrider_core::Result<Arc<dyn Store>> {
    opened(config, &prompt_options(config)).await
}

async fn opened(config: &Config, options: &StoreOptions) -> postrider_core::Result<Arc<dyn Store>> {
    let url = config.outbox.store.as_ref().map_or("", Secret::reveal);
    let opening = postrider_stores::open(url, options);
    #[cfg(feature = "failpoints")]
    let opening = async { crate::failpoints::step("open", opening).await.map(crate::failpoints::store) };
    opening.await
}

/// The options of the outbox's store.
pub(crate) fn store_options(config: &Config) -> StoreOptions {
    let outbox = &config.outbox;
    let named = [("schema", &outbox.schema), ("prefix", &outbox.prefix), ("pooling", &outbox.pooling)];
    let settings = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
    let history = if outbox.history.is_some() { History::Kept } else { History::Off };
    StoreOptions { history, settings, ..StoreOptions::default() }
}

/// The same for somebody who waits for the answer.
fn prompt_options(config: &Config) -> StoreOptions {
    StoreOptions { lock_wait: Some(LOCK_WAIT), ..store_options(config) }
}

fn migrate_options(config: &Config) -> MigrateOptions {
    MigrateOptions { store: prompt_options(config), lanes: config.outbox.lanes }
}

/// That `outbox.lanes`, where it is set, is the number that the tables have.
pub(crate) fn agree_on_lanes(config: &Config, store: &dyn Store) -> Outcome<()> {
    postrider_stores::agree_on_lanes(store.profile().lanes, config.outbox.lanes).map_err(|error| Failure::store(&error))
}

/// The operator's side of the outbox.
pub(crate) async fn operator(config: &Config) -> Outcome<Box<dyn Operator>> {
    store_url(config)?;
    let store = open_promptly(config).await.map_err(|error| Failure::store(&error))?;
    store.operator().await.map_err(|error| Failure::store(&error))
}

/// The SQL of new tables.
pub(crate) fn ddl(config: &Config) -> Outcome<String> {
    postrider_stores::ddl(store_url(config)?, &migrate_options(config)).map_err(|error| Failure::store(&error))
}

/// The SQL of the roles; only PostgreSQL has some.
pub(crate) fn roles(config: &Config) -> Outcome<String> {
    let scheme = store_url(config)?.split(':').next().unwrap_or_default();
    if !matches!(scheme, "postgres" | "postgresql") {
        let next = "`postrider check` names each right that the relay's user lacks, with its grant; who may write a file is said \
                    by its permissions";
        return Err(Failure::usage(format!("a {scheme} outbox has no roles"), next));
    }
    postgres_roles(config)
}

#[cfg(feature = "postgres")]
fn postgres_roles(config: &Config) -> Outcome<String> {
    use postrider_stores::postgres::{Names, roles};
    let default = Names::default();
    let schema = config.outbox.schema.as_deref().unwrap_or(default.schema());
    let prefix = config.outbox.prefix.as_deref().unwrap_or(default.prefix());
    Names::new(schema, prefix).map(|names| roles(&names)).map_err(|error| Failure::store(&error))
}

#[cfg(not(feature = "postgres"))]
fn postgres_roles(_config: &Config) -> Outcome<String> {
    Err(Failure::usage("this postrider has no PostgreSQL", "build it with --features postgres"))
}

/// What a migration would have to do, in words; none when the tables are up to date.
pub(crate) async fn outstanding(config: &Config) -> Outcome<Option<String>> {
    store_url(config)?;
    match open_promptly(config).await {
        Ok(store) => agree_on_lanes(config, &*store).map(|()| None),
        Err(error) => {
            let failure = Failure::store(&error);
            if failure.is_for_migrate() { Ok(Some(failure.what)) } else { Err(failure) }
        }
    }
}

/// Creates or upgrades the tables; what is there then, in words.
pub(crate) async fn migrate(config: &Config) -> Outcome<String> {
    let (url, options) = (store_url(config)?, migrate_options(config));
    let found = match outstanding(config).await {
        Ok(None) => "the tables are up to date",
        _ => "the tables were made or brought up to date",
    };
    let migration = postrider_stores::migrate(url, &options);
    #[cfg(feature = "failpoints")]
    let migration = crate::failpoints::step("migrate", migration);
    migration.await.map_err(|error| Failure::store(&error))?;
    let store = open_promptly(config).await.map_err(|error| Failure::store(&error))?;
    let profile = store.profile();
    Ok(format!("{found}: {}, {} lanes", profile.name, profile.lanes.get()))
}

/// The archive of what retention removes, if there is one; nothing is written yet.
pub(crate) fn archive(config: &Config) -> Outcome<Option<Arc<dyn Archive>>> {
    config.archive.as_deref().map(archive_at).transpose()
}

/// Opens the archive as a relay does, if there is one, and writes nothing; whether there is one.
pub(crate) async fn try_archive(config: &Config) -> Outcome<bool> {
    let (Some(url), Some(_)) = (&config.archive, archive(config)?) else { return Ok(false) };
    // Without its options: a rotation that is due may remove the oldest files, and this is no time for that.
    let file = url.split(['?', '#']).next().unwrap_or_default();
    archive_at(file)?.keep(&[]).await.map_err(|error| Failure::archive(&error))?;
    Ok(true)
}

#[cfg(feature = "file")]
fn archive_at(url: &str) -> Outcome<Arc<dyn Archive>> {
    let archive = postrider_brokers::file::ArchiveFile::at(url).map_err(|error| {
        Failure::usage(
            crate::failure::one_line(&format!("retention.archive: {}", error.story())),
            "write file:PATH, with options in the query such as file:archive.jsonl?rotate_size=64MiB",
        )
    })?;
    Ok(Arc::new(archive))
}

#[cfg(not(feature = "file"))]
fn archive_at(_url: &str) -> Outcome<Arc<dyn Archive>> {
    Err(Failure::usage("this postrider was built without files to archive to", "build it with --features file"))
}

/// Opens a broker; nothing is sent.
pub(crate) fn broker(section: &BrokerSection) -> Outcome<Arc<dyn Broker>> {
    let mut broker = BrokerConfig::new(section.url.reveal());
    for (name, value) in &section.options {
        let value = serde_json::to_value(value).unwrap_or_default();
        broker = broker.option(name.clone(), value);
    }
    let opened = postrider_brokers::open(&broker);
    #[cfg(feature = "failpoints")]
    let opened = opened.map(crate::failpoints::broker);
    opened.map_err(|error| {
        let failure = Failure::broker(&error);
        Failure { what: format!("broker.{}: {}", section.name, failure.what), ..failure }
    })
}

/// The brokers that routes and dead letters lead to, by name; nothing is sent.
pub(crate) fn brokers(config: &Config) -> Outcome<BTreeMap<String, Arc<dyn Broker>>> {
    let routed = config.routes.iter().map(|route| &route.broker);
    let named: BTreeSet<&String> = routed.chain(config.forward.iter().map(|forward| &forward.broker)).collect();
    let sections = config.brokers.iter().filter(|section| named.contains(&section.name));
    sections.map(|section| Ok((section.name.clone(), broker(section)?))).collect()
}
