//! What more than one client of a service over HTTP is asked.

use std::error::Error as StdError;

use object_store::client::HttpError;

/// Whether the network is what failed.
pub(crate) fn is_network(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<HttpError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
