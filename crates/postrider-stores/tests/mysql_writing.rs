//! Messages that were written by other hands, on MariaDB: by the procedure, by plain inserts, from any session.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use mysql::{Outbox, ROOM, Relay, connection, payloads, until};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use postrider_core::{Content, Due, Level, Message, Row};
use postrider_testkit::servers::mariadb::{Family, Mariadb, shared};

fn message(row: &Row) -> &Message {
    match &row.content {
        Content::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

/// Calls the procedure with everything given, and says what the server said.
async fn call(connection: &mut Conn, arguments: &str) -> Result<String, String> {
    connection.query_drop("set @id = null").await.unwrap();
    let called = connection.query_drop(format!("call postrider_enqueue({arguments}, @id)")).await;
    called.map_err(|error| error.to_string())?;
    Ok(connection.query_first::<String, _>("select @id").await.unwrap().unwrap())
}

#[tokio::test]
async fn the_procedure_writes_what_it_is_given_and_tells_the_id() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    connection.query_drop("set names utf8mb4").await.unwrap();
    let arguments = "'orders.placed:v2', 'clé/日本-☃', x'00ff80', '{\"z-last\": \"1\", \"a-first\": \"zwei €\"}', 'application/json', \
        '{\"kafka.partition\": \"3\"}', null, 9223372036854775807";
    let drawn = call(&mut connection, arguments).await.unwrap();
    connection.query_drop("set @id = '0192aaaa-bbbb-4ccc-8ddd-eeeeffff0001'").await.unwrap();
    connection.query_drop("call postrider_enqueue('t', null, 'x', null, null, null, null, null, @id)").await.unwrap();
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let found = message(&rows[0]);
    assert_eq!((found.id.to_string(), found.id.0.get_version_num()), (drawn, 7));
    assert_eq!(
        (found.key.as_ref().unwrap().as_str(), &found.payload),
        ("clé/日本-☃", &Bytes::from_static(&[0, 255, 128]))
    );
    let headers: Vec<(&str, &str)> = found.headers.iter().collect();
    assert_eq!(headers, [("z-last", "1"), ("a-first", "zwei €")], "in the order in which they were given");
    assert_eq!(message(&rows[1]).id.to_string(), "0192aaaa-bbbb-4ccc-8ddd-eeeeffff0001");
}

#[tokio::test]
async fn texts_of_headers_may_look_like_members_and_be_as_long_as_they_may_be() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    let long = "\\\\\"a\\\\\": {:} ".repeat(8_192 / 10);
    let texts: Vec<String> = (0..64).map(|n| format!("\"h{n}\": \"{long}\"")).collect();
    let arguments = format!("'t', null, 'x', '{{{}}}', null, null, null, null", texts.join(", "));
    call(&mut connection, &arguments).await.unwrap();
    let rows = Relay::joined(&outbox.store).await.read_all().await;
    let headers = &message(&rows[0]).headers;
    assert_eq!(headers.iter().count(), 64);
    assert!(headers.iter().all(|(_, text)| text.starts_with("\"a\": {:} \"a\"")), "{headers:?}");
}

/// As the SDK refuses it, whatever the mode of the session: nothing is cut down to fit.
#[tokio::test]
async fn the_procedure_refuses_what_is_no_message_in_strict_sessions_and_others() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    let rest = "null, null, null, null, null";
    let long_key = format!("'t', '{}', 'x', {rest}", "k".repeat(513));
    let long_topic = format!("'{}', null, 'x', {rest}", "t".repeat(256));
    let many: Vec<String> = (0..65).map(|n| format!("\"h{n}\": \"v\"")).collect();
    let many = format!("'t', null, 'x', '{{{}}}', null, null, null, null", many.join(", "));
    for mode in ["strict_all_tables", ""] {
        connection.query_drop(format!("set session sql_mode = '{mode}'")).await.unwrap();
        for (arguments, says) in [
            (format!("null, null, 'x', {rest}"), "topic"),
            (format!("'no topic', null, 'x', {rest}"), "topic"),
            (format!("'line\\n', null, 'x', {rest}"), "topic"),
            (format!("'a..b', null, 'x', {rest}"), "topic"),
            (long_topic.clone(), "topic"),
            (format!("'t', '', 'x', {rest}"), "key"),
            (format!("'t', 'a\\nb', 'x', {rest}"), "key"),
            (format!("'t', 'a\\0b', 'x', {rest}"), "key"),
            (long_key.clone(), "key"),
            (format!("'t', null, null, {rest}"), "payload"),
            ("'t', null, 'x', null, 'nonsense', null, null, null".to_owned(), "content type"),
            ("'t', null, 'x', '[1]', null, null, null, null".to_owned(), "objects"),
            ("'t', null, 'x', 'x', null, null, null, null".to_owned(), "objects"),
            ("'t', null, 'x', '{\"a\": 1}', null, null, null, null".to_owned(), "have text"),
            ("'t', null, 'x', '{\"a\": \"1\", \"a\": \"2\"}', null, null, null, null".to_owned(), "name of its own"),
            (
                "'t', null, 'x', '{\"a\": \"1\", \"\\\\u0061\": \"2\"}', null, null, null, null".to_owned(),
                "name of its own",
            ),
            ("'t', null, 'x', '{\"bad name\": \"v\"}', null, null, null, null".to_owned(), "the name"),
            ("'t', null, 'x', '{\"Postrider-id\": \"v\"}', null, null, null, null".to_owned(), "the name"),
            ("'t', null, 'x', '{\"a\": \"x\\\\r\\\\ny\"}', null, null, null, null".to_owned(), "control"),
            (many.clone(), "at most 64"),
            ("'t', null, 'x', null, null, '{\"noprefix\": \"v\"}', null, null".to_owned(), "the name"),
        ] {
            let shown: String = arguments.chars().take(60).collect();
            let error = call(&mut connection, &arguments).await.expect_err(&shown);
            assert!(error.contains("postrider: ") && error.contains(says), "{shown}: {error}");
        }
    }
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0");
}

