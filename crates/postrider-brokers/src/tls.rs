//! How a server's certificate is verified, and how we show ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Files by which we prove to a server who we are, PEM.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The certificate, and those between it and the authority.
    pub(crate) certificates: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
}

/// The client's side of TLS: the system's authorities, those of a file besides, and our own certificate for servers
/// that ask for one.
///
/// # Errors
/// `Config` when a file can't be read or used, or when the system has no authorities and none are given.
pub(crate) fn verifying(ca_file: Option<&Path>, identity: Option<&Identity>) -> Result<ClientConfig> {
    let broken = |error: rustls::Error| {
        let text = "preparing TLS; install the system's ca-certificates, or set ca_file";
        Error::new(ErrorKind::Config, text).because(error)
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = match ca_file {
        None => Verifier::new(Arc::clone(&provider)),
        Some(path) => Verifier::new_with_extra_roots(certificates("ca_file", path)?, Arc::clone(&provider)),
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(broken)?;
    let verifier = Arc::new(verifier.map_err(broken)?);
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(|error| {
        let text = format!("reading the private key of client_key_file {}; expected PEM", identity.key.display());
        Error::new(ErrorKind::Config, text).because(error)
    })?;
    let shown = certificates("client_cert_file", &identity.certificates)?;
    builder.with_client_auth_cert(shown, key).map_err(|error| {
        let text = "client_cert_file and client_key_file do not belong together, or can't be used";
        Error::new(ErrorKind::Config, text).because(error)
    })
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

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = || format!("reading the certificates of {option} {}; expected PEM", path.display());
    let unreadable = |error| Error::new(ErrorKind::Config, text()).because(error);
    let read = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let read: Vec<_> = read.map(|one| one.map_err(unreadable)).collect::<Result<_>>()?;
    if read.is_empty() {
        Err(Error::new(ErrorKind::Config, format!("{}, found no certificate", text())))
    } else {
        Ok(read)
    }
}
