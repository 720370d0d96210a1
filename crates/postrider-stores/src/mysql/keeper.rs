//! The inbox, as who keeps it sees it: forgetting, numbers, and what was refused.

use std::time::Duration;

use bytes::Bytes;
use mysql_async::{Params, Value as Sent};
use postrider_core::{
    Finding, Forgotten, Headers, InboxStatus, Key, Level, Message, MessageId, RefusedFilter, RefusedGroup, RefusedView,
    Result, Timestamp,
};

use super::columns::Columns;
use super::dead::age;
use super::explain::message_id;
use super::inbox;
use super::link::Link;
use crate::consumers::{Newest, consumers};
use crate::dialog::{Statement, Turn, Value};
use crate::received::Forget;
use crate::since::moment_of;

/// Claims hold the row of the span until their transactions end, and new ones queue behind whoever waits for it.
const BRIEFLY: &str = "set session innodb_lock_wait_timeout = 1";

const FORGETTING: &str = "forgetting what was handled long ago";

const SINCE: &str = "select oldest from {inbox_span} where one = 1";

/// By the primary key and by the index of moments, from their ends.
const NEWEST: &str = "\
select consumer, count(*), max(seen_at)
  from ((select consumer, seen_at from {inbox} order by message_id desc, consumer desc limit <rows>)
        union all
        (select consumer, seen_at from {inbox_foreign} order by seen_at desc limit <rows>)) newest
 group by consumer";

const REFUSED_BY: &str = "select consumer, count(*) from {inbox_refused} group by consumer";

/// Which refused messages a filter means.
macro_rules! meant {
    ($before:literal, $behind:literal) => {
        concat!(
            $before,
            " from {inbox_refused}
 where <ids> and (:consumer is null or consumer = :consumer) and (:topic is null or topic = :topic)
   and (:age is null or refused_at <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - :age)",
            $behind
        )
    };
}

const REFUSED: &str = meant!(
    "select message_id, consumer, reason, topic, `key`, content_type, headers, payload, refused_at, times",
    " order by message_id, consumer limit :limit"
);

const NAMED: &str = meant!("select message_id, consumer", " order by message_id, consumer limit :limit");

const GROUPS: &str = meant!(
    "select consumer, reason, count(*), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - min(refused_at)",
    " group by consumer, reason order by consumer, reason"
);

const DISCARD: &str = "delete from {inbox_refused} where message_id = ? and consumer = ?";

/// Each is refused for want of the right before the server sees that there is nothing to do.
const RIGHTS: [(&str, &str, &str); 8] = [
    ("select", "inbox_span", "select 1 from {inbox_span} limit 0"),
    ("update", "inbox_span", "update {inbox_span} set oldest = oldest where 1 = 0"),
    ("select", "inbox", "select 1 from {inbox} limit 0"),
    ("delete", "inbox", "delete from {inbox} where 1 = 0"),
    ("select", "inbox_foreign", "select 1 from {inbox_foreign} limit 0"),
    ("delete", "inbox_foreign", "delete from {inbox_foreign} where 1 = 0"),
    ("select", "inbox_refused", "select 1 from {inbox_refused} limit 0"),
    ("delete", "inbox_refused", "delete from {inbox_refused} where 1 = 0"),
];

const ME: &str = "select current_user()";

/// Forgets what was handled longer ago than this, each step in a transaction of its own: claims wait for the first one only.
pub(super) async fn forget(link: &mut Link, keep: Duration, limit: u32) -> Result<Forgotten> {
    let usually = link.options().lock_wait.unwrap_or(link.options().timeout).as_secs().max(1);
    link.define(FORGETTING, BRIEFLY).await?;
    let mut turn = inbox::forget(&link.options().names, Forget::after(keep, limit));
    let round = loop {
        turn = match turn {
            Turn::Done(round) => break round,
            Turn::Change(statement, then) => {
                then(link.execute(FORGETTING, &statement.sql, parameters(&statement)).await?)
            }
            Turn::Number(statement, then) => {
                let rows = link.query(FORGETTING, &statement.sql, parameters(&statement)).await?;
                then(rows.into_iter().next().and_then(|row| Columns::new(row).integer(0)))
            }
            // Forgetting looks at no key.
            Turn::Key(_, then) => then(None),
        };
    };
    // After an error the connection is another one, with settings of its own.
    link.define(FORGETTING, &format!("set session innodb_lock_wait_timeout = {usually}")).await?;
    round.forgotten()
}

fn parameters(statement: &Statement) -> Params {
    if statement.values.is_empty() {
        return Params::Empty;
    }
    let sent = |value: &Value| match value {
        Value::Text(text) => Sent::from(text),
        Value::Maybe(text) => Sent::from(text),
        Value::Number(number) => Sent::from(*number),
        Value::Bytes(bytes) => Sent::from(bytes),
    };
    Params::Positional(statement.values.iter().map(sent).collect())
}

