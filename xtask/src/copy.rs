//! A second working tree: of HEAD, in which the product is broken on purpose, or of another commit.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::tree::Tree;

/// The tree, with a target folder of its own so that no broken program gets into the true one; removed on drop.
#[derive(Debug)]
pub struct Copy {
    main: PathBuf,
    /// Where it is.
    pub folder: PathBuf,
    /// Where cargo builds it.
    pub target: PathBuf,
}

impl Copy {
    /// Makes one of HEAD for a verb.
    pub fn make(tree: &Tree, verb: &str) -> Result<Self> {
        let [copy] = Self::several(tree, verb, 1)?.try_into().map_err(|_| "one copy was asked for")?;
        Ok(copy)
    }

    /// Makes so many of HEAD for a verb. One after another: git locks what it writes about them.
    pub fn several(tree: &Tree, verb: &str, count: usize) -> Result<Vec<Self>> {
        let dirty = Command::new("git").current_dir(&tree.root).args(["status", "--porcelain"]).output()?;
        if !dirty.stdout.is_empty() {
            println!("{verb} are made in a copy of HEAD; what is not committed is not in it");
        }
        (1..=count).map(|number| Self::of(tree, &format!("{verb}-{number}"), "HEAD")).collect()
    }

    /// Makes one of a commit, under a name of its own.
    pub fn of(tree: &Tree, name: &str, commit: &str) -> Result<Self> {
        let base = tree.target.join(name);
        let copy = Self { main: tree.root.clone(), folder: base.join("tree"), target: base.join("target") };
        copy.remove()?;
        fs::create_dir_all(&base)?;
        let out = Command::new("git")
            .current_dir(&tree.root)
            .args(["worktree", "add", "--detach", "--force"])
            .arg(&copy.folder)
            .arg(commit)
            .output()?;
        if !out.status.success() {
            return Err(format!("git worktree add: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
        }
        Ok(copy)
    }

    /// Runs git in it; whether it succeeded.
    pub fn git(&self, words: &[&str]) -> Result<bool> {
        Ok(Command::new("git").current_dir(&self.folder).args(words).output()?.status.success())
    }

    /// Undoes a break.
    pub fn restore(&self) -> Result<()> {
        if self.git(&["checkout", "--force", "HEAD", "--", "."])? && self.git(&["clean", "-fdq"])? {
            Ok(())
        } else {
            Err("the copy could not be restored".into())
        }
    }

    /// Cargo, called in the copy.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target).stdin(std::process::Stdio::null());
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION", "CARGO_MANIFEST_PATH"] {
            command.env_remove(name);
        }
        command
    }

    fn remove(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        Command::new("git").current_dir(&self.main).args(["worktree", "prune"]).output()?;
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{}: the copy could not be removed: {error}", self.folder.display());
        }
    }
}
