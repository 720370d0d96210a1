//! Building the workspace's tests once, and learning where they are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;

use crate::Result;
use crate::tree::Tree;

/// One program full of tests.
#[derive(Debug)]
pub struct Binary {
    /// Package and target, as in `postrider-core::lib`.
    pub name: String,
    /// The package it belongs to.
    pub package: String,
    /// The program.
    pub program: PathBuf,
    /// The folder of its package, in which cargo would run it.
    pub folder: PathBuf,
    /// In a [second run](super::again), the part of the names of its tests that are run.
    pub again: Option<&'static str>,
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds every test of the workspace with every feature. What cargo has to say goes to standard error as it comes.
pub fn binaries(tree: &Tree) -> Result<Vec<Binary>> {
    let mut command = tree.cargo();
    command.args(["test", "--workspace", "--all-features", "--no-run", "--message-format", "json-render-diagnostics"]);
    let out = command.stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err("the tests do not build".into());
    }
    let packages: HashMap<String, (String, PathBuf)> = tree
        .metadata()?
        .packages
        .into_iter()
        .map(|package| (package.id, (package.name, package.manifest_path.with_file_name(""))))
        .collect();
    let mut binaries = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
        let tested = line.reason == "compiler-artifact" && line.profile.is_some_and(|profile| profile.test);
        let (Some(id), Some(target), Some(program)) = (line.package_id, line.target, line.executable) else { continue };
        let Some((package, folder)) = packages.get(&id).filter(|_| tested) else { continue };
        binaries.push(Binary {
            name: format!("{package}::{}", short(&target)),
            package: package.clone(),
            program,
            folder: folder.clone(),
            again: None,
        });
    }
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(binaries)
}

fn short(target: &Target) -> &str {
    match target.kind.first().map(String::as_str) {
        Some("lib" | "rlib") => "lib",
        Some("bin") => "bin",
        _ => &target.name,
    }
}
