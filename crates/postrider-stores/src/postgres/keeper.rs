//! The inbox, as who keeps it sees it: forgetting, numbers, and what was refused.

use std::time::Duration;

use postrider_core::{
    Finding, Forgotten, InboxStatus, Level, Message, MessageId, RefusedFilter, RefusedGroup, RefusedView, Result,
    Timestamp,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::decode::{Moment, get, readable};
use super::inbox;
use super::link::{Link, Parameter};
use super::operator::age;
use crate::consumers::{Newest, consumers};
use crate::dialog::{Statement, Turn, Value};
use crate::received::Forget;

const SINCE: &str = "select oldest from {inbox_span} where one";

/// By the primary key and by the index of each partition, from their ends.
const NEWEST: &str = "\
select consumer, count(*) as number, max(seen_at) as last
  from ((select consumer, seen_at from {inbox} order by message_id desc, consumer desc limit $1)
        union all
        (select consumer, seen_at from {inbox_foreign} order by seen_at desc limit $1)) newest
 group by consumer";

const REFUSED_BY: &str = "select consumer, count(*) as number from {inbox_refused} group by consumer";

/// Which refused messages a filter means.
macro_rules! meant {
    ($before:literal, $behind:literal) => {
        concat!(
            $before,
            " from {inbox_refused}
 where ($1::uuid[] is null or message_id = any($1)) and ($2::text is null or consumer = $2)
   and ($3::text is null or topic = $3)
   and ($4::bigint is null or refused_at <= clock_timestamp() - $4 * interval '1 microsecond')",
            $behind
        )
    };
}

const REFUSED: &str = meant!(
    "select message_id, consumer, reason, topic, key, content_type, headers::text as headers, payload, refused_at, times",
    " order by message_id, consumer limit $5"
);

const GROUPS: &str = meant!(
    "select consumer, reason, count(*) as number,
       (extract(epoch from clock_timestamp() - min(refused_at)) * 1000000)::bigint as oldest",
    " group by consumer, reason order by consumer, reason"
);

const DISCARD: &str = meant!(
    "with meant as (select message_id, consumer",
    " order by message_id, consumer limit $5)
delete from {inbox_refused} r using meant m where r.message_id = m.message_id and r.consumer = m.consumer
returning r.message_id"
);

/// What forgetting and the verbs need.
const PRIVILEGES: &str = "\
select t.name, t.wanted, has_table_privilege(t.name::regclass, t.wanted) as granted, quote_ident(current_user) as role
  from unnest($1::text[], $2::text[]) with ordinality t (name, wanted, place)
union all
select f.name, 'execute', has_function_privilege(f.name, 'execute'), quote_ident(current_user)
  from unnest($3::text[]) f (name)";

/// Forgets what was handled longer ago than this, each step in a transaction of its own: a partition that is dropped keeps
/// everybody out until its transaction ends.
pub(super) async fn forget(link: &mut Link, keep: Duration, limit: u32) -> Result<Forgotten> {
    let mut turn = inbox::forget(&link.options().names, Forget::after(keep, limit));
    loop {
        turn = match turn {
            Turn::Done(round) => return round.forgotten(),
            Turn::Change(statement, then) => then(ask(link, &statement).await?.0),
            Turn::Number(statement, then) => then(ask(link, &statement).await?.1),
            // Forgetting looks at no key.
            Turn::Key(_, then) => then(None),
        };
    }
}

/// How many rows a statement gave, and the number in the first one.
async fn ask(link: &mut Link, Statement { sql, values }: &Statement) -> Result<(u64, Option<i64>)> {
    let parameters: Vec<Parameter<'_>> = values.iter().map(parameter).collect();
    let rows = link.query("forgetting what was handled long ago", sql, &parameters).await?;
    let answer = rows.first().map(|row| get::<Option<i64>>(row, "answer")).transpose()?.flatten();
    Ok((u64::try_from(rows.len()).unwrap_or(0), answer))
}

fn parameter(value: &Value) -> Parameter<'_> {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Maybe(text) => (text, Type::TEXT),
        Value::Number(number) => (number, Type::INT8),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

/// The inbox in numbers.
pub(super) async fn status(link: &mut Link, bound: u32) -> Result<InboxStatus> {
    let doing = "looking at the inbox";
    let [since, newest, refused] = [SINCE, NEWEST, REFUSED_BY].map(|sql| link.options().names.fill(sql));
    let since: Moment = get(&link.query_one(doing, &since, &[]).await?, "oldest")?;
    let bounded: [Parameter<'_>; 1] = [(&i64::from(bound), Type::INT8)];
    let found = link.query(doing, &newest, &bounded).await?;
    let newest = found.iter().map(|row| {
        let last: Moment = get(row, "last")?;
        Ok(Newest { consumer: get(row, "consumer")?, count: number(row, "number")?, last: last.into() })
    });
    let newest = newest.collect::<Result<Vec<_>>>()?;
    let found = link.query(doing, &refused, &[]).await?;
    let refused = found.iter().map(|row| Ok((get(row, "consumer")?, number(row, "number")?)));
    let refused = refused.collect::<Result<Vec<_>>>()?;
    let since = Some(Timestamp::from(since)).filter(|since| *since > Timestamp(0));
    Ok(InboxStatus { since, consumers: consumers(newest, refused, bound) })
}

fn number(row: &tokio_postgres::Row, column: &str) -> Result<u64> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or(0))
}

