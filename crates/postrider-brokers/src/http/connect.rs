//! A connection that sends nothing.

use std::sync::Arc;

use postrider_core::{Error, Result};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Host;

use super::failure;
use super::settings::Settings;

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
