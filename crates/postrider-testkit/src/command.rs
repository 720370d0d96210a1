//! Running the real binary in a test.

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
