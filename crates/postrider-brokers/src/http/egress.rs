//! Which addresses messages may go to, checked on the address that is connected to.
//!
//! A name is resolved by [`Guard`] itself and only allowed addresses are handed to the client, so a name that changes
//! its address between a check and the connection gains nothing.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Host;

/// A network, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `address` or `address/prefix`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(most);
        (prefix <= most).then_some(Self { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                same_prefix(u128::from(ours.to_bits()) << 96, u128::from(other.to_bits()) << 96, self.prefix)
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => same_prefix(ours.to_bits(), other.to_bits(), self.prefix),
            _ => false,
        }
    }
}

fn same_prefix(one: u128, other: u128, prefix: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(prefix)).unwrap_or(0) == 0
}

/// Which addresses are allowed.
#[derive(Debug, Clone)]
pub(super) enum Egress {
    /// Every address.
    Any,
    /// Public addresses and these networks.
    Public(Vec<Network>),
}

/// How a name and a port become addresses.
type Names = fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

/// The rule for one destination's host.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    egress: Arc<Egress>,
    names: Names,
    /// The configured URL names this machine itself, so loopback is what was asked for.
    loopback: bool,
}

impl Guard {
    pub(super) fn new(egress: Egress, host: &Host<&str>) -> Self {
        let loopback = match host {
            Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        Self { egress: Arc::new(egress), names: system, loopback }
    }

    /// The same rule where names stand for other addresses.
    #[cfg(test)]
    pub(super) fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Whether the configured URL names this machine itself.
    pub(super) fn is_loopback(&self) -> bool {
        self.loopback
    }

    /// Whether a connection to this address is allowed.
    ///
    /// # Errors
    /// The address, with how to allow it.
    pub(super) fn admit(&self, address: IpAddr) -> Result<(), Refused> {
        let address = address.to_canonical();
        let allowed = match &*self.egress {
            Egress::Any => true,
            Egress::Public(networks) => public(address) || networks.iter().any(|network| network.contains(address)),
        };
        if allowed || (self.loopback && address.is_loopback()) { Ok(()) } else { Err(Refused(address)) }
    }

    /// The addresses of a host that are allowed.
    ///
    /// # Errors
    /// When the name has no address, or none that is allowed ([`Refused`]).
    pub(super) async fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Box<dyn StdError + Send + Sync>> {
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in (self.names)(host.to_owned(), port).await? {
            match self.admit(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(refused) if allowed.is_empty() => Err(refused.into()),
            _ if allowed.is_empty() => Err("the name has no address".into()),
            _ => Ok(allowed),
        }
    }
}

/// The system's own names.
fn system(host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.resolve(name.as_str(), 0).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// An address that the egress guard refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused(IpAddr);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the egress guard refuses the private, local or reserved address {}; if it is meant, allow it with egress \
             = [\"{}\"] (or a network, or egress = \"any\")",
            self.0, self.0
        )
    }
}

impl StdError for Refused {}

/// Whether an address is on the public internet.
fn public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => public_v4(address),
        IpAddr::V6(address) => public_v6(address),
    }
}

fn public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // By the IANA registry of special-purpose addresses; 168.63.129.16 is Azure's platform service.
    !(a == 0
        || a == 10
        || a == 127
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 168)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113)
        || address == Ipv4Addr::new(168, 63, 129, 16))
}

fn public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    let inside = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match words {
        // An IPv4 address in IPv6 clothes (NAT64, 6to4) is judged by what it stands for.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => public_v4(inside(high, low)),
        [0x2002, high, low, ..] => public_v4(inside(high, low)),
        // Teredo, benchmarking, ORCHID and the documentation networks; everything outside 2000::/3 is not global.
        [0x2001, second, ..] if second < 0x0200 || second == 0x0db8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(egress: Egress, host: &str) -> Guard {
        Guard::new(egress, &Host::Domain(host))
    }

    #[test]
    fn private_local_and_reserved_addresses_are_refused_in_every_disguise() {
        let guard = guard(Egress::Public(Vec::new()), "hooks.example.com");
        for bad in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001:0:4136:e378::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(guard.admit(bad.parse().unwrap()).is_err(), "{bad}");
        }
        for good in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "169.253.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(guard.admit(good.parse().unwrap()).is_ok(), "{good}");
        }
    }

    #[test]
    fn loopback_is_allowed_only_where_the_url_itself_says_so() {
        let (v4, v6): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "::1".parse().unwrap());
        for host in [Host::Domain("LocalHost"), Host::Ipv4(Ipv4Addr::LOCALHOST), Host::Ipv6(Ipv6Addr::LOCALHOST)] {
            let guard = Guard::new(Egress::Public(Vec::new()), &host);
            assert!(guard.admit(v4).is_ok() && guard.admit(v6).is_ok(), "{host}");
            assert!(guard.admit("10.0.0.1".parse().unwrap()).is_err());
        }
        for host in ["localhost.example.com", "internal"] {
            assert!(guard(Egress::Public(Vec::new()), host).admit(v4).is_err());
        }
    }

    #[test]
    fn listed_networks_are_allowed_and_no_others() {
        let networks = ["10.1.0.0/16", "fd00::/8", "192.168.0.7"].map(|text| Network::parse(text).unwrap());
        let guard = guard(Egress::Public(networks.to_vec()), "internal");
        for good in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "192.168.0.7", "8.8.8.8"] {
            assert!(guard.admit(good.parse().unwrap()).is_ok(), "{good}");
        }
        for bad in ["10.2.0.1", "192.168.0.8", "fc00::1", "127.0.0.1"] {
            assert!(guard.admit(bad.parse().unwrap()).is_err(), "{bad}");
        }
        assert!(Network::parse("0.0.0.0/0").unwrap().contains("127.0.0.1".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "host"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_refused_when_it_is_resolved() {
        let refused = guard(Egress::Public(Vec::new()), "hooks.example.com").resolve("localhost", 80).await;
        let error = refused.unwrap_err();
        assert!(error.is::<Refused>(), "{error}");
        assert!(guard(Egress::Any, "hooks.example.com").resolve("localhost", 80).await.is_ok());
    }
}
