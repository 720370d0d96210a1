//! sqlx and mysql_async on a real MariaDB.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Pool, TxOpts};
use postrider::{EnqueueError, ErrorKind, LaneCount, Message, MessageId, Outbox};
use postrider_testkit::servers::mariadb::shared;
use sqlx::MySqlPool;

use crate::cases::{Asked, Driver, End, Written};
use crate::inbox::{Answers, Question, Receiver};

/// A database of its own with an empty outbox.
pub struct Database {
    pub url: String,
    name: String,
}

async fn empty() -> (String, String) {
    let server = shared().await.unwrap();
    let name = server.create_database().await.unwrap();
    (server.url_for(&name), name)
}

impl Database {
    pub async fn fresh() -> Self {
        let (url, name) = empty().await;
        let mut connection = Conn::from_url(&url).await.unwrap();
        postrider::migrate(&mut connection).await.unwrap();
        connection.disconnect().await.unwrap();
        Self { url, name }
    }

    /// What the command-line client reads, in hexadecimal where a line could not hold it.
    pub async fn written(&self) -> Vec<Written> {
        let select = "select concat_ws('|', id, message_id, topic, coalesce(hex(`key`), '-'), hex(payload),
                             coalesce(hex(content_type), '-'), coalesce(hex(headers), '-'), coalesce(hex(attributes), '-'),
                             coalesce(deliver_at, '-'), coalesce(hex(retry), '-'), state)
                      from postrider_outbox order by id";
        let rows = shared().await.unwrap().sql(&self.name, select).await.unwrap();
        rows.lines().map(read).collect()
    }
}

fn read(line: &str) -> Written {
    let columns: Vec<_> = line.split('|').collect();
    let bytes = |text: &str| -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    };
    let text = |place: usize| (columns[place] != "-").then(|| String::from_utf8(bytes(columns[place])).unwrap());
    Written {
        row: columns[0].parse().unwrap(),
        id: columns[1].parse().unwrap(),
        topic: columns[2].to_owned(),
        key: text(3),
        payload: bytes(columns[4]),
        content_type: text(5),
        headers: text(6),
        attributes: text(7),
        deliver_at: columns[8].parse().ok(),
        retry: text(9),
        state: columns[10].parse().unwrap(),
    }
}

struct Sqlx(Database, MySqlPool);

impl Sqlx {
    async fn fresh() -> Self {
        let database = Database::fresh().await;
        let pool = MySqlPool::connect(&database.url).await.unwrap();
        Self(database, pool)
    }
}

impl Driver for Sqlx {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let mut tx = self.1.begin().await.unwrap();
        crate::cases::transacted!(tx, asked, end)
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

struct MysqlAsync(Database);

impl Driver for MysqlAsync {
    async fn transact(&self, asked: Vec<Asked>, end: End) -> Vec<Result<Vec<MessageId>, EnqueueError>> {
        let mut connection = Conn::from_url(&self.0.url).await.unwrap();
        let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
        crate::cases::transacted!(tx, asked, end)
    }

    async fn written(&self) -> Vec<Written> {
        self.0.written().await
    }
}

impl Receiver for Sqlx {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut tx = self.1.begin().await.unwrap();
        crate::inbox::received!(tx, &mut tx, questions, end)
    }
}

impl Receiver for MysqlAsync {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers {
        let mut connection = Conn::from_url(&self.0.url).await.unwrap();
        let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
        crate::inbox::received!(tx, &mut tx, questions, end)
    }
}

mod sqlx_mysql {
    crate::cases::every_case!(super::Sqlx::fresh());
    crate::inbox::every_inbox_case!(super::Sqlx::fresh());
    crate::keys::every_key_case!(super::Sqlx::fresh());
}

mod mysql_async_ {
    crate::cases::every_case!(async { super::MysqlAsync(super::Database::fresh().await) });
    crate::inbox::every_inbox_case!(async { super::MysqlAsync(super::Database::fresh().await) });
    crate::keys::every_key_case!(async { super::MysqlAsync(super::Database::fresh().await) });
}

