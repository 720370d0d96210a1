//! A server process of our own: free port, data folder, unprivileged user, ended by id.
//!
//! A [`Recipe`] says what to run; [`Process::spawn`] runs it with its output in a log file, and [`Process::ready`]
//! waits for a condition. Every process has a guard: a shell that waits for the end of our own process and then ends
//! the server and removes its folder, so that a server in a `static` and a test run that is killed leave nothing
//! behind. As root, servers run as `postgres` or `nobody`, because some refuse to run as root.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// The program is not on this machine: a test runner counts the case as "not run".
    NotInstalled {
        /// The program that was looked for.
        program: String,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// The program is there and did not start or answer.
    Failed {
        /// What was being done.
        doing: String,
        /// The end of its log.
        log: String,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled { program, package } => {
                write!(f, "{program} is not installed; on Debian: apt-get install {package}")
            }
            Self::Failed { doing, log } => write!(f, "{doing} failed; its log ends with:\n{log}"),
        }
    }
}

impl std::error::Error for ServerError {}

impl ServerError {
    /// A failure without a log.
    pub fn failed(doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self::Failed { doing: doing.into(), log: cause.to_string() }
    }
}

/// What can be sent to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGQUIT.
    Quit,
    /// SIGKILL.
    Kill,
    /// SIGSTOP: frozen until [`Signal::Continue`].
    Stop,
    /// SIGCONT.
    Continue,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

/// Sends a signal to one process by id.
///
/// # Errors
/// When there is no such process, or it is not ours.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let done = Command::new("kill").arg("-s").arg(signal.name()).arg(pid.to_string()).output()?;
    if done.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
    }
}

/// The program's path, looked for in the folders given, then in `PATH` and the system folders.
///
/// # Errors
/// [`ServerError::NotInstalled`].
pub fn find(program: &str, folders: &[PathBuf], package: &'static str) -> Result<PathBuf, ServerError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from);
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .chain(system)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| ServerError::NotInstalled { program: program.to_owned(), package })
}

/// A port of 127.0.0.1 that was free a moment ago, of those that the kernel gives to nobody who did not ask for it: a
/// server can be started on it again, and while none is, nobody else answers there.
///
/// # Errors
/// When the machine has none left.
pub fn free_port() -> Result<u16, ServerError> {
    const LOWEST: u16 = 10_000;
    const TRIES: usize = 1_000;
    static DRAWN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let given = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768_u16);
    let count = u64::from(given.saturating_sub(LOWEST).max(1));
    for _ in 0..TRIES {
        let drawn = RandomState::new().build_hasher().finish() % count;
        let port = LOWEST.saturating_add(u16::try_from(drawn).unwrap_or(0));
        // Whoever drew it before may not listen yet.
        let is_new = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).insert(port);
        if is_new && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(ServerError::failed("looking for a free port", format!("none of {TRIES} from {LOWEST} on")))
}

/// The user that servers run as when we are root.
#[derive(Debug, Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn unprivileged() -> Option<Self> {
        if fs::metadata("/proc/self").ok()?.uid() != 0 {
            return None;
        }
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let named = |name: &str| {
            passwd.lines().find_map(|line| {
                let mut fields = line.split(':');
                if fields.next() != Some(name) {
                    return None;
                }
                Some(Self { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
            })
        };
        named("postgres").or_else(|| named("nobody"))
    }
}

/// A temporary folder that belongs to the user that servers run as.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// A fresh, empty folder, removed on drop.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create() -> Result<Self, ServerError> {
        let folder = tempfile::Builder::new()
            .prefix("postrider-")
            .tempdir()
            .map_err(|error| ServerError::failed("creating a temporary folder", error))?;
        own(folder.path())?;
        Ok(Self(folder))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes a folder in it, and those above it, that belong to the same user.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_folder(&self, path: &Path) -> Result<(), ServerError> {
        fs::create_dir_all(path).map_err(|error| ServerError::failed(format!("creating {}", path.display()), error))?;
        path.ancestors().take_while(|above| *above != self.path()).try_for_each(own)
    }

    /// Writes a file into it that the server may read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, ServerError> {
        let path = self.path().join(name);
        fs::write(&path, content).map_err(|error| ServerError::failed(format!("writing {name}"), error))?;
        own(&path)?;
        Ok(path)
    }
}

