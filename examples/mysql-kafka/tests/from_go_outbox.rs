//! The import of `examples/from-go-outbox`: the real program, on a private MariaDB, with rows written as go-outbox writes
//! them.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod outbox;
#[allow(dead_code, reason = "these tests use a part of it")]
mod programs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use outbox::{Database, Got, until};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::process::{ServerError, Signal, signal};
use programs::{Program, built, example};
use serde::Deserialize;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};
use tokio::sync::OnceCell;

/// As it stands in go-outbox's own example.
const OUTBOX: &str = "
CREATE TABLE outbox (
        id varchar(100) NOT NULL,
        data BLOB NOT NULL,
        state INT NOT NULL,
        created_on DATETIME NOT NULL,
        locked_by varchar(100) NULL,
        locked_on DATETIME NULL,
        processed_on DATETIME NULL,
        number_of_attempts INT NOT NULL,
        last_attempted_on DATETIME NULL,
        error varchar(1000) NULL
)";
const OLD: &str = "select count(*) from outbox";
const NEW: &str = "select count(*) from postrider_outbox";
const IDS: &str = "select message_id from postrider_outbox order by id";

/// A message as go-outbox wrote it.
#[derive(Debug, Deserialize)]
struct Old {
    id: String,
    topic: String,
    key: String,
    payload: String,
    headers: Option<BTreeMap<String, String>>,
}

/// A database with both tables, and the programs.
struct Scene {
    database: Database,
    import: Program,
    rows: Program,
}

const WHAT: &str = "the import from go-outbox";

/// The two programs, built once.
static BUILT: OnceCell<(PathBuf, PathBuf)> = OnceCell::const_new();

fn build() -> Result<(PathBuf, PathBuf), ServerError> {
    let module = example().join("../from-go-outbox");
    Ok((built(&module, ".", "from-go-outbox")?, built(&module, "./oldrows", "oldrows")?))
}

impl Scene {
    /// None where something is missing, which is said.
    async fn set() -> Option<Self> {
        let (import, rows) = installed(WHAT, BUILT.get_or_try_init(async || build()).await)?;
        let database = installed(WHAT, Database::migrated().await)?;
        database.sql(OUTBOX).await;
        Some(Self { database, import: Program::new(import, &[]), rows: Program::new(rows, &[]) })
    }

