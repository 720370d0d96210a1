//! How the receiver's certificate is verified, and a connection that sends nothing.

use std::path::Path;
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::failure;
use super::settings::Settings;

/// The client's side of TLS: the system's authorities, and those of a file besides.
///
/// # Errors
/// `Config` when the file can't be read, or when the system has no authorities and none are given.
pub(super) fn config(url: &Url, ca_file: Option<&Path>) -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let broken = |error: rustls::Error| {
        Error::new(ErrorKind::Config, "preparing TLS; install the system's ca-certificates or set ca_file")
            .because(error)
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(broken)?;
    if url.scheme() == "http" {
        // Nothing will be verified, and a machine without authorities must be able to speak plain HTTP.
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let verifier = verifier(ca_file, provider)?.map_err(broken)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn verifier(
    ca_file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<std::result::Result<Verifier, rustls::Error>> {
    let Some(path) = ca_file else { return Ok(Verifier::new(provider)) };
    let unreadable = |error| {
        let text = format!("reading the certificates of ca_file {}; expected PEM", path.display());
        Error::new(ErrorKind::Config, text).because(error)
    };
    let roots: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    Ok(Verifier::new_with_extra_roots(roots.map_err(unreadable)?, provider))
}

/// Connects, and for `https` shakes hands, without sending a request.
///
/// # Errors
/// `Unavailable` or `Config`, like a message would get.
pub(super) async fn connect(settings: &Settings) -> Result<()> {
    let connected = tokio::time::timeout(settings.connect_timeout, try_connect(settings)).await;
    let error = match connected {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(late) => late.into(),
    };
    let (kind, what) = failure::unconnected(error.as_ref());
    Err(Error::new(kind, format!("connecting to {}: {what}", settings.shown)).because(error))
}

async fn try_connect(settings: &Settings) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let host = settings.url.host().ok_or("the URL has no host")?;
    let port = settings.url.port_or_known_default().ok_or("the URL has no port")?;
    let name = match &host {
        Host::Ipv6(address) => address.to_string(),
        other => other.to_string(),
    };
    let addresses = settings.guard.resolve(&name, port).await?;
    let stream = TcpStream::connect(addresses.as_slice()).await?;
    if settings.url.scheme() == "https" {
        let connector = TlsConnector::from(Arc::new(settings.tls.clone()));
        connector.connect(ServerName::try_from(name)?, stream).await?;
    }
    Ok(())
}
