//! The working tree: where it is, what is in it, and how cargo is called in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Result;

/// The workspace, found from the place of this crate.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The folder of the workspace's manifest.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
}

/// What `cargo metadata` says of the workspace's members.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    target_directory: PathBuf,
}

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub id: String,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
    pub features: std::collections::BTreeMap<String, Vec<String>>,
    pub targets: Vec<Target>,
}

/// One line of a member's dependencies.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// None for an ordinary one, else `dev` or `build`.
    pub kind: Option<String>,
}

/// Something that cargo builds from a member.
#[derive(Debug, Deserialize)]
pub struct Target {
    pub name: String,
    pub kind: Vec<String>,
}

impl Tree {
    /// Finds the workspace and its target folder.
    pub fn find() -> Result<Self> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
        let here = fs::canonicalize(&here).map_err(|error| format!("run it as `cargo xtask`: {here:?}: {error}"))?;
        let root = here.parent().ok_or("this crate stands at the root of the file system")?.to_owned();
        let mut tree = Self { target: root.join("target"), root };
        tree.target = tree.metadata()?.target_directory;
        Ok(tree)
    }

    /// Cargo, called in the root of the tree, reading nothing from the terminal.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).stdin(std::process::Stdio::null());
        // Cargo sets these for this program; a cargo below it would take them for its own.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION", "CARGO_MANIFEST_PATH"] {
            command.env_remove(name);
        }
        command
    }

    /// The manifests of the crates that stand for somebody else's repository.
    pub fn samples(&self) -> Result<Vec<PathBuf>> {
        let mut files = self.files()?;
        files.retain(|file| file.starts_with("examples/out-of-tree") && file.ends_with("Cargo.toml"));
        Ok(files)
    }

    /// What git says to these words, without the spaces around it.
    pub fn git(&self, words: &[&str]) -> Result<String> {
        let said = Command::new("git").args(words).current_dir(&self.root).output()?;
        if !said.status.success() {
            return Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&said.stderr).trim()).into());
        }
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }

    /// The members, without their dependencies' own metadata.
    pub fn metadata(&self) -> Result<Metadata> {
        let out = self.cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
        if !out.status.success() {
            return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr)).into());
        }
        Ok(serde_json::from_slice(&out.stdout)?)
    }

    /// Every file that belongs to the tree, relative to its root, in order; build output and hidden folders that are
    /// not ours are left out.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        walk(&self.root, &self.root, &mut files)?;
        files.sort();
        Ok(files)
    }

    /// Every Rust file of the tree, relative to its root.
    pub fn rust_files(&self) -> Result<Vec<PathBuf>> {
        Ok(self.files()?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")).collect())
    }

    /// A folder for the logs of one verb, emptied.
    pub fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join("xtask").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The lines of a file of the tree.
    pub fn lines(&self, file: &Path) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.root.join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let foreign = name == "target"
                || name == "node_modules"
                || name.starts_with('.') && name != ".ci" && name != ".cargo";
            if !foreign {
                walk(root, &entry.path(), files)?;
            }
        } else if kind.is_file() && name != ".git" {
            files.push(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    Ok(())
}
