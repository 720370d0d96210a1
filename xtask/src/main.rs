//! Checks, tests, shows and breaks of the workspace.

fn main() {}
