//! Conformance suites, private servers and fault tools, for tests only.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a case of a suite fails by a panic")]

pub mod command;
pub mod crash_matrix;
pub mod dying;
pub mod proxy;
pub mod servers;
pub mod simulator;
pub mod small_disk;
pub mod suites;
pub mod troubled;
pub mod troubled_documents;
pub mod verdict;
