//! PostgreSQL: a private server, a ledger beside the outbox, and a trigger that writes down what leaves it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::postgres::Postgres;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::store::{Books, Gone, Look, Owned};
use crate::Fallible;

/// The fence's lock on the lane still stands when the trigger runs: what it sees of the lane is what the settle saw.
const SETUP: &str = "
create table torture_counter (key text primary key, n integer not null);
create table torture_ledger (message_id uuid primary key, key text not null, n integer not null);
create table torture_scratch (xid text);
create table torture_member (id uuid primary key, name text not null);
create table torture_gone (message_id uuid, state smallint, lane smallint, term bigint, by_owner boolean, by_whom text,
                           at timestamptz);
create function torture_joined() returns trigger language plpgsql as $$
begin
  insert into torture_member values (new.id, new.name) on conflict do nothing;
  return null;
end $$;
create trigger torture_joined after insert on postrider_relay for each row execute function torture_joined();
create function torture_gone() returns trigger language plpgsql as $$
begin
  insert into torture_gone
  select g.message_id, g.state, g.lane, l.term, coalesce(m.name = current_setting('application_name'), false),
         current_setting('application_name'), clock_timestamp()
    from gone g left join postrider_lane l using (lane) left join torture_member m on m.id = l.owner;
  return null;
end $$;
create trigger torture_gone after delete on postrider_outbox referencing old table as gone
  for each statement execute function torture_gone();";
const COUNT: &str = "select count(*) filter (where state not in (1, 3)), count(*) filter (where state in (1, 3)), \
    count(*) filter (where state = 3) from postrider_outbox";
const HELD: &str = "select distinct key from postrider_outbox where state = 3";
const LANES: &str = "select l.lane, l.term, m.name from postrider_lane l left join torture_member m on m.id = l.owner";
const IDLE: &str = "select count(*) from pg_stat_activity where datname = current_database() \
    and state like 'idle in transaction%'";
const BYTES: &str = "select pg_total_relation_size('postrider_outbox'), (select sum(size)::bigint from pg_ls_waldir())";
const CONNECTIONS: &str = "select count(*) from pg_stat_activity where application_name = $1";
const BACKENDS: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
    where datname = current_database() and application_name like 'r%' and mod(pid, 3) = $1::int";
const GONE: &str = "select message_id, state, lane, term, by_owner, by_whom, \
    (extract(epoch from at) * 1000000)::bigint from torture_gone";
const PATIENCE: Duration = Duration::from_secs(5);
const LOCKS_WITHIN: Duration = Duration::from_secs(20);

/// The server and what is known about it.
#[derive(Debug)]
pub struct PostgresPlace {
    server: Mutex<Postgres>,
    version: String,
    port: u16,
    /// Its own address of the database, as the superuser.
    url: String,
    writers: Proxy,
    looker: Mutex<Option<Client>>,
}

impl PostgresPlace {
    /// Starts a server with an outbox.
    ///
    /// # Errors
    /// When it is missing or does not start.
    pub async fn start() -> Fallible<Self> {
        let server = Postgres::start().await?;
        let (port, url) = (server.port(), server.fresh_database().await?);
        let client = connect(&url).await?;
        postrider::migrate(&client).await?;
        client.batch_execute(SETUP).await?;
        let version: String = client.query_one("show server_version", &[]).await?.get(0);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self {
            server: Mutex::new(server),
            version: format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()),
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

    /// The address by a port of a proxy, for a session of this name.
    pub fn url(&self, port: u16, name: &str) -> String {
        let through = self.url.replacen(&format!(":{}/", self.port), &format!(":{port}/"), 1);
        format!("{through}?application_name={name}")
    }

    /// The address for the application.
    pub fn writers_url(&self) -> String {
        self.url(self.writers.port(), "application")
    }

    /// What stands between the application and the server.
    pub fn writers(&self) -> &Proxy {
        &self.writers
    }

    /// The server, for those who hurt it.
    pub fn server(&self) -> &Mutex<Postgres> {
        &self.server
    }

    /// One look, on a connection that is kept while it works.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn look(&self) -> Fallible<Look> {
        let mut kept = self.looker.lock().await;
        let client = match kept.take() {
            Some(client) => client,
            None => connect(&self.url).await?,
        };
        let look = timeout(PATIENCE, looked(&client)).await??;
        *kept = Some(client);
        Ok(look)
    }

