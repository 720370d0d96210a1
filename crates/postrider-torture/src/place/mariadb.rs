//! MariaDB, or MySQL in its place: a private server, a ledger beside the outbox, and a trigger that writes down what leaves it.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};
use postrider_testkit::command::command;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::mariadb::{Family, Mariadb};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::store::{Books, Gone, Look, Numbers, Owned};
use crate::Fallible;
use crate::settings::Settings;
use crate::writers::keys;

const SETUP: &str = include_str!("mariadb.sql");
const COUNT: &str = "select count(case when state not in (1, 3) then 1 end), count(case when state in (1, 3) then 1 end), \
    count(case when state = 3 then 1 end) from postrider_outbox";
const HELD: &str = "select distinct `key` from postrider_outbox where state = 3";
const LANES: &str = "select l.lane, l.term, m.name from postrider_lane l left join torture_member m on m.id = l.owner";
/// A session rests between two statements of a transaction too, for a moment.
const IDLE: &str = "select count(*) from information_schema.innodb_trx t \
    join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.command = 'Sleep' and p.time > 0";
const BYTES_ON_MARIADB: &str = "select coalesce((select file_size from information_schema.innodb_sys_tablespaces \
    where name = concat(database(), '/postrider_outbox')), 0), @@innodb_log_file_size";
const BYTES_ON_MYSQL: &str = "select coalesce((select file_size from information_schema.innodb_tablespaces \
    where name = concat(database(), '/postrider_outbox')), 0), @@innodb_redo_log_capacity";
const CONNECTIONS: &str = "select count(*) from information_schema.processlist where user = ?";
const SESSIONS: &str = "select id from information_schema.processlist where user regexp '^r[0-9]' and mod(id, 3) = ?";
const LEDGER: &str = "select message_id, `key`, n from torture_ledger";
const GONE: &str = "select message_id, state, lane, term, by_owner, by_whom, at from torture_gone";
const LEFT: &str = "select message_id, state, dead_reason from postrider_outbox";
/// Of several transactions that wait for each other the one that changed least is undone: this one changes more than a
/// settle does.
const WEIGHT_ON_MARIADB: &str = "insert into torture_scratch (note) select 'weight' from seq_1_to_1500";
const WEIGHT_ON_MYSQL: &str = "insert into torture_scratch (note) with recursive c (n) as \
    (select 1 union all select n + 1 from c where n < 750) select 'weight' from c join (select 1 union all select 2) twice";
const ROWS_FIRST: &str = "select id from postrider_outbox where state = 0 order by id limit 500 for update skip locked";
const LANES_THEN: &str = "select lane from postrider_lane for update";
/// This driver goes to the server's socket by itself, past every proxy, where it is told that it may.
const BY_TCP: &str = "prefer_socket=false";
const PATIENCE: Duration = Duration::from_secs(5);
const LOCKS_WITHIN: Duration = Duration::from_secs(20);
/// How long rows are kept locked until a settle must stand behind them.
const RESTS: Duration = Duration::from_millis(60);

/// The server and what is known about it.
#[derive(Debug)]
pub struct MariadbPlace {
    server: Mutex<Mariadb>,
    family: Family,
    version: String,
    database: String,
    port: u16,
    /// Its own address of the database, as the administrator.
    url: String,
    writers: Proxy,
    looker: Mutex<Option<Conn>>,
}

