//! TLS with rustls: verified by default.

use mysql_async::SslOpts;
use postrider_core::Result;

use super::options::MysqlOptions;
use crate::encryption::{Encryption, authorities};

/// How a connection is encrypted; none where it is not.
pub(super) fn settings(options: &MysqlOptions) -> Result<Option<SslOpts>> {
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
