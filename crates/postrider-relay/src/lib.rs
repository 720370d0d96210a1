//! Moves messages from a store to brokers.
