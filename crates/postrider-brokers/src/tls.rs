//! How a server's certificate is verified.

use std::path::Path;
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// The client's side of TLS: the system's authorities, and those of a file besides.
///
/// # Errors
/// `Config` when the file can't be read, or when the system has no authorities and none are given.
pub(crate) fn verifying(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let broken = |error: rustls::Error| {
        let text = "preparing TLS; install the system's ca-certificates, or set ca_file";
        Error::new(ErrorKind::Config, text).because(error)
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = match ca_file {
        None => Verifier::new(Arc::clone(&provider)),
        Some(path) => Verifier::new_with_extra_roots(certificates(path)?, Arc::clone(&provider)),
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(broken)?;
    let verifier = Arc::new(verifier.map_err(broken)?);
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// A configuration that trusts nobody, for plain connections on a machine without authorities.
///
/// # Errors
/// `Config` when the cryptography can't be set up.
pub(crate) fn trusting_nobody() -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Config, "preparing TLS").because(error))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error| {
        let text = format!("reading the certificates of ca_file {}; expected PEM", path.display());
        Error::new(ErrorKind::Config, text).because(error)
    };
    CertificateDer::pem_file_iter(path).map_err(unreadable)?.map(|one| one.map_err(unreadable)).collect()
}
