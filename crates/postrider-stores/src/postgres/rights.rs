//! Which right a role lacks, and the statement that grants it.

use postrider_core::{Error, ErrorKind};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Names;
use super::holders::TABLES;
use super::link::Parameter;

/// What the writer may write: the other columns are the relay's (`roles.sql`).
const WRITTEN: &str =
    "(message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)";

/// The tables of the inbox.
const INBOX: [&str; 5] = ["inbox", "inbox_foreign", "inbox_span", "inbox_cursor", "inbox_refused"];

/// The functions that forget.
const FUNCTIONS: [&str; 2] = ["inbox_keep", "inbox_forget"];

/// Who may not carry out a function, and whose it is.
const EXECUTES: &str = "\
select current_user::text as role, pg_get_userbyid(p.proowner)::text as owner,
       p.oid::regprocedure::text as function
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname = $1 and p.proname = $2 and not has_function_privilege(p.oid, 'execute') limit 1";

/// The wanted rights on a table, or on the schema where there is no such table, that this role lacks, and the documented
/// role that has them all. Looked up by name in the catalog: names as text are refused where the schema may not be used.
const MISSING: &str = "\
with object as (
  select n.oid as schema, c.oid as tab, pg_get_userbyid(coalesce(
           c.relowner,
           (select d.datdba from pg_database d join pg_roles r on r.oid = n.nspowner
             where d.datname = current_database() and r.rolname = 'pg_database_owner'),
           n.nspowner))::text as owner
    from pg_namespace n left join pg_class c on c.relnamespace = n.oid and c.relname = $2 where n.nspname = $1),
reach as (
  select r.rolname::text as name, w.place, w.wanted, o.owner,
         case when o.tab is null then has_schema_privilege(r.oid, o.schema, w.wanted)
              when w.wanted = 'delete' then has_table_privilege(r.oid, o.tab, w.wanted)
              else has_any_column_privilege(r.oid, o.tab, w.wanted) end as granted
    from pg_roles r cross join object o cross join unnest($3::text[]) with ordinality w (wanted, place)
   where r.rolname in (current_user, 'postrider_relay', 'postrider_writer'))
select current_user::text as role, (select owner from object) as owner,
       array(select wanted from reach where name = current_user and not granted order by place) as missing,
       (select name from reach where name <> current_user group by name having bool_and(granted)
         order by name limit 1) as documented";

/// The error of a statement that a right was missing for; none when it cannot be told which.
pub(super) async fn missing(client: &Client, names: &Names, doing: &str, sql: &str, message: &str) -> Option<Error> {
    // The message names the table in every language.
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let bare = |table: &str| format!("{}{table}", names.prefix());
    let named = |name: &&str| message.split(word).any(|found| found == bare(name));
    if let Some(function) = FUNCTIONS.into_iter().find(named) {
        return not_executed(client, names, doing, &bare(function), message).await;
    }
    let table = TABLES.into_iter().chain(INBOX).find(named);
    let (object, wanted) = match table {
        Some(table) => (names.qualified(table), needed(sql, &names.qualified(table))),
        None => (format!("schema \"{}\"", names.schema()), vec!["usage", "create"]),
    };
    // Only a migration makes something in the schema.
    let wanted: Vec<&str> = wanted.into_iter().filter(|right| *right != "create" || sql.contains("create ")).collect();
    let name = table.map(bare).unwrap_or_default();
    let parameters: [Parameter<'_>; 3] =
        [(&names.schema(), Type::TEXT), (&name, Type::TEXT), (&wanted, Type::TEXT_ARRAY)];
    let rows = client.query_typed(MISSING, &parameters).await.ok()?;
    let row = rows.first()?;
    let (role, owner): (String, Option<String>) = (row.try_get("role").ok()?, row.try_get("owner").ok()?);
    let missing: Vec<String> = row.try_get("missing").ok()?;
    let (role, owner) = (identifier(&role), identifier(&owner?));
    if missing.is_empty() {
        if !(sql.contains("alter ") || sql.contains("create ")) {
            return None;
        }
        let what = format!("{doing}: the role {role} is not the owner of {object}, which is {owner}");
        let step = format!("run this as {owner}, or as a role that it was granted to: `grant {owner} to {role}`");
        return Some(Error::new(ErrorKind::Config, what).because(message).advise(step));
    }
    let rights = missing.join(", ");
    let columns = if rights == "insert" && table == Some("outbox") { WRITTEN } else { "" };
    let alone = format!("`grant {rights} {columns} on {object} to {role}`").replace("  ", " ");
    let documented: Option<String> = row.try_get("documented").ok()?;
    let step = match documented {
        Some(documented) => format!("run as {owner}: `grant {documented} to {role}`, or this right alone: {alone}"),
        None => format!("run as {owner}: {alone}; `postrider migrate --roles` prints roles with all the rights"),
    };
    let what = format!("{doing}: the role {role} lacks the right to {rights} on {object}");
    Some(Error::new(ErrorKind::Config, what).because(message).advise(step))
}

async fn not_executed(client: &Client, names: &Names, doing: &str, function: &str, message: &str) -> Option<Error> {
    let parameters: [Parameter<'_>; 2] = [(&names.schema(), Type::TEXT), (&function, Type::TEXT)];
    let rows = client.query_typed(EXECUTES, &parameters).await.ok()?;
    let text = |column: &str| rows.first()?.try_get::<_, String>(column).ok();
    let (role, owner, function) = (identifier(&text("role")?), identifier(&text("owner")?), text("function")?);
    let what = format!("{doing}: the role {role} lacks the right to execute {function}");
    let step = format!(
        "run as {owner}: `grant execute on function {function} to {role}`; for the documented roles run anew what `postrider \
         migrate --roles` prints"
    );
    Some(Error::new(ErrorKind::Config, what).because(message).advise(step))
}

/// What a statement does with a table.
fn needed(sql: &str, table: &str) -> Vec<&'static str> {
    let does = |before: &str| sql.contains(&format!("{before} {table}"));
    let mut rights = Vec::new();
    if does("from") || does("join") {
        rights.push("select");
    }
    if does("insert into") {
        rights.push("insert");
    }
    if does("update") || does("from") && (sql.contains("for update") || sql.contains("for no key update")) {
        rights.push("update");
    }
    if does("delete from") {
        rights.push("delete");
    }
    rights
}

/// A role's name as a statement takes it.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