/// A filter as the statements take it.
struct Filter<'f> {
    ids: Option<Vec<Uuid>>,
    consumer: Option<&'f str>,
    topic: Option<&'f str>,
    age: Option<i64>,
}

impl<'f> Filter<'f> {
    fn of(filter: &'f RefusedFilter) -> Self {
        Self {
            ids: (!filter.ids.is_empty()).then(|| filter.ids.iter().map(|id| id.0).collect()),
            consumer: filter.consumer.as_deref(),
            topic: filter.topic.as_deref(),
            age: filter.older_than.map(age),
        }
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.ids, Type::UUID_ARRAY),
            (&self.consumer, Type::TEXT),
            (&self.topic, Type::TEXT),
            (&self.age, Type::INT8),
        ]
    }
}

/// Refused messages by ascending id.
pub(super) async fn refused(link: &mut Link, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
    let (sql, filter, limit) = (link.options().names.fill(REFUSED), Filter::of(filter), i64::from(limit));
    let mut parameters = filter.parameters();
    parameters.push((&limit, Type::INT8));
    link.query("listing refused messages", &sql, &parameters).await?.iter().map(view).collect()
}

fn view(row: &tokio_postgres::Row) -> Result<RefusedView> {
    let (times, at): (i32, Moment) = (get(row, "times")?, get(row, "refused_at")?);
    let message: Message = readable(row);
    Ok(RefusedView {
        consumer: get(row, "consumer")?,
        message,
        reason: get(row, "reason")?,
        refused_at: at.into(),
        times: u64::try_from(times).unwrap_or(0),
    })
}

/// Refused messages by consumer and reason.
pub(super) async fn groups(link: &mut Link, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
    let (sql, filter) = (link.options().names.fill(GROUPS), Filter::of(filter));
    let rows = link.query("grouping refused messages", &sql, &filter.parameters()).await?;
    let group = |row: &tokio_postgres::Row| {
        Ok(RefusedGroup {
            consumer: get(row, "consumer")?,
            reason: get(row, "reason")?,
            count: number(row, "number")?,
            oldest: Duration::from_micros(number(row, "oldest")?),
        })
    };
    rows.iter().map(group).collect()
}

/// Removes refused messages for good.
pub(super) async fn discard(link: &mut Link, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
    let (sql, filter, limit) = (link.options().names.fill(DISCARD), Filter::of(filter), i64::from(limit));
    let mut parameters = filter.parameters();
    parameters.push((&limit, Type::INT8));
    let rows = link.query("discarding refused messages", &sql, &parameters).await?;
    rows.iter().map(|row| get(row, "message_id").map(MessageId)).collect()
}

/// Every right that forgetting and the verbs need and this role lacks.
pub(super) async fn check(link: &mut Link) -> Result<Vec<Finding>> {
    let names = &link.options().names;
    let wanted = [
        ("inbox", "select"),
        ("inbox_foreign", "select"),
        ("inbox_span", "select"),
        ("inbox_refused", "select"),
        ("inbox_refused", "delete"),
    ];
    let tables: Vec<String> = wanted.iter().map(|(table, _)| names.qualified(table)).collect();
    let rights: Vec<&str> = wanted.iter().map(|(_, right)| *right).collect();
    let functions =
        ["{inbox_keep}(interval, interval)", "{inbox_forget}(integer)"].map(|text| names.fill(text)).to_vec();
    let parameters: [Parameter<'_>; 3] =
        [(&tables, Type::TEXT_ARRAY), (&rights, Type::TEXT_ARRAY), (&functions, Type::TEXT_ARRAY)];
    let mut findings = Vec::new();
    for row in &link.query("reading privileges on the inbox", PRIVILEGES, &parameters).await? {
        let (name, right, granted): (String, String, bool) =
            (get(row, "name")?, get(row, "wanted")?, get(row, "granted")?);
        if granted {
            continue;
        }
        let role: String = get(row, "role")?;
        let what = if right == "execute" { format!("function {name}") } else { name };
        findings.push(Finding {
            level: Level::Warning,
            subject: "inbox".to_owned(),
            found: format!("the role {role} has no {right} on {what}: what was handled is not forgotten, or not shown"),
            advice: format!(
                "`grant {right} on {what} to {role}`; for the documented roles run anew what `postrider migrate --roles` prints"
            ),
        });
    }
    if findings.is_empty() {
        let found = "the relay may forget what was handled".to_owned();
        findings.push(Finding { level: Level::Good, subject: "inbox".to_owned(), found, advice: String::new() });
    }
    Ok(findings)
}
