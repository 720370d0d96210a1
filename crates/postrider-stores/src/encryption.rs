//! How encrypted the connection to a database server is, and whom it believes.

use std::path::Path;

use postrider_core::{Error, ErrorKind, Finding, Level, Result};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// How encrypted the connection is, and whose certificate is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// `disable`: never encrypted.
    Disabled,
    /// `prefer`: encrypted where the server can, nothing verified. The default for loopback hosts and sockets.
    Preferred,
    /// `require`: encrypted, nothing verified.
    Required,
    /// `verify-full`: encrypted, chain and host name verified. The default for every other host.
    Verified,
}

impl Encryption {
    /// By the words of libpq, or those of MySQL's own tools.
    pub(crate) fn named(mode: &str) -> Option<Self> {
        match mode.to_ascii_lowercase().replace('_', "-").as_str() {
            "disable" | "disabled" => Some(Self::Disabled),
            "prefer" | "preferred" | "allow" => Some(Self::Preferred),
            "require" | "required" => Some(Self::Required),
            "verify-full" | "verify-identity" => Some(Self::Verified),
            _ => None,
        }
    }

    /// What the doctor says of it, for a server on this machine or on another one.
    pub(crate) fn finding(self, is_local: bool) -> Finding {
        const VERIFY: &str = "use sslmode=verify-full, with sslrootcert for a private authority";
        let (level, found, advice) = match (self, is_local) {
            (Self::Verified, _) => (Level::Good, "TLS, verified", ""),
            (Self::Preferred, true) => (Level::Good, "TLS where the server can, nothing verified, on this machine", ""),
            (Self::Preferred, false) => (
                Level::Warning,
                "TLS where the server can, nothing verified (sslmode=prefer): whoever stands between can turn it off",
                VERIFY,
            ),
            (Self::Required, _) => (Level::Warning, "TLS without verification", VERIFY),
            (Self::Disabled, _) => (Level::Warning, "none", "use sslmode=verify-full outside this machine"),
        };
        Finding { level, subject: "encryption".to_owned(), found: found.to_owned(), advice: advice.to_owned() }
    }
}

/// The authorities that are believed: those of a file, or of this machine; never a list that came with a driver.
///
/// # Errors
/// `Config` when the file has none, or something that is no certificate. One of the machine's own that cannot be read must
/// not cost the others.
pub(crate) fn authorities(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>> {
    let Some(path) = file else {
        let readable = |certificate: &CertificateDer<'static>| RootCertStore::empty().add(certificate.clone()).is_ok();
        return Ok(rustls_native_certs::load_native_certs().certs.into_iter().filter(readable).collect());
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        let what = format!("sslrootcert {} cannot be read as PEM certificates: {error}", path.display());
        Error::new(ErrorKind::Config, what)
    };
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        RootCertStore::empty().add(certificate.clone()).map_err(|error| unreadable(&error))?;
        certificates.push(certificate);
    }
    if certificates.is_empty() { Err(unreadable(&"it has none")) } else { Ok(certificates) }
}

/// What stands behind a name in a URL, its `%` read.
///
/// # Errors
/// What was expected, in words.
pub(crate) fn decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or("expected two hexadecimal digits after %")?);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| "expected UTF-8 after decoding %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_names() {
        for (name, mode) in [
            ("disable", Some(Encryption::Disabled)),
            ("allow", Some(Encryption::Preferred)),
            ("prefer", Some(Encryption::Preferred)),
            ("REQUIRED", Some(Encryption::Required)),
            ("verify-full", Some(Encryption::Verified)),
            ("VERIFY_IDENTITY", Some(Encryption::Verified)),
            ("verify-ca", None),
            ("", None),
        ] {
            assert_eq!(Encryption::named(name), mode, "{name:?}");
        }
    }

    /// With `prefer` whoever stands between decides whether anything is encrypted.
    #[test]
    fn only_a_server_on_this_machine_is_good_without_verification() {
        let level = |encryption: Encryption, is_local| {
            let finding = encryption.finding(is_local);
            assert_eq!(finding.advice.is_empty(), finding.level == Level::Good, "{finding:?}");
            finding.level
        };
        for is_local in [true, false] {
            assert_eq!(level(Encryption::Verified, is_local), Level::Good);
            assert_eq!(level(Encryption::Required, is_local), Level::Warning);
            assert_eq!(level(Encryption::Disabled, is_local), Level::Warning);
        }
        assert_eq!(level(Encryption::Preferred, true), Level::Good);
        assert_eq!(level(Encryption::Preferred, false), Level::Warning);
    }

    #[test]
    fn a_value_of_a_url_is_decoded_or_refused() {
        assert_eq!(decoded("/etc/a%20b/%c3%a4.pem").unwrap(), "/etc/a b/\u{e4}.pem");
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert!(decoded(bad).is_err(), "{bad:?}");
        }
    }
}
