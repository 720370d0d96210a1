//! What must not compile: `tests/refused`, one program each, beside it what the compiler says.
//!
//! `TRYBUILD=overwrite cargo test -p postrider-compile-fail` writes what it says now; read the difference.
