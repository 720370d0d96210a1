//! One connection, opened when it is needed and dropped at the first doubt.
//!
//! Statements are unnamed and typed, so that nothing of them stays behind in a pooled server connection. Only those of
//! the hot path are prepared, and only where nothing stands between: planning a page took as long as finding its rows.
//! While a statement runs, the connection is out of its place: a call that is cancelled, times out or fails takes the
//! connection with it, and the next call opens a new one.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use postrider_core::{Error, ErrorKind, Result};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::classify::{connecting, silent, working};
use super::options::{Pooling, PostgresOptions};
use super::tls::Connector;
use super::{holders, rights};

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reading and settling by index only: the planner is told so, because the statistics of a table that is always
    /// nearly empty or has just been filled mislead it. Its plans need no parameters, so they are made once.
    Hot,
    /// The same where settled rows are moved, not only deleted: how many there are decides how that is planned.
    Moving,
    /// Everything else.
    Cold,
}

/// A parameter with its type.
pub(super) type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

const CONNECT: Duration = Duration::from_secs(10);
/// How long an error may take to say who holds a lock, or which right is missing.
const ASKING: Duration = Duration::from_secs(3);
const PLANNER: &str = " -c max_parallel_workers_per_gather=0 -c jit=off -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_sort=off";
const PLANS: &str = " -c plan_cache_mode=force_generic_plan";
/// Whether the settings arrived: a pooler that swallows them shares its connections, and what is prepared on one of them
/// is somebody else's at the next statement.
const IS_OURS: &str = "select current_setting('plan_cache_mode') = 'force_generic_plan'";

/// A connection, with what was prepared on it.
struct Open {
    client: Client,
    /// None where nothing may be prepared.
    prepared: Option<HashMap<String, Statement>>,
}

/// A connection of our own that mends itself.
pub(super) struct Link {
    options: Arc<PostgresOptions>,
    tls: Connector,
    purpose: Purpose,
    open: Option<Open>,
    generation: u64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("place", &self.options.place).field("purpose", &self.purpose).finish()
    }
}

impl Link {
    pub(super) fn new(options: &Arc<PostgresOptions>, tls: &Connector, purpose: Purpose) -> Self {
        Self { options: Arc::clone(options), tls: tls.clone(), purpose, open: None, generation: 0 }
    }

    pub(super) fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// The number of the connection that stands; none when none does, as far as is known.
    pub(super) fn standing(&self) -> Option<u64> {
        self.open.as_ref().filter(|open| !open.client.is_closed()).map(|_| self.generation)
    }