/// The inbox in numbers.
pub(super) async fn status(link: &mut Link, bound: u32) -> Result<InboxStatus> {
    let doing = "looking at the inbox";
    let [since, newest, refused] = [SINCE, NEWEST, REFUSED_BY].map(|sql| link.options().names.fill(sql));
    let since = moment_of(link.query_one(doing, &since, ()).await?.text(0).unwrap_or_default());
    let found = link.query(doing, &newest.replace("<rows>", &bound.to_string()), ()).await?;
    let newest = found.into_iter().map(Columns::new).map(|row| Newest {
        consumer: text(&row, 0),
        count: number(&row, 1),
        last: Timestamp(row.integer(2).unwrap_or(0)),
    });
    let newest = newest.collect();
    let found = link.query(doing, &refused, ()).await?;
    let refused = found.into_iter().map(Columns::new).map(|row| (text(&row, 0), number(&row, 1))).collect();
    Ok(InboxStatus { since, consumers: consumers(newest, refused, bound) })
}

fn text(row: &Columns, place: usize) -> String {
    row.text(place).unwrap_or_default().to_owned()
}

fn number(row: &Columns, place: usize) -> u64 {
    row.integer(place).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// A statement with the ids of a filter in place.
fn filled(link: &Link, sql: &str, filter: &RefusedFilter) -> String {
    let ids: Vec<String> = filter.ids.iter().map(|id| format!("'{id}'")).collect();
    let ids = if ids.is_empty() { "1 = 1".to_owned() } else { format!("message_id in ({})", ids.join(", ")) };
    link.options().names.fill(sql).replace("<ids>", &ids)
}

/// The other conditions of a filter, and how long the list is.
fn conditions(filter: &RefusedFilter, limit: Option<u32>) -> Params {
    let mut values: Vec<(String, Sent)> = vec![
        ("consumer".to_owned(), filter.consumer.clone().into()),
        ("topic".to_owned(), filter.topic.clone().into()),
        ("age".to_owned(), filter.older_than.map(age).into()),
    ];
    values.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    Params::from(values)
}

/// Refused messages by ascending id.
pub(super) async fn refused(link: &mut Link, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
    let sql = filled(link, REFUSED, filter);
    let rows = link.query("listing refused messages", &sql, conditions(filter, Some(limit))).await?;
    Ok(rows.into_iter().map(|row| view(Columns::new(row))).collect())
}

fn view(mut row: Columns) -> RefusedView {
    let payload = row.take_bytes(7).map_or_else(Bytes::new, Bytes::from);
    let mut message = Message::new(row.text(3).unwrap_or_default(), payload);
    message.id = message_id(&row, 0);
    message.key = row.text(4).map(Key::unchecked);
    message.content_type = row.text(5).map(str::to_owned);
    message.headers = row.text(6).and_then(|text| Headers::from_json(text).ok()).unwrap_or_default();
    RefusedView {
        consumer: text(&row, 1),
        message,
        reason: text(&row, 2),
        refused_at: Timestamp(row.integer(8).unwrap_or(0)),
        times: number(&row, 9),
    }
}

/// Refused messages by consumer and reason.
pub(super) async fn groups(link: &mut Link, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
    let sql = filled(link, GROUPS, filter);
    let rows = link.query("grouping refused messages", &sql, conditions(filter, None)).await?;
    let group = |row: Columns| RefusedGroup {
        consumer: text(&row, 0),
        reason: text(&row, 1),
        count: number(&row, 2),
        oldest: Duration::from_micros(number(&row, 3)),
    };
    Ok(rows.into_iter().map(|row| group(Columns::new(row))).collect())
}

/// Removes refused messages for good, in one transaction.
pub(super) async fn discard(link: &mut Link, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
    let (named, discard) = (filled(link, NAMED, filter), link.options().names.fill(DISCARD));
    let mut work = link.begin("discarding refused messages").await?;
    let mut ids = Vec::new();
    for row in work.query(&named, conditions(filter, Some(limit))).await? {
        let row = Columns::new(row);
        if work.execute(&discard, (text(&row, 0), text(&row, 1))).await? > 0 {
            ids.push(message_id(&row, 0));
        }
    }
    work.commit().await?;
    Ok(ids)
}

/// Every right that forgetting and the verbs need and this user lacks.
pub(super) async fn check(link: &mut Link) -> Result<Vec<Finding>> {
    let names = link.options().names.clone();
    let mut findings = Vec::new();
    for (right, table, probe) in RIGHTS {
        let Err(error) = link.text("looking at the rights", &names.fill(probe)).await else { continue };
        if !error.story().contains("1142") && !error.story().contains("1143") {
            return Err(error);
        }
        let me = link.query_one("asking who this is", ME, ()).await?;
        let (me, table) = (me.text(0).unwrap_or("USER").to_owned(), names.bare(table));
        findings.push(Finding {
            level: Level::Warning,
            subject: "inbox".to_owned(),
            found: format!("the user {me} has no {right} on {table}: what was handled is not forgotten, or not shown"),
            advice: format!("run as an administrator: grant {right} on `{table}` to the user {me}"),
        });
    }
    if findings.is_empty() {
        let found = "the relay may forget what was handled".to_owned();
        findings.push(Finding { level: Level::Good, subject: "inbox".to_owned(), found, advice: String::new() });
    }
    Ok(findings)
}
