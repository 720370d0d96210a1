//! The doctor's findings about the database, each with what to do about it.

use postrider_core::{Finding, LaneCount, Level, MAX_PAYLOAD, Result};

use super::columns::Columns;
use super::link::Link;
use super::migrate::usable;

/// What sessions begin with, which is what the application's have: the relay's own say what they want.
const SETTINGS: &str = "\
select @@global.sql_mode, @@global.autocommit, @@global.innodb_flush_log_at_trx_commit, @@global.max_allowed_packet,
       @@global.auto_increment_increment, @@global.binlog_format, @@global.log_bin,
       timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000";

/// The lane expression of the table as it stands.
const LANE_EXPRESSION: &str = "\
select c.generation_expression, (select count(*) from {lane}) from information_schema.columns c
 where c.table_schema = database() and c.table_name = ? and c.column_name = 'lane'";

/// Each is refused for want of the right before the server sees that there is nothing to do.
const RIGHTS: [(&str, &str, &str); 15] = [
    ("select", "outbox", "select 1 from {outbox} limit 0"),
    ("insert", "outbox", "insert into {outbox} (topic, payload) select '', '' from {meta} where 1 = 0"),
    ("update", "outbox", "update {outbox} set state = state where 1 = 0"),
    ("delete", "outbox", "delete from {outbox} where 1 = 0"),
    ("select", "lane", "select 1 from {lane} limit 0"),
    ("update", "lane", "update {lane} set term = term where 1 = 0"),
    ("select", "relay", "select 1 from {relay} limit 0"),
    ("insert", "relay", "insert into {relay} (id, name, expires_at) select '', '', 0 from {meta} where 1 = 0"),
    ("update", "relay", "update {relay} set name = name where 1 = 0"),
    ("delete", "relay", "delete from {relay} where 1 = 0"),
    ("select", "delivered", "select 1 from {delivered} limit 0"),
    (
        "insert",
        "delivered",
        "insert into {delivered} (id, message_id, lane, topic, payload, created_at, attempts)
 select 0, '', 0, '', '', 0, 0 from {meta} where 1 = 0",
    ),
    ("update", "delivered", "update {delivered} set lane = lane where 1 = 0"),
    ("delete", "delivered", "delete from {delivered} where 1 = 0"),
    ("select", "meta", "select 1 from {meta} limit 0"),
];

const ME: &str = "select current_user()";

/// Everything the doctor looks at; the first finding that makes the others meaningless ends the visit.
pub(super) async fn check(link: &mut Link) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let dialect = link.dialect().await?;
    let ((major, minor, patch), name) = (dialect.version, dialect.name());
    findings.push(if dialect.version >= dialect.oldest() {
        good("server version", format!("{name} {major}.{minor}.{patch}"))
    } else {
        let (at, least, other) = dialect.oldest();
        bad(
            "server version",
            format!("{name} {major}.{minor}.{patch}"),
            &format!("upgrade to {at}.{least}.{other} or later"),
        )
    });
    findings.push(link.options().encryption.finding(link.options().is_local));
    let seen = link.query_one("reading the server's settings", SETTINGS, ()).await?;
    findings.extend(settings(&seen));
    findings.push(clock(seen.integer(7).unwrap_or(0)));
    let installed = match usable(link).await {
        Ok(installed) => installed,
        Err(error) => {
            let advice = error.advice().unwrap_or("follow the advice and run check again").to_owned();
            findings.push(bad("tables", error.story(), &advice));
            return Ok(findings);
        }
    };
    findings.push(good("tables", format!("version {}, {} lanes, InnoDB", installed.version, installed.lanes.get())));
    findings.extend(lanes(link, installed.lanes).await?);
    findings.extend(privileges(link).await?);
    findings.extend(replica(link, dialect.replica_status()).await);
    Ok(findings)
}

