//! Conformance suites, private servers and fault tools, for tests only.

pub mod servers;
pub mod suites;
