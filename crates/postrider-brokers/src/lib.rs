//! Where messages go: one folder per broker, one feature each.
