//! One connection: TCP or TLS, and the greeting, in which a server says what it is.

use std::collections::HashMap;
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, Value, from_redis_value, pipe};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::classify::{greeting, misnamed, unreachable};
use super::options::RedisOptions;

/// A connection of one call at a time. Dropped, it is closed, whatever is under way on it.
pub(super) struct Connection {
    pub(super) client: MultiplexedConnection,
    driver: JoinHandle<()>,
    /// What the server calls itself, with its version.
    pub(super) server: String,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Whether the other side has ended it.
    pub(super) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Connects to a primary.
    ///
    /// # Errors
    /// `Unavailable` or `Config`: nothing was asked but who it is.
    pub(super) async fn open(options: &RedisOptions, tls: Option<&Arc<ClientConfig>>) -> Result<Self> {
        let unreached = |error| unreachable(options, &error);
        let stream = TcpStream::connect((options.host.as_str(), options.port)).await.map_err(unreached)?;
        stream.set_nodelay(true).map_err(unreached)?;
        let Some(tls) = tls else { return Self::greet(options, stream).await };
        let name = ServerName::try_from(options.host.clone()).map_err(|_| misnamed(options))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(unreached)?;
        Self::greet(options, stream).await
    }

    async fn greet<S>(options: &RedisOptions, stream: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Without a login in it nothing is sent yet: what a server says to that is told in its own words below.
        let (info, config) = (RedisConnectionInfo::default(), AsyncConnectionConfig::new());
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (client, driver) = made.map_err(|error| greeting(options, &error))?;
        let mut connection = Self { client, driver: tokio::spawn(driver), server: String::new() };
        let mut hello = pipe();
        hello.cmd("HELLO").arg(2);
        if let Some(password) = &options.password {
            hello.arg("AUTH").arg(&options.user).arg(password);
        }
        hello.arg("SETNAME").arg("postrider");
        if options.database != 0 {
            hello.cmd("SELECT").arg(options.database);
        }
        let said: Vec<Value> =
            hello.query_async(&mut connection.client).await.map_err(|error| greeting(options, &error))?;
        let said: HashMap<String, Value> =
            said.first().and_then(|said| from_redis_value(said).ok()).unwrap_or_default();
        let of = |what: &str| said.get(what).and_then(|value| from_redis_value::<String>(value).ok());
        is_primary(options, of("mode").as_deref(), of("role").as_deref())?;
        let [server, version] = ["server", "version"].map(|what| of(what).unwrap_or_else(|| "of unknown".to_owned()));
        connection.server = format!("{server} {version}");
        Ok(connection)
    }
}

/// Whether it is a server by itself that takes writes.
fn is_primary(options: &RedisOptions, mode: Option<&str>, role: Option<&str>) -> Result<()> {
    let (kind, what, step) = match (mode, role) {
        (Some("standalone"), Some("master")) => return Ok(()),
        (Some("cluster"), _) => (
            ErrorKind::Config,
            "is a node of a cluster, whose answer that a key has moved is not followed",
            "use a server that is not in cluster mode",
        ),
        (Some("sentinel"), _) => (ErrorKind::Config, "is a Sentinel", "give the URL of the primary that it watches"),
        (Some("standalone"), Some("slave" | "replica")) => {
            (ErrorKind::Unavailable, "is a read replica, which answers by what was", "give the URL of the primary")
        }
        _ => (ErrorKind::Config, "does not say what it is", "use Redis 6 or newer, or Valkey, without a proxy between"),
    };
    Err(Error::new(kind, format!("the server at {} {what}", options.place())).advise(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_primary_by_itself_is_asked() {
        let options = RedisOptions::new("redis://h/0").unwrap();
        is_primary(&options, Some("standalone"), Some("master")).unwrap();
        for (mode, role, kind) in [
            (Some("cluster"), Some("master"), ErrorKind::Config),
            (Some("sentinel"), None, ErrorKind::Config),
            (Some("standalone"), Some("replica"), ErrorKind::Unavailable),
            (Some("standalone"), Some("slave"), ErrorKind::Unavailable),
            (None, None, ErrorKind::Config),
        ] {
            let error = is_primary(&options, mode, role).unwrap_err();
            assert!(error.kind() == kind && error.advice().is_some(), "{mode:?} {role:?}: {error}");
        }
    }
}
