//! The steps that cargo does itself.

use std::process::Command;
use std::time::Duration;

use super::{Scene, Verdict};
use crate::Result;
use crate::process::{run, tail};

const LIMIT: Duration = Duration::from_secs(25 * 60);

/// Crates whose features are choices of a user, so that each must build without the others.
const CHOICES: [&str; 4] = ["postrider-stores", "postrider-brokers", "postrider-documents", "postrider"];

/// What only judges needs no fast SQLite, and each set of features compiles it anew.
const UNOPTIMISED: &str = "profile.dev.package.libsqlite3-sys.opt-level=0";

pub fn fmt(scene: &Scene<'_>) -> Result<Verdict> {
    let mut command = scene.tree.cargo();
    command.args(["fmt", "--all", "--check"]);
    done(scene, "fmt", &mut command, "formatted; otherwise `cargo fmt --all`")
}

pub fn clippy(scene: &Scene<'_>) -> Result<Verdict> {
    let mut command = scene.tree.cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"]);
    done(scene, "clippy", &mut command, "no warning")
}

pub fn docs(scene: &Scene<'_>) -> Result<Verdict> {
    let mut command = scene.tree.cargo();
    command.args(["doc", "--workspace", "--lib", "--no-deps", "--all-features", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    done(scene, "docs", &mut command, "no broken link, nothing undocumented")
}

/// Clippy and not `check`, because it denies warnings of the members without rebuilding their dependencies.
pub fn features(scene: &Scene<'_>) -> Result<Verdict> {
    let mut findings = Vec::new();
    let mut built = 0;
    for package in scene.tree.metadata()?.packages.iter().filter(|package| CHOICES.contains(&package.name.as_str())) {
        let none = String::new();
        // A name that begins with an underscore is what several features need, and no choice of a user.
        let alone = package.features.keys().filter(|feature| *feature != "default" && !feature.starts_with('_'));
        for feature in std::iter::once(&none).chain(alone) {
            let mut command = scene.tree.cargo();
            command.args(["clippy", "--quiet", "--config", UNOPTIMISED, "-p", &package.name, "--no-default-features"]);
            command.args(["--features", feature, "--", "-D", "warnings"]);
            let log = scene.logs.join(format!("feature-{}-{feature}", package.name));
            let ran = run(&mut command, &log, LIMIT)?;
            built += 1;
            if !ran.succeeded() {
                let feature = if feature.is_empty() { "no feature" } else { feature };
                findings.push(format!("{} with {feature}: {}\n{}", package.name, ran.ending(), tail(&ran.err, 40)));
            }
        }
    }
    Ok(super::verdict(&findings, format!("{built} builds, each with one feature or none")))
}

fn done(scene: &Scene<'_>, name: &str, command: &mut Command, passed: &str) -> Result<Verdict> {
    let ran = run(command, &scene.logs.join(name), LIMIT)?;
    Ok(if ran.succeeded() {
        Verdict::Passed(passed.to_owned())
    } else {
        Verdict::Failed(format!("{}\n{}", ran.ending(), tail(&ran.said(), 80)))
    })
}