    /// How many connections the session of this name has.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn connections(&self, name: &str) -> Fallible<u64> {
        let mut kept = self.looker.lock().await;
        let Some(client) = kept.take() else { return Ok(0) };
        let count: i64 = timeout(PATIENCE, client.query_one(CONNECTIONS, &[&name])).await??.get(0);
        *kept = Some(client);
        Ok(u64::try_from(count)?)
    }

    /// The keys that are held.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn held(&self) -> Fallible<Vec<String>> {
        let client = connect(&self.url).await?;
        let rows = timeout(PATIENCE, client.query(HELD, &[])).await??;
        Ok(rows.iter().filter_map(|row| row.get(0)).collect())
    }

    /// Terminates a third of the relays' backends.
    ///
    /// # Errors
    /// While the server is away.
    pub async fn terminate_backends(&self, draw: u64) -> Fallible<()> {
        let client = connect(&self.url).await?;
        let part = i32::try_from(draw % 3)?;
        timeout(PATIENCE, client.query(BACKENDS, &[&part])).await??;
        Ok(())
    }

    /// Locks the table against everybody for a while.
    ///
    /// # Errors
    /// When the lock was not to be had in time, or the server went away.
    pub async fn lock(&self, lasts: Duration) -> Fallible<()> {
        let client = connect(&self.url).await?;
        // Longer than any writer is idle in its transaction. Who waits for this lock keeps everybody else waiting too.
        let take = "set lock_timeout = '15s'; begin; lock table postrider_outbox in access exclusive mode";
        timeout(LOCKS_WITHIN, client.batch_execute(take)).await??;
        sleep(lasts).await;
        timeout(PATIENCE, client.batch_execute("rollback")).await??;
        Ok(())
    }

    /// Everything.
    ///
    /// # Errors
    /// What the server said.
    pub async fn books(&self) -> Fallible<Books> {
        let client = connect(&self.url).await?;
        let mut books = Books::default();
        for row in client.query("select message_id, key, n from torture_ledger", &[]).await? {
            books.ledger.push((row.get(0), row.get(1), u32::try_from(row.get::<_, i32>(2))?));
        }
        for row in client.query(GONE, &[]).await? {
            let lane: Option<i16> = row.get(2);
            let term: Option<i64> = row.get(3);
            books.gone.push(Gone {
                id: row.get(0),
                state: row.get(1),
                terms: vec![(lane.and_then(|lane| u16::try_from(lane).ok()), term.unwrap_or(-1))],
                by_owner: row.get(4),
                by: row.get::<_, Option<String>>(5).unwrap_or_default(),
                wall: row.get::<_, i64>(6).into(),
            });
        }
        for row in client.query("select message_id, state, dead_reason from postrider_outbox", &[]).await? {
            let (id, state, reason): (Uuid, i16, Option<i16>) = (row.get(0), row.get(1), row.get(2));
            match state {
                1 | 3 => books.dead.push((id, reason.unwrap_or(0))),
                _ => books.pending.push(id),
            }
        }
        Ok(books)
    }
}

async fn looked(client: &Client) -> Fallible<Look> {
    let counts = client.query_one(COUNT, &[]).await?;
    let lanes = client.query(LANES, &[]).await?;
    let idle = client.query_one(IDLE, &[]).await?;
    let bytes = client.query_one(BYTES, &[]).await?;
    Ok(Look {
        pending: u64::try_from(counts.get::<_, i64>(0))?,
        dead: u64::try_from(counts.get::<_, i64>(1))?,
        holding: u64::try_from(counts.get::<_, i64>(2))?,
        lanes: lanes
            .iter()
            .map(|row| Owned {
                lane: u16::try_from(row.get::<_, i16>(0)).unwrap_or(0),
                term: row.get(1),
                owner: row.get(2),
            })
            .collect(),
        idle: u64::try_from(idle.get::<_, i64>(0))?,
        table: u64::try_from(bytes.get::<_, i64>(0))?,
        log: u64::try_from(bytes.get::<_, i64>(1))?,
    })
}

async fn connect(url: &str) -> Fallible<Client> {
    let (client, connection) = timeout(PATIENCE, tokio_postgres::connect(url, NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}
