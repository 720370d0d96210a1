//! Who holds the lock that a statement waited for in vain.

use postrider_core::{Error, ErrorKind};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::Names;
use super::link::Parameter;

/// The tables that a statement of the operator touches.
pub(super) const TABLES: [&str; 6] = ["outbox", "lane", "relay", "boot", "delivered", "meta"];

/// How much of a statement is shown.
const SHOWN: usize = 80;

/// From the locks that keep readers or writers out, held or waited for, to those at the head who wait for nobody: a
/// statement queues behind a waiting lock too. A prepared transaction has no process; among blocking ones it is 0, and its
/// own lock on its transaction id says which it is. `$3`: every lock is in the way, because a migration wants the tables
/// for itself.
const HOLDERS: &str = "\
with recursive ours as materialized (
  select l.pid, l.virtualtransaction,
         l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') or $3 as strong
    from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
   where l.locktype = 'relation' and l.database = (select oid from pg_database where datname = current_database())
     and n.nspname = $1 and c.relname = any($2::text[])),
chain (pid) as (
  select pid from ours where strong and pid is not null
  union
  select b.pid from chain c cross join lateral unnest(pg_blocking_pids(c.pid)) b (pid) where c.pid <> 0)
select a.pid, null as gid, a.usename::text as holder, a.state, a.query, a.xact_start is null as hidden,
       to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since,
       extract(epoch from clock_timestamp() - a.xact_start)::bigint as seconds, current_user::text as me
  from chain c join pg_stat_activity a on a.pid = c.pid
 where cardinality(pg_blocking_pids(c.pid)) = 0
union all
select null, p.gid, p.owner::text, null, null, false, to_char(p.prepared at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'),
       extract(epoch from clock_timestamp() - p.prepared)::bigint, current_user::text
  from pg_prepared_xacts p
 where exists (select from ours o join pg_locks t on t.virtualtransaction = o.virtualtransaction
                where o.pid is null and t.pid is null and t.locktype = 'transactionid' and t.transactionid = p.transaction
                  and (o.strong or exists (select from chain where pid = 0)))
 order by seconds desc nulls last limit 3";

/// The error of a statement that waited for a lock in vain, with who holds it and how to end that.
pub(super) async fn locked(client: &Client, names: &Names, doing: &str, sql: &str) -> Error {
    let tables: Vec<String> = TABLES.iter().map(|table| format!("{}{table}", names.prefix())).collect();
    let alone = sql.contains("alter table");
    let parameters: [Parameter<'_>; 3] =
        [(&names.schema(), Type::TEXT), (&tables, Type::TEXT_ARRAY), (&alone, Type::BOOL)];
    let found = client.query_typed(HOLDERS, &parameters).await;
    let holders: Vec<Holder> = found.iter().flatten().filter_map(Holder::read).collect();
    let waited = format!("{doing}: a lock on the outbox was waited for in vain");
    if holders.is_empty() {
        let what = format!("{waited}; who holds it was not to be found out");
        let step = "run this again; `select pid, pg_blocking_pids(pid), query from pg_stat_activity where \
                    wait_event_type = 'Lock'` shows who waits for whom";
        return Error::new(ErrorKind::Unavailable, what).advise(step);
    }
    let told: Vec<String> = holders.iter().map(Holder::told).collect();
    let steps: Vec<String> = holders.iter().map(Holder::step).collect();
    Error::new(ErrorKind::Unavailable, format!("{waited}; it is held by {}", told.join(", and by ")))
        .advise(format!("wait until it is over, or end it: {}; then run this again", steps.join(", ")))
}

/// A transaction at the head of those that wait.
struct Holder {
    who: Who,
    role: String,
    since: Option<String>,
    state: Option<String>,
    statement: Option<String>,
    /// The role that asked, where it may not see more.
    hidden_from: Option<String>,
}

enum Who {
    Process(i32),
    Prepared(String),
}

impl Holder {
    fn read(row: &Row) -> Option<Self> {
        let (pid, gid): (Option<i32>, Option<String>) = (row.try_get("pid").ok()?, row.try_get("gid").ok()?);
        let (since, seconds): (Option<String>, Option<i64>) =
            (row.try_get("since").ok()?, row.try_get("seconds").ok()?);
        let hidden: bool = row.try_get("hidden").ok()?;
        let me: String = row.try_get("me").ok()?;
        Some(Self {
            who: match (pid, gid) {
                (Some(pid), _) => Who::Process(pid),
                (None, gid) => Who::Prepared(gid?),
            },
            role: row.try_get::<_, Option<String>>("holder").ok()?.unwrap_or_else(|| "unknown".to_owned()),
            since: since.zip(seconds).map(|(since, seconds)| format!("since {since} UTC, for {seconds} s")),
            state: row.try_get("state").ok()?,
            statement: row.try_get("query").ok()?,
            hidden_from: hidden.then_some(me),
        })
    }

    fn told(&self) -> String {
        let since = self.since.as_ref().map(|since| format!(", {since}")).unwrap_or_default();
        let role = &self.role;
        let pid = match &self.who {
            Who::Prepared(gid) => return format!("the prepared transaction {} (user {role}{since})", quoted(gid)),
            Who::Process(pid) => pid,
        };
        if let Some(me) = &self.hidden_from {
            return format!(
                "pid {pid} (user {role}; since when and with which statement is hidden from the role {me:?} until \
                 `grant pg_read_all_stats to {me:?}`)"
            );
        }
        let state = self.state.as_ref().map(|state| format!(", {state}")).unwrap_or_default();
        let statement = self.statement.as_deref().map(shortened).unwrap_or_default();
        format!("pid {pid} (user {role}{since}{state}; its statement: `{statement}`)")
    }

    fn step(&self) -> String {
        match &self.who {
            Who::Process(pid) => format!("`select pg_terminate_backend({pid})`"),
            Who::Prepared(gid) => format!("`rollback prepared {}` (or commit it)", quoted(gid)),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The beginning of a statement in one line, up to its first literal, which may be a payload or a secret.
fn shortened(statement: &str) -> String {
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut end, mut before) = (line.len(), ' ');
    for (at, sign) in line.char_indices() {
        let parameter = || line[at + 1..].starts_with(|next: char| next.is_ascii_digit());
        let number = sign.is_ascii_digit() && !before.is_alphanumeric() && !['_', '$', '"'].contains(&before);
        if number || sign == '\'' || sign == '$' && !parameter() {
            end = at;
            break;
        }
        before = sign;
    }
    let shown: String = line[..end].chars().take(SHOWN).collect();
    if shown.len() < line.len() { format!("{shown}...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_shown_up_to_its_first_literal() {
        for (statement, shown) in [
            ("lock table a\n  in exclusive mode", "lock table a in exclusive mode"),
            ("insert into a values ('secret', 1)", "insert into a values (..."),
            ("select e(E'x')", "select e(E..."),
            ("do $$ secret $$", "do ..."),
            ("select a1, pg_sleep(20) from t2", "select a1, pg_sleep(..."),
            ("update a set b = $1 where c = $body$secret$body$", "update a set b = $1 where c = ..."),
        ] {
            assert_eq!(shortened(statement), shown);
        }
        assert_eq!(shortened(&"ä".repeat(200)), format!("{}...", "ä".repeat(SHOWN)));
    }
}