#[tokio::test]
async fn a_mysql_database_without_tables_says_what_to_do() {
    let (url, _) = empty().await;
    let pool = MySqlPool::connect(&url).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let with_sqlx = Outbox::new().enqueue(&mut tx, Message::new("t", "secret payload")).await.unwrap_err();
    let mut connection = Conn::from_url(&url).await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let with_mysql_async = Outbox::new().enqueue(&mut tx, Message::new("t", "secret payload")).await.unwrap_err();
    for error in [with_sqlx, with_mysql_async] {
        let text = error.to_string();
        assert!(matches!(error, EnqueueError::Database(_)));
        assert!(text.contains("postrider migrate") && text.contains("1146") && !text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_session_that_is_not_strict_writes_the_same() {
    let database = Database::fresh().await;
    let mut connection = Conn::from_url(&database.url).await.unwrap();
    connection.query_drop("set session sql_mode = ''").await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let (topic, key) = ("t".repeat(255), "\u{1f4ee}".repeat(128));
    Outbox::new().enqueue(&mut tx, Message::new(topic.clone(), "x").key(key.clone())).await.unwrap();
    tx.commit().await.unwrap();
    let row = database.written().await.remove(0);
    assert_eq!((row.topic, row.key), (topic, Some(key)));
}

#[tokio::test]
async fn a_migrate_of_each_driver_makes_the_same_tables_and_gives_the_session_back() {
    let mut made = Vec::new();
    for driver in ["sqlx", "mysql_async"] {
        let (url, name) = empty().await;
        let pool = MySqlPool::connect(&url).await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        let mut other = Pool::from_url(&url).unwrap().get_conn().await.unwrap();
        sqlx::query("set session sql_mode = 'ANSI_QUOTES'").execute(&mut *connection).await.unwrap();
        other.query_drop("set session sql_mode = 'ANSI_QUOTES'").await.unwrap();
        for _ in 0..2 {
            match driver {
                "sqlx" => postrider::migrate(&mut *connection).await.unwrap(),
                _ => postrider::migrate(&mut other).await.unwrap(),
            }
        }
        let mode: String = sqlx::query_scalar("select @@sql_mode").fetch_one(&mut *connection).await.unwrap();
        let others: Option<String> = other.query_first("select @@sql_mode").await.unwrap();
        assert_eq!((mode.as_str(), others.as_deref()), ("ANSI_QUOTES", Some("ANSI_QUOTES")), "{driver}");
        let tables =
            "select group_concat(table_name, ':', column_name, ':', column_type order by table_name, ordinal_position)
                      from information_schema.columns where table_schema = database()";
        let tables = shared().await.unwrap().sql(&name, &format!("set group_concat_max_len = 1000000; {tables}")).await;
        let lanes = shared().await.unwrap().sql(&name, "select count(*) from postrider_lane").await.unwrap();
        made.push((tables.unwrap(), lanes));
    }
    assert_eq!(made[0], made[1]);
    assert_eq!(made[0].1, "64");
    assert!(made[0].0.contains("postrider_outbox:message_id"), "{}", made[0].0);
}

#[tokio::test]
async fn a_migrate_on_mysql_is_safe_for_several_starters_and_keeps_the_lanes() {
    let (url, name) = empty().await;
    let pool = MySqlPool::connect(&url).await.unwrap();
    let lanes = |number| LaneCount::new(number).unwrap();
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { Outbox::new().lanes(LaneCount::new(3).unwrap()).migrate(&pool).await })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let count = shared().await.unwrap().sql(&name, "select count(*) from postrider_lane").await.unwrap();
    assert_eq!(count, "3");
    let others = Pool::from_url(&url).unwrap();
    let with_sqlx = Outbox::new().lanes(lanes(5)).migrate(&pool).await.unwrap_err();
    let with_mysql_async = Outbox::new().lanes(lanes(5)).migrate(&others).await.unwrap_err();
    for error in [with_sqlx, with_mysql_async] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("3 lanes"), "{error}");
    }
    // Nobody keeps the turn.
    Outbox::new().migrate(&others).await.unwrap();
    shared().await.unwrap().sql(&name, "update postrider_meta set version = 999, compatible_from = 999").await.unwrap();
    let error = postrider::migrate(&pool).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("newer"), "{error}");
}