#[tokio::test]
async fn ids_that_the_database_draws_are_new_ones_of_version_7() {
    let outbox = Outbox::fresh().await;
    let rows: Vec<&str> = vec!["('t', 'x')"; 500];
    outbox.sql(&format!("insert into postrider_outbox (topic, payload) values {}", rows.join(", "))).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let ids: BTreeSet<_> = rows.iter().map(|row| message(row).id).collect();
    assert_eq!(ids.len(), 500);
    assert!(ids.iter().all(|id| id.0.get_version_num() == 7 && id.0.get_variant() == uuid::Variant::RFC4122));
    let lanes: BTreeSet<_> = rows.iter().map(|row| row.lane).collect();
    assert_eq!(lanes.len(), 8, "those without a key are spread by their ids");
}

/// A session that is not strict cuts silently what does not fit: what is too long for a message stays too long.
#[tokio::test]
async fn a_session_that_is_not_strict_makes_no_valid_message_of_one_that_is_too_long() {
    let server = Mariadb::start_with(&["--sql-mode="]).await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    let mut connection = outbox.connection().await;
    for (key, topic, headers, id) in [
        ("k".repeat(600), "t".to_owned(), "{}".to_owned(), "null".to_owned()),
        ("k".repeat(200_000), "t".to_owned(), "{}".to_owned(), "null".to_owned()),
        ("k".to_owned(), "t".repeat(100_000), "{}".to_owned(), "null".to_owned()),
        ("k".to_owned(), "t".to_owned(), format!("{{\"a\": \"{}\"}}", "v".repeat(100_000)), "null".to_owned()),
        (
            "k".to_owned(),
            "t".to_owned(),
            "{}".to_owned(),
            format!("'0192aaaa-bbbb-4ccc-8ddd-eeeeffff0001{}'", "x".repeat(99)),
        ),
    ] {
        let id = if id == "null" { "uuid()".to_owned() } else { id };
        let sql = format!(
            "insert into postrider_outbox (message_id, topic, `key`, payload, headers) values ({id}, ?, ?, 'x', ?)"
        );
        connection.exec_drop(sql, (topic, key, headers)).await.unwrap();
    }
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert!(matches!(row.content, Content::Malformed { .. }), "{row:?}");
    }
    let findings = outbox.operator().await.check().await.unwrap();
    let mode = findings.iter().find(|finding| finding.subject == "sql_mode").unwrap();
    assert_eq!(mode.level, Level::Warning);
    assert!(mode.advice.contains("STRICT_TRANS_TABLES"), "{mode:?}");
}

/// A plain insert of these bytes as the client sends them.
async fn insert_bytes(connection: &mut Conn, topic: &[u8], key: &[u8], headers: &[u8]) -> Result<(), u16> {
    let parts: [&[u8]; 7] = [
        b"insert into postrider_outbox (topic, `key`, payload, headers) values ('",
        topic,
        b"', '",
        key,
        b"', 'x', '",
        headers,
        b"')",
    ];
    connection.query_drop(parts.concat()).await.map_err(number)
}

/// A call of the procedure with this key.
async fn call_bytes(connection: &mut Conn, key: &[u8]) -> Result<(), u16> {
    let parts: [&[u8]; 3] = [b"call postrider_enqueue('t', '", key, b"', 'x', '{}', null, null, null, null, @id)"];
    connection.query_drop("set @id = null").await.unwrap();
    connection.query_drop(parts.concat()).await.map_err(number)
}