impl MariadbPlace {
    /// Starts a server with an outbox, whose tables the relay's own program makes.
    ///
    /// # Errors
    /// When the server is missing or does not start, or the program was built without this store.
    pub async fn start(settings: &Settings, family: Family) -> Fallible<Self> {
        let server = Mariadb::start_of(family, &[]).await?;
        let (port, database) = (server.port(), server.create_database().await?);
        let admin = server.url_for(&database);
        let mut migrate = command(&settings.relay_bin.to_string_lossy());
        let migrated = migrate.args(["migrate", "--store", &admin]).current_dir(&settings.out).output()?;
        if !migrated.status.success() {
            return Err(format!("postrider migrate: {}", String::from_utf8_lossy(&migrated.stderr)).into());
        }
        let url = format!("{admin}?{BY_TCP}");
        let mut connection = connect(&url).await?;
        for statement in SETUP.split("\n;\n") {
            connection.query_drop(statement).await?;
        }
        let counters: Vec<String> = keys(settings.keys).iter().map(|key| format!("('{key}', 0)")).collect();
        connection.query_drop(format!("insert into torture_counter values {}", counters.join(", "))).await?;
        let version: Option<String> = connection.query_first("select version()").await?;
        let name = match family {
            Family::Mariadb => "MariaDB",
            Family::Mysql => "MySQL",
        };
        let version = version.unwrap_or_default();
        let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        Ok(Self {
            family,
            server: Mutex::new(server),
            version: format!("{name} {}", version.split('-').next().unwrap_or_default()),
            database,
            port,
            url,
            writers: Proxy::start(address, b"").await?,
            looker: Mutex::default(),
        })
    }

    /// Its name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address by a port of a proxy, for the user of this name.
    pub fn url(&self, port: u16, name: &str) -> String {
        format!("mysql://{name}:relay@127.0.0.1:{port}/{}", self.database)
    }

    /// The address for the application.
    pub fn writers_url(&self) -> String {
        let port = self.writers.port();
        format!("mysql://application:application@127.0.0.1:{port}/{}?{BY_TCP}", self.database)
    }

    /// What stands between the application and the server.
    pub fn writers(&self) -> &Proxy {
        &self.writers
    }

    /// The server, for those who hurt it.
    pub fn server(&self) -> &Mutex<Mariadb> {
        &self.server
    }

