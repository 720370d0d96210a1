//! PgBouncer in transaction mode, in front of a private PostgreSQL.

use std::time::Duration;

use super::postgres::{PASSWORD, Postgres, USER};
use super::process::{Folder, Process, Recipe, ServerError, Signal, find, free_port};

const PASSWORD_IN_URL: &str = "a%20pass%2Fword%40for%3Atests";
const PATIENCE: Duration = Duration::from_secs(20);

/// One PgBouncer, ended on drop.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    _folder: Folder,
}

impl PgBouncer {
    /// A pooler in transaction mode with `connections` server connections per database, for every database of a
    /// server.
    ///
    /// # Errors
    /// When PgBouncer is not installed or does not start.
    pub async fn start(server: &Postgres, connections: u32) -> Result<Self, ServerError> {
        Self::start_with(server, connections, "").await
    }

    /// The same with more lines of settings, such as `ignore_startup_parameters = options`.
    ///
    /// # Errors
    /// When PgBouncer is not installed or does not start.
    pub async fn start_with(server: &Postgres, connections: u32, settings: &str) -> Result<Self, ServerError> {
        let program = find("pgbouncer", &[], "pgbouncer")?;
        let (folder, port) = (Folder::create()?, free_port()?);
        let users = folder.write("users.txt", &format!("\"{USER}\" \"{PASSWORD}\"\n"))?;
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\nserver_login_retry = 1\n\
             {settings}\n",
            server.port(),
            users.display()
        );
        let config = folder.write("pgbouncer.ini", &config)?;
        let mut recipe = Recipe::new(program, folder.path()).args([config]);
        recipe.graceful = Signal::Interrupt;
        let mut bouncer = Self { process: Process::spawn(recipe)?, port, _folder: folder };
        bouncer
            .process
            .ready(PATIENCE, async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok())
            .await?;
        Ok(bouncer)
    }

    /// The URL of one of the server's databases through the pooler, as superuser.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{}/{database}", self.port)
    }

    /// Stops the pooler.
    pub fn stop(&mut self) {
        self.process.stop();
    }
}
