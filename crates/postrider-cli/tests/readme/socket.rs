//! The PostgreSQL of a reader who followed the document: at a socket, without a password, with the reader's own role and
//! database. The folder of the socket is another one; every other word of the address is the document's.

use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::servers::process::ServerError;

use crate::blocks::Block;

/// The folder of Debian's socket, as an address writes it.
const FOLDER: &str = "%2Fvar%2Frun%2Fpostgresql";
/// The shell's name for who reads.
const READER: &str = "$USER";

/// The address of a database at a socket that the document tells its readers to export.
pub fn address(blocks: &[Block]) -> Option<&str> {
    let lines = blocks.iter().flat_map(|block| block.text.lines());
    let mut exported = lines.filter_map(|line| line.split_once("export DATABASE_URL=\"")?.1.split('"').next());
    exported.find(|address| address.contains(FOLDER))
}

/// A cluster of its own with such a socket.
#[derive(Debug)]
pub struct Socket(Postgres);

impl Socket {
    /// Starts it.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        let server = Postgres::start_with(&["unix_socket_directories=."]).await?;
        std::fs::write(server.data().join("pg_hba.conf"), "local all all trust\nhost all all all scram-sha-256\n")
            .unwrap();
        // An address without a port means this one, whatever the port of the server is.
        std::os::unix::fs::symlink(format!(".s.PGSQL.{}", server.port()), server.data().join(".s.PGSQL.5432")).unwrap();
        for statement in ["select pg_reload_conf()", "create role reader superuser login", "create database shop"] {
            server.psql("postgres", statement).await?;
        }
        Ok(Self(server))
    }

    /// The document's address, at this socket.
    pub fn url(&self, address: &str) -> String {
        let folder = self.0.data().display().to_string().replace('/', "%2F");
        let url = address.replace(READER, "reader").replace(FOLDER, &folder);
        assert!(!url.contains('$'), "nobody knows what {address} stands for");
        url
    }
}