    /// Starts the server again with its data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&self, numbers: Numbers) -> Fallible<()> {
        let mut server = self.server.lock().await;
        match numbers {
            Numbers::GoOn => server.restart().await?,
            Numbers::GoBack => {
                let back = format!("alter table {}.postrider_outbox auto_increment = 1;\n", self.database);
                server.restart_after(&back).await?;
            }
        }
        Ok(())
    }

    /// One look, on a connection that is kept while it works.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn look(&self) -> Fallible<Look> {
        let mut kept = self.looker.lock().await;
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => connect(&self.url).await?,
        };
        let look = timeout(PATIENCE, looked(&mut connection, self.family)).await??;
        *kept = Some(connection);
        Ok(look)
    }

    /// How many connections the user of this name has.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn connections(&self, name: &str) -> Fallible<u64> {
        let mut kept = self.looker.lock().await;
        let Some(mut connection) = kept.take() else { return Ok(0) };
        let count: Option<u64> = timeout(PATIENCE, connection.exec_first(CONNECTIONS, (name,))).await??;
        *kept = Some(connection);
        Ok(count.unwrap_or(0))
    }

    /// The keys that are held.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn held(&self) -> Fallible<Vec<String>> {
        let mut connection = connect(&self.url).await?;
        let keys: Vec<Option<String>> = timeout(PATIENCE, connection.query(HELD)).await??;
        Ok(keys.into_iter().flatten().collect())
    }

    /// Kills a third of the relays' sessions.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn kill_sessions(&self, draw: u64) -> Fallible<()> {
        let mut connection = connect(&self.url).await?;
        let sessions: Vec<u64> = timeout(PATIENCE, connection.exec(SESSIONS, (draw % 3,))).await??;
        for session in sessions {
            // One that has ended meanwhile is none any more.
            match timeout(PATIENCE, connection.query_drop(format!("kill {session}"))).await? {
                Ok(()) | Err(mysql_async::Error::Server(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Locks the table against everybody for a while.
    ///
    /// # Errors
    /// When the lock was not to be had in time, or the server went away.
    pub async fn lock(&self, lasts: Duration) -> Fallible<()> {
        let mut connection = connect(&self.url).await?;
        // Longer than any writer is idle in its transaction. Who waits for this lock keeps everybody else waiting too.
        connection.query_drop("set session lock_wait_timeout = 15").await?;
        timeout(LOCKS_WITHIN, connection.query_drop("lock tables postrider_outbox write")).await??;
        sleep(lasts).await;
        timeout(PATIENCE, connection.query_drop("unlock tables")).await??;
        Ok(())
    }

    /// Locks rows first and lanes then, where a settle locks lanes first and rows then; again and again for a while. In how
    /// many rounds it made a deadlock in which a settle was undone.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn deadlock(&self, lasts: Duration) -> Fallible<u64> {
        let mut connection = connect(&self.url).await?;
        connection.query_drop("set session transaction isolation level read committed").await?;
        let weight = match self.family {
            Family::Mariadb => WEIGHT_ON_MARIADB,
            Family::Mysql => WEIGHT_ON_MYSQL,
        };
        let (mut won, until) = (0, Instant::now() + lasts);
        while Instant::now() < until {
            for statement in ["start transaction", weight, ROWS_FIRST] {
                timeout(PATIENCE, connection.query_drop(statement)).await??;
            }
            sleep(RESTS).await;
            let before = self.deadlocks(&mut connection).await?;
            let got_the_lanes = match timeout(PATIENCE, connection.query_drop(LANES_THEN)).await? {
                Ok(()) => true,
                // This one was undone itself, or waited for a writer of lanes too long.
                Err(mysql_async::Error::Server(_)) => false,
                Err(error) => return Err(error.into()),
            };
            // The writers meet deadlocks of their own: it counts what was ended while this one waited, and only where it
            // waited for the lanes until somebody else was undone.
            won += u64::from(got_the_lanes && self.deadlocks(&mut connection).await? > before);
            timeout(PATIENCE, connection.query_drop("rollback")).await??;
        }
        Ok(won)
    }

    async fn deadlocks(&self, connection: &mut Conn) -> Fallible<u64> {
        Ok(timeout(PATIENCE, connection.query_first(self.family.deadlocks())).await??.unwrap_or(0))
    }

    /// Everything.
    ///
    /// # Errors
    /// What the server said.
    pub async fn books(&self) -> Fallible<Books> {
        let mut connection = connect(&self.url).await?;
        let mut books = Books::default();
        let ledger: Vec<(String, String, u32)> = connection.query(LEDGER).await?;
        for (id, key, n) in ledger {
            books.ledger.push((Uuid::parse_str(&id)?, key, n));
        }
        type Left = (String, i16, u16, Option<i64>, bool, String, i64);
        let gone: Vec<Left> = connection.query(GONE).await?;
        for (id, state, lane, term, by_owner, by, wall) in gone {
            books.gone.push(Gone {
                id: Uuid::parse_str(&id)?,
                state,
                terms: vec![(Some(lane), term.unwrap_or(-1))],
                by_owner: Some(by_owner),
                by,
                wall: wall.into(),
            });
        }
        let left: Vec<(String, i16, Option<i16>)> = connection.query(LEFT).await?;
        for (id, state, reason) in left {
            let id = Uuid::parse_str(&id)?;
            match state {
                1 | 3 => books.dead.push((id, reason.unwrap_or(0))),
                _ => books.pending.push(id),
            }
        }
        Ok(books)
    }
}

async fn looked(connection: &mut Conn, family: Family) -> Fallible<Look> {
    let counts: Option<(u64, u64, u64)> = connection.query_first(COUNT).await?;
    let (pending, dead, holding) = counts.unwrap_or_default();
    let lanes: Vec<(u16, i64, Option<String>)> = connection.query(LANES).await?;
    let idle: Option<u64> = connection.query_first(IDLE).await?;
    let bytes = match family {
        Family::Mariadb => BYTES_ON_MARIADB,
        Family::Mysql => BYTES_ON_MYSQL,
    };
    let bytes: Option<(u64, u64)> = connection.query_first(bytes).await?;
    let (table, log) = bytes.unwrap_or_default();
    let lanes = lanes.into_iter().map(|(lane, term, owner)| Owned { lane, term, owner }).collect();
    Ok(Look { pending, dead, holding, lanes, idle: idle.unwrap_or(0), table, log })
}

async fn connect(url: &str) -> Fallible<Conn> {
    Ok(timeout(PATIENCE, Conn::new(Opts::from_url(url)?)).await??)
}
