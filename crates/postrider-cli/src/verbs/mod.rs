//! One file per verb.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod dead_bulk;
pub(crate) mod dead_filter;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod enqueue;
pub(crate) mod explain;
pub(crate) mod inbox;
pub(crate) mod inbox_discard;
pub(crate) mod inbox_filter;
pub(crate) mod init;
pub(crate) mod json_lines;
pub(crate) mod lanes;
mod look;
pub(crate) mod migrate;
mod named_ids;
mod older_than;
pub(crate) mod prune;
pub(crate) mod relay;
mod routing;
pub(crate) mod standing;
pub(crate) mod status;
pub(crate) mod verdict;
mod ways;
