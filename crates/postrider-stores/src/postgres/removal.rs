//! Removing the tables with everything in them.

use postrider_core::{Error, ErrorKind, Result};

use super::classify::working;
use super::link::Link;
use super::options::PostgresOptions;

/// Tables first: the outbox has a default that calls a function. A function may have forms of earlier versions.
const REMOVE: &str = "\
do $removal$
declare
  form text;
begin
  perform set_config('lock_timeout', '10s', true);
  perform set_config('client_min_messages', 'warning', true);
  drop table if exists {outbox}, {lane}, {relay}, {boot}, {delivered}, {meta},
    {inbox}, {inbox_foreign}, {inbox_span}, {inbox_cursor}, {inbox_refused}, {inbox_token},
    {idempotency};
  for form in select p.oid::regprocedure::text
                from pg_proc p join pg_namespace n on n.oid = p.pronamespace
               where n.nspname = '<schema>' and p.proname in (
                 '<prefix>enqueue', '<prefix>uuid7', '<prefix>first_seen', '<prefix>begin_key', '<prefix>inbox_advance',
                 '<prefix>inbox_ahead', '<prefix>inbox_bound', '<prefix>inbox_floor', '<prefix>inbox_forget',
                 '<prefix>inbox_keep', '<prefix>inbox_partitions', '<prefix>issue_token', '<prefix>take_token',
                 '<prefix>release_key')
  loop
    execute 'drop function ' || form;
  end loop;
end $removal$";

/// Removes the tables and functions of an outbox with everything in them; harmless when there are none. What else
/// begins with the same prefix stays.
///
/// # Errors
/// `Config` for the prefix that an application's own outbox has by default: this is for tables made for a while.
/// `Unavailable` when the database is away or somebody keeps a table locked.
pub async fn remove(options: &PostgresOptions) -> Result<()> {
    let names = &options.names;
    let (schema, prefix) = (names.schema(), names.prefix());
    if prefix == super::Names::default().prefix() {
        let text = format!("the tables of the prefix {prefix:?} are not removed: they are an application's own");
        return Err(Error::new(ErrorKind::Config, text));
    }
    // Neither name can hold a quote.
    let script = names.fill(REMOVE).replace("<schema>", schema).replace("<prefix>", prefix);
    let mut link = Link::cold(options)?;
    link.script(&script).await?.map_err(|error| working("removing the tables", error))
}
