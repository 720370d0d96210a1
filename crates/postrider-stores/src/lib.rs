//! Where messages wait: one folder per database, one feature each.
