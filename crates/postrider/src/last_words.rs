//! What somebody said who panicked.

use std::any::Any;

/// What stands in a panic that was caught.
pub(crate) fn last_words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
