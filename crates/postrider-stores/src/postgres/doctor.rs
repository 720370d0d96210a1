//! The doctor's findings about the database, each with what to do about it.

use postrider_core::{Finding, LaneCount, Level, Result};
use tokio_postgres::types::Type;

use super::decode::get;
use super::link::{Link, Parameter};
use super::migrate::usable;
use super::options::Pooling;
use super::store::sequence_cache;

/// What the relay's role needs, table by table.
const PRIVILEGES: &str = "\
select t.name, t.wanted, has_table_privilege(t.name::regclass, t.wanted) as granted, quote_ident(current_user) as role
  from unnest($1::text[], $2::text[]) with ordinality t (name, wanted, place) order by t.place";

/// The lane expression of the table as it stands.
const LANE_EXPRESSION: &str = "\
select pg_get_expr(d.adbin, d.adrelid) as expression, (select count(*) from {lane}) as lanes
  from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
 where d.adrelid = $1::text::regclass and a.attname = 'lane'";

/// Where `synchronous_commit` is off by default: the server, the database, or roles.
const ASYNCHRONOUS: &str = "\
select 'the server' as place where (select boot_val is not null and reset_val = 'off' from pg_settings
                                    where name = 'synchronous_commit')
union all
select coalesce('role ' || r.rolname, 'database ' || current_database())
  from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole
 where (s.setdatabase = 0 or s.setdatabase = (select oid from pg_database where datname = current_database()))
   and 'synchronous_commit=off' = any(s.setconfig)";

/// A table that is the target of logical replication gets transaction ids of another cluster.
const SUBSCRIBED: &str = "select count(*) as number from pg_subscription_rel where srrelid = $1::text::regclass";

const SETTINGS: &str = "\
select current_setting('server_version_num')::integer as version,
       current_setting('enable_seqscan') = 'off' and current_setting('enable_bitmapscan') = 'off'
         and current_setting('enable_sort') = 'off' and current_setting('max_parallel_workers_per_gather') = '0' as told,
       current_setting('statement_timeout') <> '0' as limited,
       (extract(epoch from clock_timestamp()) * 1000)::bigint as clock";

/// Everything the doctor looks at; the first finding that makes the others meaningless ends the visit.
pub(super) async fn check(link: &mut Link) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let row = link.query_one("reading the server's settings", SETTINGS, &[]).await?;
    let version: i32 = get(&row, "version")?;
    findings.push(if version >= 130_000 {
        good("server version", format!("PostgreSQL {}", version / 10_000))
    } else {
        bad("server version", format!("PostgreSQL {}", version / 10_000), "upgrade to PostgreSQL 13 or later")
    });
    findings.push(link.options().encryption.finding(link.options().is_local));
    let told: bool = get(&row, "told")?;
    findings.extend(planner(link.options().pooling, told));
    findings.extend(limit(link.options().pooling, get(&row, "limited")?));
    findings.push(clock(get(&row, "clock")?));
    let installed = match usable(link).await {
        Ok(installed) => installed,
        Err(error) => {
            findings.push(bad(
                "tables",
                error.story(),
                error.advice().unwrap_or("follow the advice and run check again"),
            ));
            return Ok(findings);
        }
    };
    findings.push(good("tables", format!("version {}, {} lanes", installed.version, installed.lanes.get())));
    findings.extend(lanes(link, installed.lanes).await?);
    findings.push(sequence(sequence_cache(link).await?));
    findings.extend(privileges(link).await?);
    findings.extend(asynchronous(link).await?);
    findings.extend(subscribed(link).await);
    Ok(findings)
}

fn planner(pooling: Pooling, told: bool) -> Option<Finding> {
    (pooling == Pooling::Transaction && !told).then(|| {
        warning(
            "planner settings",
            "not set for this role; the backlog is read in spans of row numbers".to_owned(),
            "give the relay's role the settings at the end of roles.sql",
        )
    })
}

/// A pooler does not cancel what its client gave up: the statement would wait on with its locks, and the next one beside it.
fn limit(pooling: Pooling, limited: bool) -> Option<Finding> {
    (pooling == Pooling::Transaction && !limited).then(|| {
        warning(
            "statement timeout",
            "none for this role, behind a pooler".to_owned(),
            "alter role my_relay set statement_timeout = '30s', with the relay's role for my_relay, as at the end of roles.sql",
        )
    })
}

/// Leases are decided by the database's clock alone; a local clock that is far off confuses people, not the relay.
fn clock(database: i64) -> Finding {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let apart = here.saturating_sub(database).saturating_abs();
    let found = format!("the database's clock and this machine's are {} ms apart", apart);
    if apart <= 5_000 {
        return good("clock", found);
    }
    warning("clock", found, "synchronise the clocks; ids and log times are made with this machine's")
}