/// What the server's settings do to the application's messages.
fn settings(seen: &Columns) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mode = seen.text(0).unwrap_or_default();
    let is_strict =
        mode.split(',').any(|mode| matches!(mode, "STRICT_ALL_TABLES" | "STRICT_TRANS_TABLES" | "TRADITIONAL"));
    findings.push(if is_strict {
        good("sql_mode", "strict".to_owned())
    } else {
        warning(
            "sql_mode",
            "not strict: what a session writes is silently changed where it does not fit".to_owned(),
            "add STRICT_TRANS_TABLES to sql_mode of the server, or set it in every session that writes",
        )
    });
    if !seen.is_true(1) {
        findings.push(warning(
            "autocommit",
            "off: a session that forgets its commit writes messages that never leave".to_owned(),
            "commit in the application, or set autocommit = 1 in the server",
        ));
    }
    if seen.integer(2) != Some(1) {
        findings.push(warning(
            "innodb_flush_log_at_trx_commit",
            format!("{}: a crash can lose a commit whose message has left", seen.integer(2).unwrap_or(0)),
            "set it to 1",
        ));
    }
    let packet = seen.integer(3).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    findings.push(if packet > MAX_PAYLOAD + (1 << 20) {
        good("max_allowed_packet", format!("{packet} bytes"))
    } else {
        warning(
            "max_allowed_packet",
            format!("{packet} bytes: larger messages are refused by the server, and a larger row cannot be read"),
            "set it to 80M for messages of up to 64 MiB, or keep messages below it",
        )
    });
    if seen.integer(4).is_some_and(|step| step > 1) {
        findings.push(warning(
            "auto_increment_increment",
            "larger than 1, as where several servers take writes: their row numbers interleave, and messages of a key that \
             were written by different servers keep no order"
                .to_owned(),
            "let everything that enqueues write to one of the servers",
        ));
    }
    if seen.is_true(6) && seen.text(5) == Some("STATEMENT") {
        findings.push(bad(
            "binlog_format",
            "STATEMENT: the server takes no writes of a relay's (error 1665), which works under READ COMMITTED".to_owned(),
            "set it to ROW, or to MIXED, in the server and for the sessions that come: set global binlog_format = 'ROW'",
        ));
    }
    findings
}

/// Leases are decided by the database's clock alone; a local clock that is far off confuses people, not the relay.
fn clock(database: i64) -> Finding {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let apart = here.saturating_sub(database).saturating_abs();
    let found = format!("the database's clock and this machine's are {apart} ms apart");
    if apart <= 5_000 {
        return good("clock", found);
    }
    warning("clock", found, "synchronise the clocks; ids and log times are made with this machine's")
}

async fn lanes(link: &mut Link, expected: LaneCount) -> Result<Option<Finding>> {
    let (table, sql) = (link.options().names.bare("outbox"), link.options().names.fill(LANE_EXPRESSION));
    let row = link.query_one("reading the lane expression", &sql, (table,)).await?;
    let (expression, rows) = (row.text(0).unwrap_or_default().to_owned(), row.integer(1).unwrap_or(0));
    let number = expected.get().to_string();
    let burnt_in = expression.split(|c: char| !c.is_ascii_digit()).any(|digits| digits == number);
    let same = burnt_in && expression.to_ascii_lowercase().contains("crc32") && rows == i64::from(expected.get());
    Ok((!same).then(|| {
        bad(
            "lanes",
            format!("the tables say {number} lanes, the lane table has {rows} and the column computes {expression}"),
            "restore the tables as `postrider migrate --print` shows them; the number of lanes cannot change",
        )
    }))
}

async fn privileges(link: &mut Link) -> Result<Vec<Finding>> {
    let names = link.options().names.clone();
    let mut missing = Vec::new();
    for (right, table, probe) in RIGHTS {
        let Err(error) = link.text("looking at the rights", &names.fill(probe)).await else { continue };
        if error.story().contains("1665") {
            // The log takes no statement of ours: that is found beside this.
            return Ok(missing);
        }
        if !error.story().contains("1142") && !error.story().contains("1143") {
            return Err(error);
        }
        let me = link.query_one("asking who this is", ME, ()).await?;
        let me = me.text(0).unwrap_or("USER").to_owned();
        let table = names.bare(table);
        missing.push(bad(
            "privileges",
            format!("the user {me} has no {right} on {table}"),
            &format!("run as an administrator: grant {right} on `{table}` to the user {me}"),
        ));
    }
    if missing.is_empty() {
        missing.push(good("privileges", "all that the relay and an operator need".to_owned()));
    }
    Ok(missing)
}

/// Only some users may ask; who may not gets no finding.
async fn replica(link: &mut Link, status: &str) -> Option<Finding> {
    let rows = link.text("asking for a replica's status", status).await.ok()?;
    (!rows.is_empty()).then(|| {
        warning(
            "replication",
            "the server applies another one's log: it may be a replica, and what is settled here is not settled there"
                .to_owned(),
            "give the URL of the primary",
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
