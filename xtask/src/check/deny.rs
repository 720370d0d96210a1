//! What the dependencies are allowed to be: `deny.toml`, judged by cargo-deny.

use std::time::Duration;

use super::{Scene, Verdict};
use crate::Result;
use crate::process::{run, tail};

pub fn rules(scene: &Scene<'_>) -> Result<Verdict> {
    if let Some(reason) = missing(scene)? {
        return Ok(Verdict::NotRun(reason));
    }
    let mut command = scene.tree.cargo();
    command.args(["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    let ran = run(&mut command, &scene.logs.join("deny"), Duration::from_secs(300))?;
    Ok(if ran.succeeded() {
        Verdict::Passed("bans, licences, sources".to_owned())
    } else {
        Verdict::Failed(format!("{}\n{}", ran.ending(), tail(&ran.said(), 60)))
    })
}

/// The database of advisories is fetched from the network: where that cannot be, the step is not run, and says so.
pub fn advisories(scene: &Scene<'_>) -> Result<Verdict> {
    if let Some(reason) = missing(scene)? {
        return Ok(Verdict::NotRun(reason));
    }
    let mut command = scene.tree.cargo();
    command.args(["deny", "check", "--hide-inclusion-graph", "advisories"]).env("GIT_TERMINAL_PROMPT", "0");
    let ran = run(&mut command, &scene.logs.join("advisories"), Duration::from_secs(120))?;
    Ok(if ran.succeeded() {
        Verdict::Passed("none known".to_owned())
    } else if ran.timed_out || ran.said().contains("failed to fetch advisory database") {
        Verdict::NotRun("the database of advisories could not be fetched".to_owned())
    } else {
        Verdict::Failed(format!("{}\n{}", ran.ending(), tail(&ran.said(), 60)))
    })
}

/// Why cargo-deny cannot be used; it is built first where that was asked for.
fn missing(scene: &Scene<'_>) -> Result<Option<String>> {
    let installed =
        || -> Result<bool> { Ok(scene.tree.cargo().args(["deny", "--version"]).output()?.status.success()) };
    if installed()? {
        return Ok(None);
    }
    if !scene.install {
        return Ok(Some("cargo-deny is not installed: `cargo install cargo-deny --locked`, or --install".to_owned()));
    }
    println!("            building cargo-deny, about four minutes on two cores");
    // Its dependencies are built for it alone; in the target folder of the tree they would be in the way of ours.
    let mut command = scene.tree.cargo();
    command.args(["install", "cargo-deny", "--locked", "--quiet", "--debug"]).env_remove("CARGO_TARGET_DIR");
    let ran = run(&mut command, &scene.logs.join("install-deny"), Duration::from_secs(20 * 60))?;
    Ok(if installed()? {
        None
    } else {
        Some(format!("cargo-deny could not be installed: {}", tail(&ran.err, 3).replace('\n', "; ")))
    })
}
