//! TLS with rustls, verified.

use postrider_core::Result;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::Encryption;
use crate::authorities::verifying;

/// What makes the connections encrypted; none where they are not to be.
pub(super) fn connector(encryption: &Encryption) -> Result<Option<MakeRustlsConnect>> {
    let Encryption::Verified(authorities) = encryption else { return Ok(None) };
    Ok(Some(MakeRustlsConnect::new(verifying("sslrootcert", authorities.as_deref())?)))
}
