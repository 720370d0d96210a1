//! Transactional outbox and inbox.
