//! What stands between a relay and a server: a proxy for each of its nodes, or nothing where there is no server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use postrider_testkit::proxy::{Passage, Proxy};

use crate::Fallible;

/// The proxies.
#[derive(Debug, Clone, Default)]
pub struct Ways(Vec<Arc<Proxy>>);

impl Ways {
    /// A proxy to each of these ports of this machine.
    ///
    /// # Errors
    /// When no port can be had for one.
    pub async fn to(ports: impl IntoIterator<Item = u16>) -> Fallible<Self> {
        let mut proxies = Vec::new();
        for port in ports {
            proxies.push(Arc::new(Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), b"").await?));
        }
        Ok(Self(proxies))
    }

    /// The ports of the proxies.
    pub fn ports(&self) -> Vec<u16> {
        self.0.iter().map(|proxy| proxy.port()).collect()
    }

    /// From now on pieces pass like this.
    pub fn pass(&self, passage: Passage) {
        self.0.iter().for_each(|proxy| proxy.pass(passage));
    }

    /// Cuts every connection that stands.
    pub fn cut(&self) {
        self.0.iter().for_each(|proxy| proxy.cut());
    }

    /// Lets the next answer of each node vanish, and cuts its connection.
    pub fn lose_answer(&self) {
        self.0.iter().for_each(|proxy| proxy.lose_answer());
    }
}
