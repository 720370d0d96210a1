//! PgBouncer in transaction mode.
