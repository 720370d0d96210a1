//! TLS with rustls: verified by default.

use mysql_async::SslOpts;
use postrider_core::Result;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use super::options::MysqlOptions;
use crate::encryption::{Encryption, authorities};

/// How a connection is encrypted; none where it is not.
pub(super) fn settings(options: &MysqlOptions) -> Result<Option<SslOpts>> {
    if options.encryption != Encryption::Disabled {
        choose_provider();
    }
    Ok(match options.encryption {
        Encryption::Disabled => None,
        // The driver wants authorities to know even where it is told to believe everybody.
        Encryption::Preferred | Encryption::Required => {
            Some(SslOpts::default().with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true))
        }
        Encryption::Verified => {
            let roots = authorities(options.root_certificates.as_deref())?;
            let roots = roots.into_iter().map(|certificate| certificate.as_ref().to_vec().into()).collect();
            Some(SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots))
        }
    })
}

/// The driver takes the process's provider. Where nobody chose one and the application brings a second, `ring` say, rustls cannot
/// choose, and panics at the first handshake. What the application chose stays.
fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        let _ = aws_lc_rs::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_chose_no_provider_has_one_before_the_first_handshake() {
        settings(&MysqlOptions::new("mysql://shop@db/shop?sslmode=require").unwrap()).unwrap();
        assert!(CryptoProvider::get_default().is_some());
    }
}