fn sequence(cache: i64) -> Finding {
    if cache == 1 {
        return good("sequence", "draws one number at a time".to_owned());
    }
    bad("sequence", format!("caches {cache} numbers"), "alter the identity column of the outbox to cache 1")
}

async fn lanes(link: &mut Link, expected: LaneCount) -> Result<Option<Finding>> {
    let (table, sql) = (link.options().names.qualified("outbox"), link.options().names.fill(LANE_EXPRESSION));
    let row = link.query_one("reading the lane expression", &sql, &[(&table, Type::TEXT)]).await?;
    let (expression, rows): (String, i64) = (get(&row, "expression")?, get(&row, "lanes")?);
    let number = expected.get().to_string();
    let burnt_in = expression.split(|c: char| !c.is_ascii_digit()).filter(|digits| *digits == number).count() >= 3;
    let same = burnt_in && rows == i64::from(expected.get());
    Ok((!same).then(|| {
        bad(
            "lanes",
            format!("the tables say {number} lanes, the lane table has {rows} and the column computes {expression}"),
            "restore the tables as `postrider migrate --print` shows them; the number of lanes cannot change",
        )
    }))
}

async fn privileges(link: &mut Link) -> Result<Vec<Finding>> {
    let names = &link.options().names;
    let wanted = [
        ("outbox", "select"),
        ("outbox", "update"),
        ("outbox", "delete"),
        ("lane", "select"),
        ("lane", "update"),
        ("relay", "select"),
        ("relay", "insert"),
        ("relay", "update"),
        ("relay", "delete"),
        ("boot", "select"),
        ("boot", "insert"),
        ("delivered", "select"),
        ("delivered", "insert"),
        ("delivered", "delete"),
        ("meta", "select"),
    ];
    let tables: Vec<String> = wanted.iter().map(|(table, _)| names.qualified(table)).collect();
    let rights: Vec<&str> = wanted.iter().map(|(_, right)| *right).collect();
    let parameters: [Parameter<'_>; 2] = [(&tables, Type::TEXT_ARRAY), (&rights, Type::TEXT_ARRAY)];
    let rows = link.query("reading privileges", PRIVILEGES, &parameters).await?;
    let mut missing = Vec::new();
    for row in &rows {
        let (table, right, granted): (String, String, bool) =
            (get(row, "name")?, get(row, "wanted")?, get(row, "granted")?);
        if !granted {
            let role: String = get(row, "role")?;
            let advice = format!(
                "`grant {right} on {table} to {role}`, or all that a relay needs: `grant postrider_relay to {role}` (that role \
                 comes from `postrider migrate --roles`)"
            );
            missing.push(bad("privileges", format!("the role {role} has no {right} on {table}"), &advice));
        }
    }
    if missing.is_empty() {
        missing.push(good("privileges", "all that the relay needs".to_owned()));
    }
    Ok(missing)
}

async fn asynchronous(link: &mut Link) -> Result<Vec<Finding>> {
    let rows = link.query("reading synchronous_commit", ASYNCHRONOUS, &[]).await?;
    let advice = "set it to on for whatever enqueues: a crash of the database can lose a commit whose message has left";
    rows.iter()
        .map(|row| {
            Ok(warning("synchronous_commit", format!("off by default for {}", get::<String>(row, "place")?), advice))
        })
        .collect()
}

/// Only a superuser may look at subscriptions in every version; who may not gets no finding.
async fn subscribed(link: &mut Link) -> Option<Finding> {
    let table = link.options().names.qualified("outbox");
    let row = link.query_one("reading subscriptions", SUBSCRIBED, &[(&table, Type::TEXT)]).await.ok()?;
    let number: i64 = get(&row, "number").ok()?;
    (number > 0).then(|| {
        bad(
            "logical replication",
            "the outbox is the target of a subscription".to_owned(),
            "take it out of the publication: rows of another cluster carry transaction ids that mean nothing here",
        )
    })
}

fn good(subject: &str, found: String) -> Finding {
    Finding { level: Level::Good, subject: subject.to_owned(), found, advice: String::new() }
}

fn warning(subject: &str, found: String, advice: &str) -> Finding {
    Finding { level: Level::Warning, subject: subject.to_owned(), found, advice: advice.to_owned() }
}

fn bad(subject: &str, found: String, advice: &str) -> Finding {
    Finding { level: Level::Failure, subject: subject.to_owned(), found, advice: advice.to_owned() }
}
