//! The real binary, run on SQLite and, where it is there, on PostgreSQL.

mod admin;
mod bad_input;
mod configuration;
mod dead_letters;
mod harness;
mod relaying;