    /// Writes messages as go-outbox does.
    fn written(&self, count: usize) -> Vec<Old> {
        let ran = self.rows.run(&self.database.url, &[&count.to_string()]);
        assert!(ran.status.success(), "{}", told(&ran));
        String::from_utf8(ran.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs the import, which ends with a code.
    #[track_caller]
    fn ends(&self, code: i32, flags: &[&str]) -> String {
        let ran = self.import.run(&self.database.url, flags);
        assert_eq!(ran.status.code(), Some(code), "{}", told(&ran));
        told(&ran)
    }

    fn start(&self, flags: &[&str]) -> Child {
        let mut command = self.import.command(&self.database.url, flags);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// How many rows each table has.
    async fn counts(&self) -> (usize, usize) {
        (self.database.count(OLD).await, self.database.count(NEW).await)
    }

    /// Everything was moved, in its order, once; and it is delivered as it was written.
    async fn arrived(&self, written: &[Old]) {
        let ids: Vec<&str> = written.iter().map(|old| old.id.as_str()).collect();
        let moved = self.database.sql(IDS).await;
        assert_eq!(moved.lines().collect::<Vec<_>>(), ids);
        assert_eq!(self.database.count(OLD).await, 0);
        let got = self.database.relayed().await;
        assert_eq!(got.len(), written.len());
        let by_id: BTreeMap<&str, &Got> = got.iter().map(|got| (got.id.as_str(), got)).collect();
        for old in written {
            let got = by_id[old.id.as_str()];
            assert_eq!((&got.topic, got.payload.as_slice()), (&old.topic, old.payload.as_bytes()), "{}", old.id);
            assert_eq!(got.key.as_deref().unwrap_or_default(), old.key);
            let headers: BTreeMap<String, String> = got.headers.iter().cloned().collect();
            assert_eq!(headers, old.headers.clone().unwrap_or_default());
        }
        for key in (0..5).map(|n| format!("key-{n}")) {
            let arrived = got.iter().filter(|got| got.key.as_ref() == Some(&key)).map(|got| &got.id);
            assert!(arrived.eq(written.iter().filter(|old| old.key == key).map(|old| &old.id)), "the order of {key}");
        }
    }
}

fn told(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// How many sessions of others there are in a database, in a state such as `User lock`.
async fn sessions(database: &Database, state: &str) -> usize {
    let sessions = format!(
        "select count(*) from information_schema.processlist where db = '{}' and coalesce(state, '') like '{state}' \
         and id <> connection_id()",
        database.name
    );
    database.count(&sessions).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_go_outbox_wrote_is_moved_once_in_its_order_with_its_ids() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(330);
    let said = scene.ends(0, &["-dry-run"]);
    assert!(said.contains("330 pending, 0 of them locked"), "{said}");
    assert!(said.contains("would move 110 of orders.placed.0"), "{said}");
    assert_eq!(scene.counts().await, (330, 0));
    let said = scene.ends(0, &["-batch", "50"]);
    assert!(said.contains("moved 330 messages"), "{said}");
    scene.arrived(&written).await;
    assert!(scene.ends(0, &[]).contains("moved 0 messages"));
}

/// It dies in the middle of its second batch, held there by a lock of the test's.
async fn killed_within_a_transaction(when: &str) {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(100);
    let mut other = MySqlConnection::connect(&scene.database.url).await.unwrap();
    // Names of locks are the whole server's.
    let lock = format!("halt_{}", scene.database.name);
    let take = sqlx::query_scalar::<_, Option<i64>>("select get_lock(?, 0)").bind(&lock);
    assert_eq!(take.fetch_one(&mut other).await.unwrap(), Some(1));
    let halt = format!("set @n = coalesce(@n, 0) + 1; if @n = 70 then do get_lock('{lock}', 300); end if;");
    let trigger = format!("create trigger halt {when} for each row begin {halt} end");
    sqlx::raw_sql(AssertSqlSafe(trigger)).execute(&mut other).await.unwrap();
    let mut import = scene.start(&["-batch", "40"]);
    until("the import to be halted", async || sessions(&scene.database, "User lock").await == 1).await;
    import.kill().unwrap();
    import.wait().unwrap();
    // The lock ends with its session.
    other.close().await.unwrap();
    until("its session to be over", async || sessions(&scene.database, "%").await == 0).await;
    assert_eq!(scene.counts().await, (60, 40), "the second batch is here or there, whole");
    scene.database.sql("drop trigger halt").await;
    scene.ends(0, &[]);
    scene.arrived(&written).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_inserts_it_has_moved_nothing_of_the_batch() {
    killed_within_a_transaction("before insert on postrider_outbox").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_removes_it_has_moved_nothing_of_the_batch() {
    killed_within_a_transaction("before delete on outbox").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_moves_each_message_once() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(4000);
    let mut seen = 0;
    for _ in 0..5 {
        let mut import = scene.start(&["-batch", "7"]);
        until("the import to move something", async || scene.database.count(NEW).await > seen).await;
        import.kill().unwrap();
        import.wait().unwrap();
        until("its session to be over", async || sessions(&scene.database, "%").await == 0).await;
        let (old, new) = scene.counts().await;
        assert_eq!(old + new, written.len());
        assert!(old > 0, "it was done before it was killed");
        seen = new;
    }
    scene.ends(0, &[]);
    scene.arrived(&written).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dispatcher_has_locked_stays_until_it_is_said_to_be_gone() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(30);
    scene.database.sql("update outbox set locked_by = 'machine-1', locked_on = utc_timestamp() limit 5").await;
    let said = scene.ends(3, &[]);
    assert!(
        said.contains("5 messages are locked") && said.contains("machine-1") && said.contains("-take-locked"),
        "{said}"
    );
    assert_eq!(scene.counts().await, (30, 0));
    scene.ends(0, &["-take-locked"]);
    scene.arrived(&written).await;
}

/// go-outbox locks by a statement and reads by another one: what was moved in between is not there for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dispatcher_locks_meanwhile_is_not_moved() {
    let Some(scene) = Scene::set().await else { return };
    scene.written(10);
    let mut import = scene.start(&["-follow", "20ms"]);
    until("everything to be moved", async || scene.counts().await == (0, 10)).await;
    let mut other = MySqlConnection::connect(&scene.database.url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let locked = "insert into outbox select message_id, payload, 0, utc_timestamp(), 'machine-2', utc_timestamp(), null, 0, null, null \
                  from postrider_outbox limit 4";
    sqlx::query(locked).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let written = scene.written(3);
    until("what is not locked to be moved", async || scene.counts().await == (4, 13)).await;
    signal(import.id(), Signal::Terminate).unwrap();
    assert_eq!(import.wait().unwrap().code(), Some(3));
    let last = scene.database.sql(IDS).await;
    assert!(last.lines().skip(10).eq(written.iter().map(|old| old.id.as_str())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_postrider_would_refuse_stops_it_or_is_left() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(30);
    scene.database.sql(&format!("update outbox set data = 'no gob' where id = '{}'", written[12].id)).await;
    scene.database.sql(&format!("update outbox set id = 'seven' where id = '{}'", written[20].id)).await;
    let said = scene.ends(3, &["-dry-run"]);
    assert!(said.contains(&written[12].id) && said.contains("\"seven\"") && said.contains("no UUID"), "{said}");
    let said = scene.ends(1, &["-batch", "4"]);
    assert!(said.contains(&written[12].id) && said.contains("no message of go-outbox"), "{said}");
    assert_eq!(scene.counts().await, (18, 12), "what precedes it is moved, and nothing passes it");
    let said = scene.ends(3, &["-batch", "4", "-leave-bad"]);
    assert!(said.contains("2 messages that Postrider would refuse"), "{said}");
    let moved = scene.database.sql(IDS).await;
    let good = written.iter().enumerate().filter(|(n, _)| ![12, 20].contains(n)).map(|(_, old)| old.id.as_str());
    assert!(moved.lines().eq(good));
    assert_eq!(scene.counts().await, (2, 28));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_still_open_is_waited_for() {
    let Some(scene) = Scene::set().await else { return };
    let first = scene.written(1).remove(0);
    let mut other = MySqlConnection::connect(&scene.database.url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let id = "00000000-0000-4000-8000-000000000002";
    let data: Vec<u8> = sqlx::query_scalar("select data from outbox").fetch_one(&mut *tx).await.unwrap();
    let open =
        "insert into outbox (id, data, state, created_on, number_of_attempts) values (?, ?, 0, utc_timestamp(), 0)";
    sqlx::query(open).bind(id).bind(data).execute(&mut *tx).await.unwrap();
    let last = scene.written(1).remove(0);
    let mut import = scene.start(&[]);
    let blocked = "select count(*) from information_schema.innodb_trx t join information_schema.processlist p \
                   on p.id = t.trx_mysql_thread_id where t.trx_state = 'LOCK WAIT' and p.db = database()";
    until("the import to wait", async || {
        // Asked again within a tenth of a second, the server tells what it told last: https://bugs.mysql.com/bug.php?id=48883
        tokio::time::sleep(Duration::from_millis(150)).await;
        scene.database.count(blocked).await == 1
    })
    .await;
    assert_eq!(scene.counts().await, (2, 0), "nothing passes the open transaction");
    tx.commit().await.unwrap();
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_eq!(scene.database.sql(IDS).await, [first.id.as_str(), id, &last.id].join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivered_and_given_up_messages_stay() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(9);
    scene.database.sql(&format!("update outbox set state = 1 where id = '{}'", written[0].id)).await;
    scene.database.sql(&format!("update outbox set state = 2 where id = '{}'", written[4].id)).await;
    assert!(scene.ends(0, &[]).contains("7 pending, 0 of them locked by a dispatcher; 1 given up; 1 delivered"));
    assert_eq!(scene.counts().await, (2, 7));
    scene.ends(0, &["-take-given-up"]);
    assert_eq!(scene.counts().await, (1, 8));
    assert_eq!(scene.database.sql("select state from outbox").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_transaction_protects_is_refused() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(2);
    scene.database.sql("alter table outbox engine = MyISAM").await;
    assert!(scene.ends(1, &[]).contains("alter table `outbox` engine = InnoDB"));
    scene.database.sql("alter table outbox engine = InnoDB").await;
    scene.database.sql(&format!("insert into outbox select * from outbox where id = '{}'", written[0].id)).await;
    assert!(scene.ends(1, &[]).contains("stands twice"));
    assert!(scene.ends(1, &["-table", "nowhere"]).contains("name it with -table"));
    assert!(scene.ends(1, &["-prefix", "other_"]).contains("postrider migrate"));
    assert_eq!(scene.counts().await, (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_key_of_the_table_its_number_or_the_moment_tells_the_order() {
    for (alter, order) in [
        ("alter table outbox add column number bigint auto_increment unique first, add primary key (id)", "number"),
        ("alter table outbox add primary key (id)", "created_on"),
    ] {
        let Some(scene) = Scene::set().await else { return };
        let written = scene.written(60);
        scene.database.sql(alter).await;
        // Whole seconds: a moment of its own for each.
        let later = |(n, old): (usize, &Old)| {
            format!("update outbox set created_on = '2020-01-01' + interval {n} second where id = '{}';", old.id)
        };
        scene.database.sql(&written.iter().enumerate().map(later).collect::<String>()).await;
        scene.ends(0, &["-batch", "7"]);
        let moved = scene.database.sql(IDS).await;
        assert!(moved.lines().eq(written.iter().map(|old| old.id.as_str())), "{order}");
    }
}

/// The rights that its README names are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rights_are_enough_and_keyless_messages_may_get_a_key() {
    let Some(scene) = Scene::set().await else { return };
    let written = scene.written(21);
    let (name, user) = (&scene.database.name, format!("import_{}", scene.database.name));
    scene.database.sql(&format!("create user {user}@'127.0.0.1' identified by 'secret'")).await;
    scene.database.sql(&format!("grant select, delete on {name}.outbox to {user}@'127.0.0.1'")).await;
    scene.database.sql(&format!("grant insert on {name}.postrider_outbox to {user}@'127.0.0.1'")).await;
    let url = scene.database.server.url_as(&user, "secret", name);
    let ran = scene.import.run(&url, &["-key-of-keyless", "all"]);
    assert_eq!(ran.status.code(), Some(0), "{}", told(&ran));
    let keyless: Vec<&str> = written.iter().filter(|old| old.key.is_empty()).map(|old| old.id.as_str()).collect();
    assert_eq!(keyless.len(), 3);
    let ids = "select message_id from postrider_outbox where `key` = 'all' order by id";
    assert!(scene.database.sql(ids).await.lines().eq(keyless));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_flags_and_addresses_are_told() {
    let Some(scene) = Scene::set().await else { return };
    for (flags, expected) in [
        (&["-batch", "0"][..], "1 to 1000"),
        (&["-table", "a`b"], "no name of a table"),
        (&["-prefix", "x y"], "no name of a table"),
        (&["more"], "unexpected"),
    ] {
        let said = scene.ends(2, flags);
        assert!(said.contains(expected), "{said}");
    }
    assert!(scene.ends(0, &["-help"]).contains("examples:"));
    let ran = scene.import.run("postgres://u:canary@h/d", &[]);
    let said = told(&ran);
    assert!(ran.status.code() == Some(1) && said.contains("mysql://user") && !said.contains("canary"), "{said}");
}