/// Gives a path to the user that servers run as; does nothing when we are not root.
///
/// # Errors
/// When the owner cannot be changed.
pub fn own(path: &Path) -> Result<(), ServerError> {
    match User::unprivileged() {
        Some(user) => chown(path, Some(user.uid), Some(user.gid))
            .map_err(|error| ServerError::failed(format!("changing the owner of {}", path.display()), error)),
        None => Ok(()),
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The folder that it works in, and that its guard removes.
    pub folder: PathBuf,
    /// What makes it stop in good order.
    pub graceful: Signal,
    /// What makes it stop at once without leaving shared memory behind.
    pub immediate: Signal,
    /// The file that it reads from its standard input, if any.
    pub input: Option<PathBuf>,
}

impl Recipe {
    /// A program in a folder, stopped by SIGTERM and ended by SIGKILL.
    pub fn new(program: PathBuf, folder: &Path) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            folder: folder.to_owned(),
            graceful: Signal::Terminate,
            immediate: Signal::Kill,
            input: None,
        }
    }

    /// The same recipe with more arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder).env("HOME", &self.folder).env("LC_ALL", "C");
        if let Some(user) = User::unprivileged() {
            command.uid(user.uid).gid(user.gid);
        }
        let input = self.input.as_ref().map_or(Ok(Stdio::null()), |file| File::open(file).map(Stdio::from))?;
        command.process_group(0).stdin(input);
        Ok(command)
    }

    /// Runs the program to its end and returns what it wrote.
    ///
    /// # Errors
    /// When it cannot be started or ends with another code than 0.
    pub fn run(&self) -> Result<String, ServerError> {
        let doing = || format!("running {}", self.program.display());
        let done = self
            .command()
            .and_then(|mut command| command.output())
            .map_err(|error| ServerError::failed(doing(), error))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(ServerError::failed(doing(), String::from_utf8_lossy(&done.stderr)))
    }
}

/// A running server of ours, ended on drop.
#[derive(Debug)]
pub struct Process {
    recipe: Recipe,
    log: PathBuf,
    child: Option<Child>,
    guard: Option<Child>,
}

impl Process {
    /// Starts a server; its output goes to `server.log` in its folder.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(recipe: Recipe) -> Result<Self, ServerError> {
        let log = recipe.folder.join("server.log");
        let mut process = Self { recipe, log, child: None, guard: None };
        process.start()?;
        Ok(process)
    }

    fn start(&mut self) -> Result<(), ServerError> {
        let doing = format!("starting {}", self.recipe.program.display());
        let open = || File::options().create(true).append(true).open(&self.log);
        let spawn = || {
            let (out, err) = (open()?, open()?);
            self.recipe.command()?.stdout(out).stderr(err).spawn()
        };
        let child = spawn().map_err(|error| ServerError::failed(&doing, error))?;
        let guard = guard(child.id(), &self.recipe);
        self.child = Some(child);
        self.guard = Some(guard.map_err(|error| ServerError::failed("starting the guard of a server", error))?);
        Ok(())
    }

    /// Waits until `probe` says yes.
    ///
    /// # Errors
    /// When the server ended, or did not answer in time; with the end of its log.
    pub async fn ready(&mut self, within: Duration, probe: impl AsyncFn() -> bool) -> Result<(), ServerError> {
        let until = Instant::now() + within;
        loop {
            if probe().await {
                return Ok(());
            }
            if !self.running() {
                return Err(self.failure("waiting for the server, which ended,"));
            }
            if Instant::now() >= until {
                return Err(self.failure("waiting for the server to answer"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn failure(&self, doing: &str) -> ServerError {
        ServerError::Failed { doing: format!("{doing} ({})", self.recipe.program.display()), log: self.log_end() }
    }

    /// Everything that it wrote so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last 2,000 characters of its log.
    pub fn log_end(&self) -> String {
        let text = self.log();
        let skip = text.chars().count().saturating_sub(2000);
        text.chars().skip(skip).collect()
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it runs.
    pub fn running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends it a signal; nothing happens when it does not run.
    pub fn signal(&self, what: Signal) {
        if let Some(pid) = self.pid() {
            let _ = signal(pid, what);
        }
    }

    /// Ends it with SIGKILL and waits for its end.
    pub fn kill9(&mut self) {
        self.end(Signal::Kill, Duration::ZERO);
    }

    /// Ends it in good order, with SIGKILL after ten seconds.
    pub fn stop(&mut self) {
        self.end(self.recipe.graceful, Duration::from_secs(10));
    }

    /// Starts it again with the same arguments in the same folder, after ending what still runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop();
        self.start()
    }

    fn end(&mut self, how: Signal, patience: Duration) {
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
        let Some(mut child) = self.child.take() else { return };
        if how != Signal::Kill {
            let _ = signal(child.id(), how);
            let until = Instant::now() + patience;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(self.recipe.immediate, Duration::from_secs(5));
    }
}

const GUARD: &str = "cat >/dev/null; kill -s \"$2\" \"$1\"; \
    for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 \"$1\" || break; sleep 0.2; done; kill -9 \"$1\"; rm -rf \"$3\"";

/// A shell whose input ends when we do, however we end.
fn guard(pid: u32, recipe: &Recipe) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", GUARD, "guard"])
        .arg(pid.to_string())
        .arg(recipe.immediate.name())
        .arg(&recipe.folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
