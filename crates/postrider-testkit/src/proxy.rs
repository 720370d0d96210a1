//! A TCP proxy that gets in the way: it cuts connections, delays, holds back and loses what passes.
//!
//! A connection is cut when a chosen mark goes to the server: what stands before the mark in the same piece does not
//! reach the server either, as with a server that closes before it has read on. The other troubles come and go while
//! the proxy runs: see [`Passage`], [`Proxy::cut`] and [`Proxy::lose_answer`]. At most [`MAX_CONNECTIONS`] at a time;
//! everything ends when the proxy is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::servers::process::ServerError;

/// The most connections at a time; further ones wait.
pub const MAX_CONNECTIONS: usize = 64;
const PIECE: usize = 64 << 10;

/// How pieces pass, on every connection, from the moment it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passage {
    /// At once.
    #[default]
    Open,
    /// Each after this time, in either direction.
    Slow(Duration),
    /// Nothing reaches the server; what it says still arrives.
    HeldToServer,
    /// Nothing reaches the client; what it says still arrives.
    HeldToClient,
    /// Nothing passes, and nobody is told: a black hole.
    Held,
    /// New connections are closed at once; those that stand go on.
    Refused,
}

/// A running proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    way: Arc<Way>,
    running: JoinHandle<()>,
}

/// What the connections share.
#[derive(Debug)]
struct Way {
    server: SocketAddr,
    /// Empty: there is none.
    mark: Box<[u8]>,
    cuts: AtomicUsize,
    passage: watch::Sender<Passage>,
    /// Counted up to cut every connection that stands.
    severed: watch::Sender<usize>,
    /// Answers still to be lost.
    losing: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Towards {
    Server,
    Client,
}

impl Proxy {
    /// Starts a proxy to a server, which cuts a connection when `mark` goes to that server; an empty mark is none.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(server: SocketAddr, mark: &[u8]) -> Result<Self, ServerError> {
        let failed = |error| ServerError::failed("starting the proxy", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let way = Arc::new(Way {
            server,
            mark: mark.into(),
            cuts: AtomicUsize::new(0),
            passage: watch::Sender::new(Passage::Open),
            severed: watch::Sender::new(0),
            losing: AtomicUsize::new(0),
        });
        let running = tokio::spawn(serve(listener, Arc::clone(&way)));
        Ok(Self { port, way, running })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has cut because the mark passed.
    pub fn cuts(&self) -> usize {
        self.way.cuts.load(Ordering::SeqCst)
    }

    /// From now on pieces pass like this.
    pub fn pass(&self, passage: Passage) {
        self.way.passage.send_replace(passage);
    }

    /// Cuts every connection that stands.
    pub fn cut(&self) {
        self.way.severed.send_modify(|times| *times += 1);
    }

    /// Lets the server's next piece vanish, and cuts its connection: the work was done, and nobody is told.
    pub fn lose_answer(&self) {
        self.way.losing.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn serve(listener: TcpListener, way: Arc<Way>) {
    // Aborting this task drops the set, which ends every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let Ok((client, _)) = listener.accept().await else { return };
        if *way.passage.borrow() != Passage::Refused {
            connections.spawn(carry(client, Arc::clone(&way)));
        }
    }
}

/// Carries one connection until either side ends it, or it is cut.
async fn carry(client: TcpStream, way: Arc<Way>) {
    let mut severed = way.severed.subscribe();
    let Ok(server) = TcpStream::connect(way.server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::select! {
        () = pieces(client_reads, server_writes, &way, Towards::Server) => {}
        () = pieces(server_reads, client_writes, &way, Towards::Client) => {}
        _ = severed.changed() => {}
    }
}

/// Copies one direction until the end, the mark, or an answer that is to be lost.
async fn pieces(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: &Way, towards: Towards) {
    let mut passage = way.passage.subscribe();
    let mut piece = vec![0; PIECE];
    // The end of what went before, in which a torn mark may begin.
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let Ok(read @ 1..) = from.read(&mut piece).await else { return };
        if towards == Towards::Server && !way.mark.is_empty() {
            tail.extend_from_slice(&piece[..read]);
            if tail.windows(way.mark.len()).any(|window| *window == *way.mark) {
                way.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
            tail.drain(..tail.len().saturating_sub(way.mark.len() - 1));
        }
        if towards == Towards::Client && way.loses() {
            return;
        }
        let now = *passage.borrow_and_update();
        if let Passage::Slow(pause) = now {
            tokio::time::sleep(pause).await;
        }
        while passage.borrow_and_update().holds(towards) {
            if passage.changed().await.is_err() {
                return;
            }
        }
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

impl Way {
    fn loses(&self) -> bool {
        self.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

impl Passage {
    fn holds(self, towards: Towards) -> bool {
        match self {
            Self::Held => true,
            Self::HeldToServer => towards == Towards::Server,
            Self::HeldToClient => towards == Towards::Client,
            Self::Open | Self::Slow(_) | Self::Refused => false,
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

    #[tokio::test]
    async fn what_is_held_passes_later_and_what_is_lost_or_cut_never_does() {
        let proxy = Proxy::start(echo().await, b"").await.unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()));
        let mut back = [0; 4];
        let soon = Duration::from_millis(100);

        let mut held = connect().await.unwrap();
        for passage in [Passage::Held, Passage::HeldToServer, Passage::HeldToClient] {
            proxy.pass(passage);
            held.write_all(b"held").await.unwrap();
            assert!(tokio::time::timeout(soon, held.read_exact(&mut back)).await.is_err(), "{passage:?}");
            proxy.pass(Passage::Open);
            held.read_exact(&mut back).await.unwrap();
        }
        proxy.pass(Passage::Slow(soon));
        let asked = std::time::Instant::now();
        held.write_all(b"slow").await.unwrap();
        held.read_exact(&mut back).await.unwrap();
        assert!(asked.elapsed() >= soon);

        proxy.pass(Passage::Refused);
        let mut refused = connect().await.unwrap();
        assert!(refused.write_all(b"none").await.is_err() || refused.read_exact(&mut back).await.is_err());
        proxy.pass(Passage::Open);
        held.write_all(b"here").await.unwrap();
        held.read_exact(&mut back).await.unwrap();
        proxy.lose_answer();
        held.write_all(b"lost").await.unwrap();
        assert!(held.read_exact(&mut back).await.is_err());

        let mut cut = connect().await.unwrap();
        cut.write_all(b"here").await.unwrap();
        cut.read_exact(&mut back).await.unwrap();
        proxy.cut();
        assert!(cut.read_exact(&mut back).await.is_err());
        assert_eq!(proxy.cuts(), 0);
    }
}
