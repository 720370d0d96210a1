//! What it means when no answer came.

use std::error::Error as StdError;
use std::io;

use postrider_core::{Error, ErrorKind};
use rustls::CertificateError;

use super::egress::Refused;

/// Classifies a request that got no answer.
pub(super) fn classify(shown: &str, error: reqwest::Error) -> Error {
    let is_unsent = error.is_connect();
    let (kind, what) = if is_unsent {
        unconnected(&error)
    } else if error.is_builder() {
        (ErrorKind::Rejected, "the message can't be written as a request")
    } else if error.is_timeout() {
        (ErrorKind::Unknown, "no answer in time; it may have been delivered")
    } else {
        (ErrorKind::Unknown, "the connection was lost before the answer; it may have been delivered")
    };
    let failure = Error::new(kind, format!("POST to {shown}: {what}")).because(bare(error));
    if is_unsent { failure.unsent() } else { failure }
}

/// The error without its URL, which may carry secrets.
pub(super) fn bare(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

/// What it means when no connection came about.
pub(super) fn unconnected(error: &(dyn StdError + 'static)) -> (ErrorKind, &'static str) {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Refused>() {
            return (ErrorKind::Config, "no connection");
        }
        if let Some(what) = of_certificate(error) {
            return (ErrorKind::Config, what);
        }
        cause = inner(error);
    }
    (ErrorKind::Unavailable, "no connection")
}

/// What is wrong with a certificate, where that is why there is no connection.
fn of_certificate(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    use CertificateError as Wrong;
    match error.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(
            Wrong::Expired | Wrong::ExpiredContext { .. } | Wrong::NotValidYet | Wrong::NotValidYetContext { .. },
        ) => Some(
            "the receiver's certificate has expired, or is not valid yet; renew it there, or set the clock of this machine",
        ),
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            Some("the receiver's certificate does not verify; repair it, or name its authority in ca_file")
        }
        _ => None,
    }
}

/// The cause of an error; of an I/O error the error that it wraps, which `source` skips.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
