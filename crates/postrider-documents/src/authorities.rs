//! Whom a connection by TLS believes: rustls, always verified.

use std::path::Path;
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// What verifies a server: by the authorities of a file, which an option of the URL names, or else those of this machine.
///
/// # Errors
/// `Config` where the file cannot be read as certificates.
pub(crate) fn verifying(option: &str, file: Option<&Path>) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Config, "setting up TLS").because(error))?;
    let roots = match file {
        Some(file) => listed(option, file)?,
        None => machine(),
    };
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The authorities of this machine. One that cannot be read must not cost the others.
fn machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn listed(option: &str, file: &Path) -> Result<RootCertStore> {
    let unreadable = |error: &dyn std::fmt::Display| {
        let what = format!("{option} {} cannot be read as PEM certificates: {error}", file.display());
        Error::new(ErrorKind::Config, what)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() { Err(unreadable(&"it has none")) } else { Ok(roots) }
}
