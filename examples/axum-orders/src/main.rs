//! An order service.
fn main() {}
