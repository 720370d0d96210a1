//! Tells the program what it is built for: `postrider --version --verbose` says it.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (name, value) in [
        ("POSTRIDER_TARGET", var("TARGET")),
        ("POSTRIDER_PROFILE", var("PROFILE")),
        ("POSTRIDER_FEATURES", var("CARGO_CFG_FEATURE")),
    ] {
        println!("cargo::rustc-env={name}={}", value.unwrap_or_default());
    }
}
