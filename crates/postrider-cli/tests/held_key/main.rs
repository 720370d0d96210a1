//! What waits behind a held key costs the others nothing, and stays held whatever happens to the relays.
//!
//! The miniature has a hundredth of the rows; `POSTRIDER_FULL=1` (`cargo xtask show fire.7`) has all of them. Rates are
//! only worth reading from a release build.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod beside;
mod kills;

fn is_full() -> bool {
    std::env::var_os("POSTRIDER_FULL").is_some()
}
