//! TLS with rustls: verified by default.

use mysql_async::SslOpts;
use postrider_core::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::options::{Encryption, MysqlOptions};

/// How a connection is encrypted; none where it is not.
pub(super) fn settings(options: &MysqlOptions) -> Result<Option<SslOpts>> {
    Ok(match options.encryption {
        Encryption::Disabled => None,
        // The driver wants authorities to know even where it is told to believe everybody.
        Encryption::Preferred | Encryption::Required => {
            Some(SslOpts::default().with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true))
        }
        Encryption::Verified => {
            let roots = roots(options)?.into_iter().map(Into::into).collect();
            Some(SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots))
        }
    })
}

/// The authorities that are believed: those of a file, or of this machine; never a list that came with the driver.
fn roots(options: &MysqlOptions) -> Result<Vec<Vec<u8>>> {
    let handed = |certificate: CertificateDer<'static>| certificate.as_ref().to_vec();
    let Some(path) = &options.root_certificates else {
        // One of the machine's own that cannot be read must not cost the others.
        let readable = |certificate: &CertificateDer<'static>| RootCertStore::empty().add(certificate.clone()).is_ok();
        let native = rustls_native_certs::load_native_certs().certs;
        return Ok(native.into_iter().filter(readable).map(handed).collect());
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        let what = format!("sslrootcert {} cannot be read as PEM certificates: {error}", path.display());
        Error::new(ErrorKind::Config, what)
    };
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        RootCertStore::empty().add(certificate.clone()).map_err(|error| unreadable(&error))?;
        certificates.push(handed(certificate));
    }
    if certificates.is_empty() { Err(unreadable(&"it has none")) } else { Ok(certificates) }
}