fn number(error: mysql_async::Error) -> u16 {
    match error {
        mysql_async::Error::Server(told) => told.code,
        other => panic!("{other}"),
    }
}

fn keys(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| message(row).key.as_ref().unwrap().as_str()).collect()
}

/// Bytes that are none of the characters that the client says it sends, beside what becomes of them without strict mode.
const NO_CHARACTERS: [(&str, &[u8], &str); 4] = [
    ("utf8mb4", b"a\x80z", "a?z"),
    ("utf8mb4", b"a\x81z", "a?z"),
    ("utf8mb3", b"a\xf0\x9f\x93\xaez", "a????z"),
    ("utf8mb3", b"a\xf0\x9f\x93\xafz", "a????z"),
];

#[tokio::test]
async fn bytes_that_are_no_characters_are_refused_in_a_strict_session() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    connection.query_drop("set session sql_mode = 'STRICT_TRANS_TABLES'").await.unwrap();
    for (charset, bytes, _) in NO_CHARACTERS {
        connection.query_drop(format!("set names {charset}")).await.unwrap();
        let header = [b"{\"a\": \"", bytes, b"\"}"].concat();
        assert_eq!(insert_bytes(&mut connection, b"t", bytes, b"{}").await, Err(1366), "{bytes:?}");
        assert_eq!(insert_bytes(&mut connection, bytes, b"k", b"{}").await, Err(1366), "{bytes:?}");
        assert_eq!(insert_bytes(&mut connection, b"t", b"k", &header).await, Err(1366), "{bytes:?}");
        assert_eq!(call_bytes(&mut connection, bytes).await, Err(1366), "{bytes:?}");
    }
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0");
}

/// What docs/sql.md warns of, and the doctor: two keys can become one. No check of the table sees what was sent.
#[tokio::test]
async fn bytes_that_are_no_characters_are_lost_in_a_session_that_is_not_strict() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    connection.query_drop("set session sql_mode = ''").await.unwrap();
    let mut relay = Relay::joined(&outbox.store).await;
    for (charset, bytes, question_marks) in NO_CHARACTERS {
        connection.query_drop(format!("set names {charset}")).await.unwrap();
        let header = [b"{\"a\": \"", bytes, b"\"}"].concat();
        insert_bytes(&mut connection, b"t", bytes, &header).await.unwrap();
        call_bytes(&mut connection, bytes).await.unwrap();
        let rows = relay.read_all().await;
        // MySQL ends the text before the first of them, where it need not make other characters of the session's.
        let is_cut = outbox.server.family() == Family::Mysql && charset == "utf8mb4";
        let is_malformed = |row: &Row| matches!(row.content, Content::Malformed { .. });
        if is_cut {
            assert!(is_malformed(&rows[0]), "the header is no JSON any more: {rows:?}");
            assert_eq!(keys(&rows[1..]), ["a"], "{bytes:?}");
        } else {
            assert_eq!(keys(&rows), [question_marks; 2], "{bytes:?}");
            let headers: Vec<_> = message(&rows[0]).headers.iter().collect();
            assert_eq!(headers, [("a", question_marks)], "{bytes:?}");
        }
        insert_bytes(&mut connection, bytes, b"k", b"{}").await.unwrap();
        let rows = relay.read_all().await;
        assert_eq!(is_malformed(&rows[0]), !is_cut, "no topic has a question mark: {rows:?}");
    }
}

/// What docs/sql.md warns of: the server believes what a session says of its characters, in any mode.
#[tokio::test]
async fn a_session_that_names_the_wrong_characters_writes_another_key_in_any_mode() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    let mut relay = Relay::joined(&outbox.store).await;
    for mode in ["STRICT_ALL_TABLES", ""] {
        connection.query_drop(format!("set session sql_mode = '{mode}'")).await.unwrap();
        for (session, becomes) in [
            ("set names utf8mb4", ["\u{e9}\u{1f4ee}", "\u{e9}\u{1f4ef}"]),
            // What it sends is UTF-8: another key, and different ones stay different.
            (
                "set names latin1",
                ["\u{c3}\u{a9}\u{f0}\u{178}\u{201c}\u{ae}", "\u{c3}\u{a9}\u{f0}\u{178}\u{201c}\u{af}"],
            ),
            // Right so far, and then made characters of a set that lacks them: two keys become one.
            ("set names utf8mb4, character_set_connection = latin1", ["\u{e9}?"; 2]),
        ] {
            connection.query_drop(session).await.unwrap();
            for key in ["\u{e9}\u{1f4ee}", "\u{e9}\u{1f4ef}"] {
                insert_bytes(&mut connection, b"t", key.as_bytes(), b"{}").await.unwrap();
            }
            assert_eq!(keys(&relay.read_all().await), becomes, "{mode} {session}");
        }
    }
}

