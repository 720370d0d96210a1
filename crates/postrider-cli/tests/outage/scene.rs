//! A database with an outbox, the real relay over it, and everything that can be seen of both.

use std::time::{Duration, Instant};

use postrider_testkit::servers::postgres::shared;
use postrider_testkit::servers::process::ServerError;
use tokio_postgres::{Client, NoTls};

use crate::harness::{Place, Relay, Run};

/// How long a backlog may take to drain.
const PATIENCE: Duration = Duration::from_secs(180);

/// Writes down every attempt that is ever charged and every message that ever dies, also of messages that are gone.
const CHARGES: &str = "
    create table charge (message_id uuid, attempts integer, state smallint, errors text);
    create function note_charge() returns trigger language plpgsql as $$
    begin
      insert into charge values (new.message_id, new.attempts, new.state, new.errors::text);
      return null;
    end $$;
    create trigger note_charge after update on postrider_outbox for each row
      when (new.attempts > 0 or new.state in (1, 3)) execute function note_charge();";
const CHARGED: &str =
    "select message_id::text, max(attempts), bool_or(state in (1, 3)), max(errors) from charge group by 1";
const LEFT: &str = "select count(*) filter (where state not in (1, 3)), count(*) filter (where state in (1, 3)) \
    from postrider_outbox";

/// A message that was charged with attempts, or died.
#[derive(Debug)]
#[expect(dead_code, reason = "a failing test prints it")]
pub struct Charged {
    pub id: String,
    pub attempts: i32,
    pub dead: bool,
    pub errors: Option<String>,
}

/// What the outbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub pending: i64,
    pub dead: i64,
}

pub struct Scene {
    pub place: Place,
    pub url: String,
    client: Client,
    relay: Relay,
}

impl Scene {
    /// A fresh database, and a relay with this configuration of its broker beside small limits.
    ///
    /// # Errors
    /// When PostgreSQL is not there.
    pub async fn set(broker: &str) -> Result<Self, ServerError> {
        let (server, place) = (shared().await?, Place::empty());
        let url = server.fresh_database().await?;
        // The window is small, so that even a short outage fills it.
        let config = format!(
            "[outbox]\nstore = \"{url}\"\n[relay]\nlease = \"3s\"\nmax_pause = \"1s\"\nwindow_rows = 800\n\
             [retry]\nmax_attempts = 4\ninitial = \"50ms\"\nmaximum = \"1s\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [broker.events]\n{broker}\n"
        );
        place.write("postrider.toml", config);
        place.run(&["migrate"]).good();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(CHARGES).await.unwrap();
        let relay = place.start(&mut place.command(&["relay", "--log-format", "json"]));
        Ok(Self { place, url, client, relay })
    }

    /// Runs `postrider status`.
    pub fn status(&self) -> Run {
        self.place.run(&["status", "--admin", &self.relay.admin])
    }

    pub fn log(&self) -> String {
        self.relay.log()
    }

    /// Everything that was ever charged or died here.
    pub async fn charged(&self) -> Vec<Charged> {
        let rows = self.client.query(CHARGED, &[]).await.unwrap();
        let charged = |row: &tokio_postgres::Row| Charged {
            id: row.get(0),
            attempts: row.get(1),
            dead: row.get(2),
            errors: row.get(3),
        };
        rows.iter().map(charged).collect()
    }

    /// What the outbox holds now.
    pub async fn left(&self) -> Left {
        let row = self.client.query_one(LEFT, &[]).await.unwrap();
        Left { pending: row.get(0), dead: row.get(1) }
    }

    /// Waits until the outbox holds what it should; tells how long it took.
    pub async fn comes_to(&self, wanted: impl Fn(Left) -> bool) -> Duration {
        let began = Instant::now();
        loop {
            let left = self.left().await;
            if wanted(left) {
                return began.elapsed();
            }
            assert!(began.elapsed() < PATIENCE, "{left:?} after {PATIENCE:?}: {}\n{}", self.status().out, self.end());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops the relay in good order.
    pub fn ends_well(&mut self) {
        self.relay.terminate();
        assert_eq!(self.relay.ended(), 0, "{}", self.end());
    }

    /// The end of the relay's log.
    fn end(&self) -> String {
        let log = self.log();
        log.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}
