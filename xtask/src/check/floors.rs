//! The floors of the workspace: imports point down only, and siblings do not know each other.

use std::path::Path;

use super::{Scene, Verdict, verdict};
use crate::Result;
use crate::tree::{Metadata, Package, Tree};

const CORE: u8 = 0;
/// Example programs stand above everything: they use what a user uses.
const EXAMPLES: u8 = 5;

/// Each crate and its floor. Those of one floor are siblings.
const FLOORS: &[(&str, u8)] = &[
    ("postrider-core", CORE),
    ("postrider-stores", 1),
    ("postrider-brokers", 1),
    ("postrider-documents", 1),
    ("postrider-relay", 2),
    ("postrider", 3),
    ("postrider-bench", 3),
    ("postrider-cli", 4),
    ("postrider-compile-fail", 4),
];

/// Beside the floors: used by the tests of every crate, and knowing only the words of the core.
const TESTKIT: &str = "postrider-testkit";
/// Beside the floors too: it models the core's rules, and nothing needs it.
const MODEL: &str = "postrider-model";
const XTASK: &str = "xtask";
/// Its measurement measures what an application does, with what an application imports.
const BENCH: &str = "postrider-bench";
/// Beside the floors too: a program for developers that treats the product as a black box.
const TORTURE: &str = "postrider-torture";

/// Crates with one folder per backend; a folder must not know its neighbour.
const BACKENDS: [&str; 3] = ["postrider-stores", "postrider-brokers", "postrider-documents"];

pub fn step(scene: &Scene<'_>) -> Result<Verdict> {
    let metadata = scene.tree.metadata()?;
    let mut findings = judge(&metadata, &scene.tree.root);
    for name in BACKENDS {
        findings.extend(neighbours(scene.tree, &metadata, name)?);
    }
    Ok(verdict(&findings, format!("{} crates", metadata.packages.len())))
}

fn judge(metadata: &Metadata, root: &Path) -> Vec<String> {
    let ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let beside = [TESTKIT, MODEL, XTASK, TORTURE].contains(&package.name.as_str());
        if !beside && floor(package, root).is_none() {
            findings.push(format!("{}: on no floor; give it one in xtask/src/check/floors.rs", package.name));
        }
        for dependency in package.dependencies.iter().filter(|dependency| ours(&dependency.name)) {
            let Some(other) = metadata.packages.iter().find(|other| other.name == dependency.name) else { continue };
            if let Some(why) = refused(package, other, dependency.kind.as_deref(), root) {
                findings.push(format!("{} -> {}: {why}", package.name, other.name));
            }
        }
    }
    findings
}

/// Why `from` may not depend on `to`.
fn refused(from: &Package, to: &Package, kind: Option<&str>, root: &Path) -> Option<&'static str> {
    if to.name == TORTURE {
        return Some("nothing depends on the torturer");
    }
    if from.name == TORTURE {
        return (to.name != TESTKIT && to.name != "postrider")
            .then_some("a black box: it knows what applications import, and the testkit");
    }
    if to.name == TESTKIT {
        return (kind != Some("dev")).then_some("the testkit is for tests: make it a dev-dependency");
    }
    if from.name == XTASK || to.name == XTASK {
        return Some("xtask stands alone: it must build when the product does not");
    }
    if to.name == MODEL {
        return Some("the model is checked by its own tests, and nothing depends on it");
    }
    if from.name == BENCH && to.name == "postrider" && kind == Some("dev") {
        return None;
    }
    let to = floor(to, root)?;
    if from.name == TESTKIT {
        return (to > CORE)
            .then_some("the testkit knows the seams of the core only, so that anyone's backend can use it");
    }
    if from.name == MODEL {
        return (to > CORE).then_some("the model knows the rules of the core only");
    }
    let from = floor(from, root)?;
    match from.cmp(&to) {
        std::cmp::Ordering::Greater => None,
        std::cmp::Ordering::Equal => Some("sideways: siblings do not know each other"),
        std::cmp::Ordering::Less => Some("upward: imports point down only"),
    }
}

fn floor(package: &Package, root: &Path) -> Option<u8> {
    if package.manifest_path.starts_with(root.join("examples")) {
        return Some(EXAMPLES);
    }
    FLOORS.iter().find(|(name, _)| *name == package.name).map(|(_, floor)| *floor)
}

/// Imports of one backend's folder by another. Every backend is a folder named after its feature.
fn neighbours(tree: &Tree, metadata: &Metadata, name: &str) -> Result<Vec<String>> {
    let Some(package) = metadata.packages.iter().find(|package| package.name == name) else { return Ok(Vec::new()) };
    let folder = Path::new("crates").join(name).join("src");
    let mut findings = Vec::new();
    for file in tree.rust_files()? {
        let Ok(inside) = file.strip_prefix(&folder) else { continue };
        let Some(own) = inside.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned()) else {
            continue;
        };
        let own = own.trim_end_matches(".rs");
        if !package.features.contains_key(own) {
            continue;
        }
        let lines = tree.lines(&file)?;
        for other in package.features.keys().filter(|other| *other != own && *other != "default") {
            let import = format!("crate::{other}::");
            for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(&import)) {
                findings.push(format!("{}:{}: sideways: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, depends: &[(&str, Option<&str>)]) -> String {
        let depends: Vec<String> =
            depends.iter().map(|(name, kind)| serde_json::json!({"name": name, "kind": kind}).to_string()).collect();
        format!(
            r#"{{"name":"{name}","id":"{name}","manifest_path":"/tree/crates/{name}/Cargo.toml","features":{{}},
               "targets":[],"dependencies":[{}]}}"#,
            depends.join(",")
        )
    }

    fn judged(packages: &[String]) -> Vec<String> {
        let text = format!(r#"{{"packages":[{}],"target_directory":"/tree/target"}}"#, packages.join(","));
        judge(&serde_json::from_str(&text).unwrap(), Path::new("/tree"))
    }

    #[test]
    fn imports_that_point_down_pass() {
        let found = judged(&[
            package("postrider-core", &[("postrider-testkit", Some("dev"))]),
            package("postrider-stores", &[("postrider-core", None)]),
            package("postrider-relay", &[("postrider-core", None), ("postrider-stores", Some("dev"))]),
            package("postrider-testkit", &[("postrider-core", None)]),
            package("postrider", &[("postrider-core", None)]),
            package("postrider-torture", &[("postrider", None), ("postrider-testkit", None)]),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn upward_sideways_and_misplaced_imports_are_found() {
        let found = judged(&[
            package("postrider-core", &[("postrider-relay", None)]),
            package("postrider-stores", &[("postrider-brokers", Some("dev"))]),
            package("postrider-brokers", &[("postrider-testkit", None)]),
            package("postrider-relay", &[]),
            package("postrider-testkit", &[("postrider-relay", None)]),
            package("postrider-more", &[]),
            package("postrider-torture", &[("postrider-relay", None)]),
        ]);
        let starts = [
            "postrider-torture -> postrider-relay: a black box",
            "postrider-core -> postrider-relay: upward",
            "postrider-stores -> postrider-brokers: sideways",
        ];
        assert_eq!(found.len(), 6, "{found:#?}");
        for start in starts {
            assert!(found.iter().any(|line| line.starts_with(start)), "{start} in {found:#?}");
        }
    }
}
