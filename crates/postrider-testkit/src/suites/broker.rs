//! What every broker must do.
