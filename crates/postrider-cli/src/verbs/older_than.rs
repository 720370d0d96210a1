//! The age that `--older-than` asks for.

use std::time::Duration;

use crate::config::values;
use crate::failure::{Failure, Outcome};

/// The age, where one is asked for.
pub(super) fn older_than(text: Option<&str>) -> Outcome<Option<Duration>> {
    let read = |text| {
        values::duration(text)
            .ok_or_else(|| Failure::usage(format!("{text:?} is no length of time"), "write --older-than 30m, 2h or 7d"))
    };
    text.map(read).transpose()
}
