//! `cargo xtask simulate`: the simulator of the testkit, in a release build.

use std::process::ExitCode;

use crate::Result;
use crate::tree::Tree;

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let mut command = tree.cargo();
    command.args(["run", "--release", "--quiet", "--package", "postrider-testkit", "--bin", "simulate", "--"]);
    let status = command.args(arguments).status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
