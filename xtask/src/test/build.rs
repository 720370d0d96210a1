//! Building the workspace's tests once, and learning where they are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;

use super::again::Again;
use crate::Result;
use crate::tree::Tree;

/// One program full of tests.
#[derive(Debug)]
pub struct Binary {
    /// Package and target, as in `postrider-core::lib`. No two programs have one name: it names their logs too.
    pub name: String,
    /// The package it belongs to.
    pub package: String,
    /// The program.
    pub program: PathBuf,
    /// The folder of its package, in which cargo would run it.
    pub folder: PathBuf,
    /// Where it is run [again](super::again), on what, and which of its tests.
    pub again: Option<Again>,
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
    let mut binaries: Vec<(Binary, Target)> = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
        let tested = line.reason == "compiler-artifact" && line.profile.is_some_and(|profile| profile.test);
        let (Some(id), Some(target), Some(program)) = (line.package_id, line.target, line.executable) else { continue };
        let Some((package, folder)) = packages.get(&id).filter(|_| tested) else { continue };
        let name = format!("{package}::{}", short(&target));
        let binary = Binary { name, package: package.clone(), program, folder: folder.clone(), again: None };
        binaries.push((binary, target));
    }
    let mut binaries = with_names_of_their_own(binaries);
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(binaries)
}

/// A package with several programs: each is told by the name of its target as well.
fn with_names_of_their_own(binaries: Vec<(Binary, Target)>) -> Vec<Binary> {
    let mut programs: HashMap<String, usize> = HashMap::new();
    for (binary, _) in &binaries {
        *programs.entry(binary.name.clone()).or_default() += 1;
    }
    let named = binaries.into_iter().map(|(mut binary, target)| {
        if programs[&binary.name] > 1 {
            binary.name = format!("{}::{}", binary.name, target.name);
        }
        binary
    });
    named.collect()
}

fn short(target: &Target) -> &str {
    match target.kind.first().map(String::as_str) {
        Some("lib" | "rlib") => "lib",
        Some("bin") => "bin",
        _ => &target.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, target: &str) -> (Binary, Target) {
        let target = Target { name: target.to_owned(), kind: vec!["bin".to_owned()] };
        let name = format!("{package}::{}", short(&target));
        let (program, folder) = (PathBuf::new(), PathBuf::new());
        (Binary { name, package: package.to_owned(), program, folder, again: None }, target)
    }

    #[test]
    fn programs_of_one_package_have_names_of_their_own() {
        let all = vec![program("shop", "cart"), program("shop", "payments"), program("cli", "relay")];
        let names: Vec<String> = with_names_of_their_own(all).into_iter().map(|binary| binary.name).collect();
        assert_eq!(names, ["shop::bin::cart", "shop::bin::payments", "cli::bin"]);
    }
}
