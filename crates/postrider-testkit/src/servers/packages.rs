//! Packages of other languages, which `cargo xtask servers --install` brings by each language's own client.

use std::path::PathBuf;

use super::brought::caches;
use super::process::ServerError;

/// The folder with a language's packages, as its lock file names them. With another lock file than the one they were
/// brought for they count as missing.
///
/// | language | what is in the folder |
/// |---|---|
/// | `python` | `packages`, for `PYTHONPATH` |
/// | `node` | `node_modules` |
/// | `java` | `lib`, with the jars |
/// | `go` | `mod`, for `GOMODCACHE` |
/// | `nats` | `nats-server` |
/// | `moto` | `packages`, for `PYTHONPATH` |
/// | `azurite` | `node_modules` |
///
/// # Errors
/// [`ServerError::NotInstalled`].
pub fn packages(language: &'static str, lock: &str) -> Result<PathBuf, ServerError> {
    let mut folders = caches().map(|cache| cache.join("packages").join(language));
    let brought = |folder: &PathBuf| std::fs::read_to_string(folder.join("lock")).is_ok_and(|found| found == lock);
    folders.find(brought).ok_or_else(|| ServerError::NotInstalled {
        program: format!("what the {language} programs import (cargo xtask servers --install brings it)"),
        package: client(language),
    })
}

/// The Debian package of the program that brings them.
fn client(language: &str) -> &'static str {
    match language {
        "python" | "moto" => "python3-pip",
        "node" | "azurite" => "nodejs npm",
        "java" => "maven",
        _ => "golang-go",
    }
}
