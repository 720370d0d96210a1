//! The number of lanes, which is fixed when an outbox is created.

use postrider_core::{Error, ErrorKind, LaneCount, Result};

/// That an outbox has as many lanes as were asked for, where a number was asked for.
///
/// # Errors
/// `Config` when it has another number: that one alone counts.
pub fn agree_on_lanes(found: LaneCount, asked: Option<LaneCount>) -> Result<()> {
    let Some(asked) = asked.filter(|asked| *asked != found) else { return Ok(()) };
    let (found, asked) = (found.get(), asked.get());
    let what = format!(
        "the outbox has {found} lanes and {asked} were asked for; the number is fixed when the outbox is created"
    );
    let step = format!(
        "set outbox.lanes to {found} or remove the setting; another number needs another outbox (outbox.prefix)"
    );
    Err(Error::new(ErrorKind::Config, what).advise(step))
}