    /// Whether the connection that stands is known to end at the server itself, and to be nobody else's.
    pub(super) fn is_our_own(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.prepared.is_some())
    }

    /// Runs one statement and returns its rows.
    pub(super) async fn query(&mut self, doing: &str, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let open = self.take().await?;
        let call = self.bounded(&open.client, open.client.query_typed(sql, parameters));
        let rows = self.within(doing, sql, call).await?;
        self.open = Some(open);
        Ok(rows)
    }

    /// Runs one statement that is run again and again, and returns its rows.
    pub(super) async fn query_often(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.each_often(doing, sql, parameters, |row| rows.push(row)).await?;
        Ok(rows)
    }

    /// Runs one statement that is run again and again, and hands on each of its rows as it comes: they are read while the
    /// server finds the next ones, and out of the way before these come.
    pub(super) async fn each_often(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
        each: impl FnMut(Row),
    ) -> Result<()> {
        let mut open = self.take().await?;
        self.within(doing, sql, open.each_prepared(sql, parameters, each)).await?;
        self.open = Some(open);
        Ok(())
    }

    /// Runs one statement and returns its only row.
    pub(super) async fn query_one(&mut self, doing: &str, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row> {
        only(doing, self.query(doing, sql, parameters).await?)
    }

    /// Runs one statement that is run again and again, and returns its only row.
    pub(super) async fn query_one_often(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Row> {
        only(doing, self.query_often(doing, sql, parameters).await?)
    }

    /// Runs one statement and returns how many rows it changed.
    pub(super) async fn execute(&mut self, doing: &str, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64> {
        let open = self.take().await?;
        let call = self.bounded(&open.client, open.client.execute_typed(sql, parameters));
        let changed = self.within(doing, sql, call).await?;
        self.open = Some(open);
        Ok(changed)
    }

    /// Runs a script without parameters; the caller judges the error.
    pub(super) async fn script(&mut self, sql: &str) -> Result<Result<(), tokio_postgres::Error>> {
        let open = self.take().await?;
        let limit = self.options.timeout;
        let done = tokio::time::timeout(limit, open.client.batch_execute(sql)).await;
        let done = done.map_err(|_| timed_out("running a script", limit))?;
        if done.is_ok() {
            self.open = Some(open);
        }
        Ok(done)
    }

    /// Runs one statement in a transaction of its own in which the server ends it after `limit`.
    pub(super) async fn query_limited(
        &mut self,
        doing: &str,
        limit: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let open = self.take().await?;
        let client = &open.client;
        let begin = format!("begin read only; set local statement_timeout = {}", limit.as_millis().max(1));
        let begin = self.options.lock_wait.map_or(begin.clone(), |wait| format!("{begin}; {}", lock_timeout(wait)));
        let call = in_transaction(client, begin, client.query_typed(sql, parameters));
        let rows = self.within(doing, sql, call).await?;
        self.open = Some(open);
        Ok(rows)
    }

    async fn take(&mut self) -> Result<Open> {
        match self.open.take() {
            Some(open) if !open.client.is_closed() => Ok(open),
            Some(_) | None => {
                let client = self.connect().await?;
                let is_ours = self.options.pooling == Pooling::Direct && self.purpose == Purpose::Hot && {
                    let asked = self
                        .within("reading the planner's settings", IS_OURS, client.query_typed(IS_OURS, &[]))
                        .await?;
                    asked.first().is_some_and(|row| row.try_get(0).unwrap_or(false))
                };
                Ok(Open { client, prepared: is_ours.then(HashMap::new) })
            }
        }
    }

    async fn within<T>(
        &self,
        doing: &str,
        sql: &str,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let limit = self.options.timeout;
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(doing, sql, error).await),
            Err(_) => Err(timed_out(doing, limit)),
        }
    }

    /// A call whose statement waits for locks as long as the options say: in a transaction, because a pooler gives the
    /// server's connection to somebody else after it.
    async fn bounded<T>(
        &self,
        client: &Client,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        match self.options.lock_wait {
            None => call.await,
            Some(wait) => in_transaction(client, format!("begin; {}", lock_timeout(wait)), call).await,
        }
    }

    /// What a failed statement means. Who holds a lock and which right is missing is asked on another connection: that of
    /// the statement is in doubt.
    pub(super) async fn failed(&self, doing: &str, sql: &str, error: tokio_postgres::Error) -> Error {
        let code = error.code().cloned();
        let message = error.as_db_error().map(|told| told.message().to_owned()).unwrap_or_default();
        let plain = working(doing, error);
        let asking = async {
            match (code, self.options.lock_wait) {
                (Some(SqlState::LOCK_NOT_AVAILABLE), Some(_)) => {
                    Some(holders::locked(&self.fresh().await.ok()?, &self.options.names, doing, sql).await)
                }
                (Some(SqlState::INSUFFICIENT_PRIVILEGE), _) if self.purpose == Purpose::Cold => {
                    rights::missing(&self.fresh().await.ok()?, &self.options.names, doing, sql, &message).await
                }
                _ => None,
            }
        };
        tokio::time::timeout(ASKING, asking).await.ok().flatten().unwrap_or(plain)
    }

    async fn connect(&mut self) -> Result<Client> {
        let client = self.fresh().await?;
        self.generation += 1;
        Ok(client)
    }

    async fn fresh(&self) -> Result<Client> {
        let mut config = self.options.config.clone();
        config.connect_timeout(CONNECT).keepalives(true).keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        config.tcp_user_timeout(self.options.timeout);
        if config.get_application_name().is_none() {
            config.application_name("postrider");
        }
        if self.options.pooling == Pooling::Direct {
            let given = config.get_options().map(ToOwned::to_owned).unwrap_or_default();
            let (planner, plans) = match self.purpose {
                Purpose::Hot => (PLANNER, PLANS),
                Purpose::Moving => (PLANNER, ""),
                Purpose::Cold => ("", ""),
            };
            // The server's own limit ends what a client that gave up has left running.
            let limit = self.options.timeout.as_millis().max(1);
            config.options(format!("{given} -c statement_timeout={limit}{planner}{plans}"));
        }
        let connected = tokio::time::timeout(CONNECT, config.connect(self.tls.clone())).await;
        let Ok(connected) = connected else {
            return Err(silent(&self.options.place));
        };
        let (client, connection) = connected.map_err(|error| connecting(&self.options, error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        Ok(client)
    }
}

impl Open {
    async fn each_prepared(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
        mut each: impl FnMut(Row),
    ) -> Result<(), tokio_postgres::Error> {
        let rows = match &mut self.prepared {
            None => {
                let parameters = parameters.iter().map(|(value, kind)| (*value, kind.clone()));
                self.client.query_typed_raw(sql, parameters).await?
            }
            Some(prepared) => {
                let statement = match prepared.get(sql) {
                    Some(statement) => statement,
                    None => {
                        let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
                        let statement = self.client.prepare_typed(sql, &types).await?;
                        prepared.entry(sql.to_owned()).or_insert(statement)
                    }
                };
                self.client.query_raw(statement, parameters.iter().map(|(value, _)| *value)).await?
            }
        };
        let mut rows = pin!(rows);
        while let Some(row) = rows.try_next().await? {
            each(row);
        }
        Ok(())
    }
}

fn lock_timeout(wait: Duration) -> String {
    format!("set local lock_timeout = {}", wait.as_millis().max(1))
}

/// Runs a call that has not begun in a transaction that begins like this.
async fn in_transaction<T>(
    client: &Client,
    begin: String,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    client.batch_execute(&begin).await?;
    let value = call.await;
    if value.is_err() {
        // A pooler keeps the server's connection for this transaction until it ends, and another one may be needed to tell why.
        drop(client.batch_execute("rollback").await);
        return value;
    }
    client.batch_execute("commit").await?;
    value
}

fn only(doing: &str, mut rows: Vec<Row>) -> Result<Row> {
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        _ => Err(Error::new(ErrorKind::Config, format!("{doing}: expected one row; run `postrider check`"))),
    }
}

fn timed_out(doing: &str, limit: Duration) -> Error {
    let what = format!("{doing}: PostgreSQL did not answer within {limit:?}; the outcome is not known");
    Error::new(ErrorKind::Unknown, what)
}
