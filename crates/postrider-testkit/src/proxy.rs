//! A TCP proxy that cuts the connection when a mark passes: a broker that one message makes drop its connections.
//!
//! What stands before the mark in the same piece does not reach the server either, as with a server that closes before
//! it has read on. At most [`MAX_CONNECTIONS`] at a time; everything ends when the proxy is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::servers::process::ServerError;

/// The most connections at a time; further ones wait.
pub const MAX_CONNECTIONS: usize = 64;
const PIECE: usize = 64 << 10;

/// A running proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    cuts: Arc<AtomicUsize>,
    running: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to a server, which cuts a connection when `mark` goes to that server.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(server: SocketAddr, mark: &[u8]) -> Result<Self, ServerError> {
        let failed = |error| ServerError::failed("starting the proxy", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let cuts = Arc::new(AtomicUsize::new(0));
        let running = tokio::spawn(serve(listener, server, mark.into(), Arc::clone(&cuts)));
        Ok(Self { port, cuts, running })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has cut.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn serve(listener: TcpListener, server: SocketAddr, mark: Arc<[u8]>, cuts: Arc<AtomicUsize>) {
    // Aborting this task drops the set, which ends every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let Ok((client, _)) = listener.accept().await else { return };
        connections.spawn(carry(client, server, Arc::clone(&mark), Arc::clone(&cuts)));
    }
}

/// Carries one connection until either side ends it or the mark passes.
async fn carry(client: TcpStream, server: SocketAddr, mark: Arc<[u8]>, cuts: Arc<AtomicUsize>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_reads, mut client_writes) = client.into_split();
    let (mut server_reads, server_writes) = server.into_split();
    tokio::select! {
        cut = watched(client_reads, server_writes, &mark) => {
            cuts.fetch_add(usize::from(cut), Ordering::SeqCst);
        }
        _ = tokio::io::copy(&mut server_reads, &mut client_writes) => {}
    }
}

/// Copies until the end (false) or the mark (true).
async fn watched(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mark: &[u8]) -> bool {
    let mut piece = vec![0; PIECE];
    // The end of what went before, in which a torn mark may begin.
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let Ok(read @ 1..) = from.read(&mut piece).await else { return false };
        tail.extend_from_slice(&piece[..read]);
        if tail.windows(mark.len().max(1)).any(|window| window == mark) {
            return true;
        }
        tail.drain(..tail.len().saturating_sub(mark.len().saturating_sub(1)));
        if to.write_all(&piece[..read]).await.is_err() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reads, mut writes) = stream.into_split();
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_mark_cuts_its_connection_even_in_two_pieces_and_other_connections_live() {
        let proxy = Proxy::start(echo().await, b"mark").await.unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()));
        let (mut good, mut bad) = (connect().await.unwrap(), connect().await.unwrap());
        let mut back = [0; 4];
        for piece in [b"xxma", b"rkxx"] {
            bad.write_all(piece).await.unwrap();
            let answered = bad.read_exact(&mut back).await.is_ok();
            assert_eq!(answered, piece == b"xxma");
        }
        good.write_all(b"good").await.unwrap();
        good.read_exact(&mut back).await.unwrap();
        assert_eq!((&back, proxy.cuts()), (b"good", 1));
    }
}
