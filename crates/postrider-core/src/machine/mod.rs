//! The relay, decided purely.
