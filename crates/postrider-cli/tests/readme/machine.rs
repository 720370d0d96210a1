//! What a reader has at hand: a shell in an empty folder, the binary and its servers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postrider_testkit::servers::mariadb;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::servers::postgres;
use postrider_testkit::servers::process::{ServerError, free_port};
use tempfile::TempDir;

use crate::blocks::Block;
use crate::socket::Socket;

/// A reader's machine, for one document.
pub struct Machine {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
    /// What the client of MariaDB is told.
    mysql: Vec<String>,
    _nats: Option<NatsServer>,
    _socket: Option<Socket>,
}

impl Machine {
    /// A machine with what the blocks use, and with the database at the socket whose address the document gives, if it
    /// gives one.
    ///
    /// # Errors
    /// When a program that they use is not installed, or does not start.
    pub async fn for_blocks(blocks: &[&Block], address: Option<&str>) -> Result<Self, ServerError> {
        let uses = |what: &str| blocks.iter().any(|block| block.text.contains(what) || block.language == what);
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let links = [
            (PathBuf::from(env!("CARGO_BIN_EXE_postrider")), "bin/postrider"),
            (repository.join("examples"), "examples"),
        ];
        for (target, name) in links {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        }
        if uses("python3") || uses("python") {
            std::os::unix::fs::symlink(python(uses("postgres.py"))?, bin.join("python3")).unwrap();
        }
        let mut variables = vec![
            ("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())),
            // Nothing is asked of a port that a stranger may have.
            ("POSTRIDER_ADMIN__LISTEN", format!("127.0.0.1:{}", free_port()?)),
        ];
        let mut socket = None;
        if let Some(address) = address {
            let server = Socket::start().await?;
            variables.push(("DATABASE_URL", server.url(address)));
            socket = Some(server);
        } else if uses("$DATABASE_URL")
            || blocks.iter().any(|block| block.language == "sql" && !block.is_marked("mysql"))
        {
            variables.push(("DATABASE_URL", postgres::shared().await?.fresh_database().await?));
        }
        let nats = if uses("$NATS_URL") { Some(NatsServer::start().await?) } else { None };
        variables.extend(nats.iter().map(|server| ("NATS_URL", server.url())));
        let mut mysql = Vec::new();
        if blocks.iter().any(|block| block.is_marked("mysql")) {
            let server = mariadb::shared().await?;
            let database = server.create_database().await?;
            variables.push(("MYSQL_URL", server.url_for(&database)));
            variables.push(("MYSQL_PWD", mariadb::PASSWORD.to_owned()));
            let words = ["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--default-character-set=utf8mb4"];
            mysql.extend(words.map(str::to_owned));
            mysql.extend([format!("--port={}", server.port()), format!("--user={}", mariadb::USER), database]);
        }
        Ok(Self { folder, variables, mysql, _nats: nats, _socket: socket })
    }

    /// Runs a block to its end; what it wrote to standard output. The error is all that it wrote.
    pub fn run(&self, block: &Block) -> Result<String, String> {
        if let Some(file) = block.marks.iter().find_map(|mark| mark.strip_prefix("sqlite=")) {
            let database =
                rusqlite::Connection::open(self.folder.path().join(file)).map_err(|error| error.to_string())?;
            return database.execute_batch(&block.text).map(|()| String::new()).map_err(|error| error.to_string());
        }
        let mut command = match block.language.as_str() {
            "sh" => postrider_testkit::command::command("bash"),
            "sql" if block.is_marked("mysql") => postrider_testkit::command::command("mariadb"),
            "sql" => postrider_testkit::command::command("psql"),
            "python" => Command::new(self.folder.path().join("bin/python3")),
            language => return Err(format!("nobody knows how to run {language}")),
        };
        match block.language.as_str() {
            "sh" => command.args(["-euo", "pipefail", "-s"]),
            "sql" if block.is_marked("mysql") => command.args(&self.mysql),
            "sql" => command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", &self.variable("DATABASE_URL")]),
            _ => command.arg("-"),
        };
        command.current_dir(self.folder.path()).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        if let Some(mut input) = process.stdin.take() {
            input.write_all(block.text.as_bytes()).map_err(|error| error.to_string())?;
        }
        let ended = process.wait_with_output().map_err(|error| error.to_string())?;
        let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        if ended.status.success() { Ok(out.into_owned()) } else { Err(format!("{}\n{out}{err}", ended.status)) }
    }

    fn variable(&self, name: &str) -> String {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// A Python, with psycopg where that is needed.
fn python(with_psycopg: bool) -> Result<PathBuf, ServerError> {
    let candidates = [
        PathBuf::from("/usr/bin/python3"),
        PathBuf::from("/usr/local/bin/python3"),
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("psycopg/bin/python"),
    ];
    let import = if with_psycopg { "import psycopg" } else { "import json" };
    let works =
        |python: &&PathBuf| Command::new(python).args(["-c", import]).output().is_ok_and(|ran| ran.status.success());
    let missing =
        || ServerError::NotInstalled { program: "a Python with psycopg".to_owned(), package: "python3-psycopg" };
    candidates.iter().find(works).cloned().ok_or_else(missing)
}
