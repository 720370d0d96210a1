//! The PostgreSQL of a reader who followed the document: at a socket, without a password, with the reader's own role and
//! database. The folder of the socket is another one; every other word of the address is the document's.

use postrider_testkit::servers::postgres::Postgres;

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
    /// Starts it. The error says what could not be had.
    pub async fn start() -> Result<Self, String> {
        let server = Postgres::start_with(&["unix_socket_directories=."]).await;
        let server = server.map_err(|error| format!("postgres: {error}"))?;
        let failed = |error: std::io::Error| format!("a socket: {error}");
        std::fs::write(server.data().join("pg_hba.conf"), "local all all trust\nhost all all all scram-sha-256\n")
            .map_err(failed)?;
        // An address without a port means this one, whatever the port of the server is.
        std::os::unix::fs::symlink(format!(".s.PGSQL.{}", server.port()), server.data().join(".s.PGSQL.5432"))
            .map_err(failed)?;
        for statement in ["select pg_reload_conf()", "create role reader superuser login", "create database shop"] {
            server.psql("postgres", statement).await.map_err(|error| error.to_string())?;
        }
        Ok(Self(server))
    }

    /// The document's address, at this socket.
    pub fn url(&self, address: &str) -> Result<String, String> {
        let folder = self.0.data().display().to_string().replace('/', "%2F");
        let url = address.replace(READER, "reader").replace(FOLDER, &folder);
        if url.contains('$') { Err(format!("nobody knows what {address} stands for")) } else { Ok(url) }
    }
}
