//! What SQLite can do to a relay, and what it gets for it.
