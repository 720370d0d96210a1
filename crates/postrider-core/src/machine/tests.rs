//! The rules, one by one.
