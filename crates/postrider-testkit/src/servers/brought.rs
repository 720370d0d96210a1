//! Where `cargo xtask servers --install` keeps what it brings from registries.

use std::path::{Path, PathBuf};

/// The folders that it may be found in: kept by root, and by this user.
pub(super) fn caches() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/postrider"));
    [Some(PathBuf::from("/var/cache/postrider")), home].into_iter().flatten()
}
