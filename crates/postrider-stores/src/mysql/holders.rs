//! Who holds a lock that was waited for in vain.

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use postrider_core::{Error, ErrorKind};

use super::columns::Columns;
use super::dialect::Dialect;

/// How much of a statement is shown.
const SHOWN: usize = 80;

/// The oldest transactions that hold locks on rows. Who waited has given up: what it waited for is not told any more, and
/// the two servers have other tables for that; these columns both have. Another user's transactions are seen by whoever
/// has the right `process`. `?` who waited: its own transaction is still open.
const HOLDERS: &str = "\
select t.trx_mysql_thread_id, p.user, p.host, timestampdiff(second, t.trx_started, now()), p.command, t.trx_query
  from information_schema.innodb_trx t left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
 where t.trx_rows_locked > 0 and t.trx_mysql_thread_id not in (connection_id(), ?)
 order by t.trx_started limit 3";

const ME: &str = "select current_user()";

/// The error of a statement that the connection `waiter` waited with for a lock in vain, with who holds it, or may, and how
/// to end that.
pub(super) async fn locked(conn: &mut Conn, dialect: Dialect, waiter: u32, doing: &str) -> Error {
    let waited = format!("{doing}: a lock on the outbox was waited for in vain");
    // `trx_started` is in the server's own time.
    let server_time = conn.query_drop("set session time_zone = 'SYSTEM'").await;
    let found: Result<Vec<mysql_async::Row>, _> = match server_time {
        Ok(()) => conn.exec(HOLDERS, (waiter,)).await,
        Err(error) => Err(error),
    };
    let holders: Vec<Holder> = found.into_iter().flatten().filter_map(|row| Holder::read(&Columns::new(row))).collect();
    if holders.is_empty() {
        let me: Option<String> = conn.query_first(ME).await.ok().flatten();
        let me = me.unwrap_or_else(|| "USER".to_owned());
        let what = format!("{waited}; who holds it was not to be found out");
        let step = format!(
            "run this again; as an administrator, `show engine innodb status` of {} names the transactions, and `show \
             processlist` the sessions, one of which may have locked a whole table; `grant process on *.* to {}` lets this \
             tell the transactions",
            dialect.name(),
            account(&me)
        );
        return Error::new(ErrorKind::Unavailable, what).advise(step);
    }
    let told: Vec<String> = holders.iter().map(Holder::told).collect();
    let steps: Vec<String> = holders.iter().map(|holder| format!("`kill {}`", holder.thread)).collect();
    Error::new(
        ErrorKind::Unavailable,
        format!("{waited}; the oldest transactions that hold locks: {}", told.join(", and ")),
    )
    .advise(format!("wait until it is over, or end it: {}; then run this again", steps.join(", ")))
}

/// A transaction with locks.
struct Holder {
    thread: i64,
    user: String,
    host: String,
    seconds: i64,
    command: String,
    statement: Option<String>,
}

impl Holder {
    fn read(row: &Columns) -> Option<Self> {
        let text = |place| row.text(place).unwrap_or("unknown").to_owned();
        Some(Self {
            thread: row.integer(0)?,
            user: text(1),
            host: text(2),
            seconds: row.integer(3).unwrap_or(0),
            command: text(4),
            statement: row.text(5).map(shortened),
        })
    }

    fn told(&self) -> String {
        let Self { thread, user, host, seconds, command, .. } = self;
        let statement = match &self.statement {
            Some(statement) => format!("; its statement: `{statement}`"),
            None => String::new(),
        };
        format!("connection {thread} (user {user} from {host}, for {seconds} s, {command}{statement})")
    }
}

/// A user as a statement takes it: `name@host` with both parts quoted.
fn account(user: &str) -> String {
    let (name, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    let quoted = |part: &str| format!("'{}'", part.replace('\'', "''"));
    format!("{}@{}", quoted(name), quoted(host))
}

/// The beginning of a statement in one line, up to its first literal, which may be a payload or a secret.
fn shortened(statement: &str) -> String {
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut end, mut before) = (line.len(), ' ');
    for (at, sign) in line.char_indices() {
        let number = sign.is_ascii_digit() && !before.is_alphanumeric() && !['_', '`'].contains(&before);
        if number || sign == '\'' || sign == '"' {
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
            ("select id\n  from `a1` for update", "select id from `a1` for update"),
            ("insert into a values ('secret', 1)", "insert into a values (..."),
            ("insert into a values (\"secret\")", "insert into a values (..."),
            ("update a set b = 0x736563726574", "update a set b = ..."),
            ("update a set b = x'736563726574'", "update a set b = x..."),
        ] {
            assert_eq!(shortened(statement), shown);
        }
    }

    #[test]
    fn an_account_is_quoted_part_by_part() {
        assert_eq!(account("o'neil@10.0.0.%"), "'o''neil'@'10.0.0.%'");
    }
}
