//! Runs the real binary in a folder of its own, without any setting from outside.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::servers::process::free_port;

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with an outbox.
pub struct Place {
    folder: tempfile::TempDir,
}

/// What a run printed, and its exit code.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with `app.db` and its tables.
    pub fn migrated() -> Self {
        let place = Self::empty();
        place.run(&["migrate", "--store", "sqlite:app.db"]).good();
        place
    }

    /// A path inside the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A file's text; empty when it is not there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The command, in this folder and with a clean environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = postrider_testkit::command::command(env!("CARGO_BIN_EXE_postrider"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }

    /// Runs it with variables.
    pub fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).envs(variables.iter().copied()).output().unwrap())
    }

    /// Runs it with something on its standard input.
    pub fn run_fed(&self, input: &[u8], arguments: &[&str]) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input);
        Run::of(child.wait_with_output().unwrap())
    }

    /// Runs a verb on `app.db`.
    pub fn on(&self, arguments: &[&str]) -> Run {
        self.run(&[arguments, &["--store", "sqlite:app.db"]].concat())
    }

    /// Enqueues one message and returns its id.
    pub fn enqueue(&self, topic: &str, key: &str, payload: &str) -> String {
        let run = self.on(&["enqueue", topic, "--key", key, "--payload", payload]);
        run.good();
        run.out.trim().to_owned()
    }

    /// Runs the relay until the outbox is empty.
    pub fn drain(&self, broker: &str, more: &[&str]) -> Run {
        self.on(&[&["relay", "--until-empty", "--broker", broker, "--admin-listen", "off"], more].concat())
    }

    /// Starts a relay with JSON logs and an admin address, and waits until it has one.
    pub fn relay(&self, broker: &str, more: &[&str]) -> Relay {
        let fixed = ["relay", "--store", "sqlite:app.db", "--broker", broker, "--admin-listen", "127.0.0.1:0"];
        let mut command = self.command(&[&fixed, &["--log-format", "json"][..], more].concat());
        self.start(&mut command)
    }

    /// Starts a relay whose logs are JSON, and waits until it has an admin address.
    pub fn start(&self, command: &mut Command) -> Relay {
        let log = self.path(&format!("relay-{}.log", std::fs::read_dir(self.path("")).unwrap().count()));
        command.stderr(std::fs::File::create(&log).unwrap()).stdout(Stdio::null());
        let mut relay = Relay { child: command.spawn().unwrap(), log, admin: String::new() };
        relay.admin = until("an admin address", || relay.logged("address"));
        relay
    }
}

impl Run {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts exit code 0.
    #[track_caller]
    pub fn good(&self) -> &Self {
        self.ends(0)
    }

    /// Asserts an exit code.
    #[track_caller]
    pub fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Asserts one line that says what and one that says what to do next, with these words.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        let lines = self.err.lines().skip_while(|line| !line.starts_with("error: ")).collect::<Vec<_>>();
        assert_eq!(lines.len(), 2, "not two lines: {}", self.err);
        assert!(lines[1].starts_with("next: ") && lines[1].len() > 12, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {}", self.err);
        }
        self
    }

    /// Asserts that a text is nowhere in what was printed.
    #[track_caller]
    pub fn hides(&self, secret: &str) -> &Self {
        assert!(!self.out.contains(secret) && !self.err.contains(secret), "shown: {}{}", self.out, self.err);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// A relay in the background, killed at the end of the test.
pub struct Relay {
    child: Child,
    log: PathBuf,
    /// Its admin address.
    pub admin: String,
}

impl Relay {
    /// A field of the first log line that has it.
    pub fn logged(&self, field: &str) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line.get(field)?.as_str().map(str::to_owned)
        })
    }

    /// The whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks the admin address: code and body.
    pub fn ask(&self, path: &str, authorization: Option<&str>) -> (u16, String) {
        use std::io::Read;
        let mut stream = std::net::TcpStream::connect(&self.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let authorization = authorization.map_or(String::new(), |it| format!("authorization: {it}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{authorization}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let signalled = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap();
        assert!(signalled.success());
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> i32 {
        until("the end of the relay", || self.child.try_wait().unwrap()).code().unwrap_or(-1)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a condition.
#[track_caller]
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of a file broker as JSON.
pub fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An address on this machine where nobody listens.
pub fn nowhere() -> String {
    format!("127.0.0.1:{}", free_port().unwrap())
}