/// Of the server, of the writer: a moment is the same everywhere.
#[tokio::test]
async fn time_zones_of_server_and_sessions_mean_nothing() {
    let server = Mariadb::start_with(&["--default-time-zone=+05:30"]).await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    let mut relay = Relay::joined(&outbox.store).await;
    for zone in ["-08:00", "+13:00", "SYSTEM"] {
        let mut connection = outbox.connection().await;
        connection.query_drop(format!("set session time_zone = '{zone}'")).await.unwrap();
        let soon = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + 1500000";
        connection
            .query_drop(format!(
                "insert into postrider_outbox (topic, payload, deliver_at) values ('t', 'now', null), ('t', 'delayed', {soon})"
            ))
            .await
            .unwrap();
        let rows = relay.read_all().await;
        assert_eq!(payloads(&rows), ["now"], "{zone}");
        assert!(rows[0].lifetime.age < Duration::from_secs(5), "{zone}: {:?}", rows[0].lifetime);
        assert!(relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows.is_empty(), "{zone}");
        let mut due = Vec::new();
        until("the delayed message", async || {
            due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows;
            !due.is_empty()
        })
        .await;
        assert_eq!((payloads(&due), due[0].due), (vec!["delayed".to_owned()], Due::Now), "{zone}");
        relay.settle(&due, postrider_core::Outcome::Delivered).await;
    }
    let status = outbox.operator().await.status(100).await.unwrap();
    assert!(status.members[0].lease_left > Duration::from_secs(30), "{status:?}");
    assert!(status.oldest_age.unwrap() < Duration::from_secs(60), "{status:?}");
}

/// Rights on the tables and no other: not to see other transactions, not to change settings.
#[tokio::test]
async fn a_relay_works_with_rights_on_the_tables_alone_and_a_writer_with_fewer() {
    let server = shared().await.unwrap();
    let outbox = Outbox::fresh().await;
    let database = &outbox.database;
    outbox
        .sql(&format!(
            "create user relay_{database}@'%' identified by 'r'; create user writer_{database}@'%' identified by 'w';
             grant select, update, delete on {database}.postrider_outbox to relay_{database}@'%';
             grant select, update on {database}.postrider_lane to relay_{database}@'%';
             grant select, insert, update, delete on {database}.postrider_relay to relay_{database}@'%';
             grant select, insert, update, delete on {database}.postrider_delivered to relay_{database}@'%';
             grant select on {database}.postrider_meta to relay_{database}@'%';
             grant insert on {database}.postrider_outbox to writer_{database}@'%';
             grant execute on procedure {database}.postrider_enqueue to writer_{database}@'%'"
        ))
        .await;
    let mut writer = connection(&server.url_as(&format!("writer_{database}"), "w", database)).await;
    call(&mut writer, "'t', 'k', 'called', null, null, null, null, null").await.unwrap();
    writer.query_drop("insert into postrider_outbox (topic, payload) values ('t', 'inserted')").await.unwrap();
    // MySQL drops the rights to a procedure with it, and says so; MariaDB replaces it.
    outbox.sql("update postrider_meta set version = version - 1").await;
    let owner = postrider_stores::mysql::MysqlOptions::new(&server.url_for(database)).unwrap();
    postrider_stores::mysql::migrate(&owner, mysql::lanes(8)).await.unwrap();
    let called_after = call(&mut writer, "'t', 'k', 'after', null, null, null, null, null").await;
    let keeps_rights = outbox.sql("select version() like '%MariaDB%'").await == "1";
    assert_eq!(called_after.is_ok(), keeps_rights, "{called_after:?}");
    outbox.sql("delete from postrider_outbox where payload = 'after'").await;
    let url = server.url_as(&format!("relay_{database}"), "r", database);
    let options = postrider_stores::mysql::MysqlOptions::new(&url).unwrap();
    let store = postrider_stores::mysql::MysqlStore::open(options).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let mut open = outbox.connection().await;
    open.query_drop("begin").await.unwrap();
    mysql::insert(&mut open, "k", "late").await;
    mysql::insert(&mut outbox.connection().await, "k", "quick").await;
    let rows = relay.read_all().await;
    assert_eq!(payloads(&rows), ["called", "inserted", "quick"]);
    assert_eq!(relay.settle(&rows, postrider_core::Outcome::Delivered).await.rows.len(), 3);
    open.query_drop("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["late"]);
    let findings = postrider_core::Store::operator(&store).await.unwrap().check().await.unwrap();
    let missing: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Failure).collect();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].found.contains("no insert on postrider_outbox"), "{missing:?}");
    assert!(missing[0].advice.contains("grant insert on `postrider_outbox`"), "{missing:?}");
}
