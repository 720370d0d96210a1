//! The programs of this example in other languages, and what they need to run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use postrider_testkit::servers::packages::packages;
use postrider_testkit::servers::process::{ServerError, find};
use tempfile::TempDir;

const PYTHON: &str = include_str!("../../python/requirements.txt");
const NODE: &str = include_str!("../../node/package-lock.json");
const JAVA: &str = include_str!("../../java/pom.xml");
const GO: &str = concat!(include_str!("../../go/go.sum"), include_str!("../../../from-go-outbox/go.sum"));

/// This example's folder.
pub fn example() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that is ready to run.
pub struct Program {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// Where it stands, if not in this repository.
    _folder: Option<TempDir>,
}

impl Program {
    /// A program with its first arguments.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Self { program: program.into(), arguments, variables: Vec::new(), _folder: None }
    }

    fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    /// The command, with further arguments, on a database.
    pub fn command(&self, database: &str, more: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(more).envs(self.variables.iter().cloned()).env("DATABASE_URL", database);
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, database: &str, more: &[&str]) -> Output {
        self.command(database, more).output().unwrap()
    }
}

/// The order program in Python, with PyMySQL.
pub fn python() -> Result<Program, ServerError> {
    let (python, folder) = (find("python3", &[], "python3")?, packages("python", PYTHON)?);
    let program = Program::new(python, &[&path(&example().join("python/orders.py"))]);
    Ok(program.with("PYTHONPATH", path(&folder.join("packages"))))
}

/// The order program in JavaScript, with mysql2. A module is looked for beside the program, and the packages do not lie
/// there: a folder of its own has both.
pub fn node() -> Result<Program, ServerError> {
    let (node, folder) = (find("node", &[], "nodejs")?, node_packages()?);
    let place = tempfile::tempdir().unwrap();
    for file in ["package.json", "orders.js"] {
        std::fs::copy(example().join("node").join(file), place.path().join(file)).unwrap();
    }
    std::os::unix::fs::symlink(folder, place.path().join("node_modules")).unwrap();
    let program = Program::new(node, &[&path(&place.path().join("orders.js"))]);
    Ok(Program { _folder: Some(place), ..program })
}

/// The folder `node_modules`.
pub fn node_packages() -> Result<PathBuf, ServerError> {
    Ok(packages("node", NODE)?.join("node_modules"))
}

/// A program in PHP, with PDO.
pub fn php(program: &str) -> Result<Program, ServerError> {
    let php = find("php", &[], "php-cli")?;
    let asked = "exit(extension_loaded('pdo_mysql') ? 0 : 1);";
    if !Command::new(&php).args(["-r", asked]).output().is_ok_and(|ran| ran.status.success()) {
        return Err(ServerError::NotInstalled { program: "pdo_mysql of PHP".to_owned(), package: "php-mysql" });
    }
    Ok(Program::new(php, &[&path(&example().join("php").join(program))]))
}

/// The order program in Java, with JDBC, run from its source.
pub fn java() -> Result<Program, ServerError> {
    find("javac", &[], "default-jdk-headless")?;
    let (java, jars) = (find("java", &[], "default-jdk-headless")?, java_packages()?);
    let (jars, source) = (path(&jars.join("*")), path(&example().join("java/Orders.java")));
    Ok(Program::new(java, &["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &jars, &source]))
}

/// The folder of the jars.
pub fn java_packages() -> Result<PathBuf, ServerError> {
    Ok(packages("java", JAVA)?.join("lib"))
}

/// The order program in Go, built.
pub fn go() -> Result<Program, ServerError> {
    Ok(Program::new(built(&example().join("go"), ".", "orders")?, &[]))
}

/// A Go program of this repository, built without a network.
pub fn built(module: &Path, package: &str, name: &str) -> Result<PathBuf, ServerError> {
    let (go, program) = (find("go", &[PathBuf::from("/usr/local/go/bin")], "golang-go")?, target().join(name));
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg(package).current_dir(module).envs(go_variables()?);
    let built = command.stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "go build: {}", String::from_utf8_lossy(&built.stderr));
    Ok(program)
}

/// What keeps Go to the packages that were brought, and to the Go that is here.
pub fn go_variables() -> Result<[(&'static str, String); 5], ServerError> {
    Ok([
        ("GOMODCACHE", path(&packages("go", GO)?.join("mod"))),
        ("GOFLAGS", "-mod=readonly".to_owned()),
        ("GOPROXY", "off".to_owned()),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("CGO_ENABLED", "0".to_owned()),
    ])
}

/// A folder beside the build.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
