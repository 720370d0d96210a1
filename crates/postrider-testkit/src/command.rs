//! Running the real binary in a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command of a program, without standard input and without any variable that would be a setting of it: the ones
/// that steer the tests begin with `POSTRIDER_` too.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("POSTRIDER_")) {
        command.env_remove(name);
    }
    command
}

/// Which of these stores, brokers and features a relay's program was built without, as it says itself
/// (`postrider --version --verbose`).
pub fn lacking<'a>(program: &Path, features: &[&'a str]) -> Vec<&'a str> {
    let told = command(&program.to_string_lossy()).args(["--version", "--verbose"]).output();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned()).unwrap_or_default();
    let is_list = |line: &&str| ["stores ", "brokers ", "features "].iter().any(|name| line.starts_with(name));
    let built: Vec<&str> = told.lines().filter(is_list).flat_map(|line| line.split([' ', ','])).collect();
    features.iter().copied().filter(|feature| !built.contains(feature)).collect()
}

/// The relay's program, which cargo builds beside this one, with at least these features.
///
/// # Errors
/// What is missing, and how it is built: no package brings it.
pub fn relay_beside(program: &Path, features: &[&str]) -> Result<PathBuf, String> {
    let relay = program.with_file_name("postrider");
    let build = format!("cargo build -p postrider-cli --features {}", features.join(","));
    if !relay.is_file() {
        return Err(format!("the relay's program is not built; {build}"));
    }
    match lacking(&relay, features).as_slice() {
        [] => Ok(relay),
        lacking => Err(format!("the relay's program was built without {}; {build}", lacking.join(" and "))),
    }
}
