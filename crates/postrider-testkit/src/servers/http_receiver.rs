//! A real HTTP receiver whose answers are scripted.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::process::ServerError;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// The first value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the receiver does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Answers with a status and no body.
    Status(u16),
    /// Answers with a status, headers and a body.
    Full(u16, Vec<(String, String)>, Vec<u8>),
    /// Answers after a while.
    After(Duration, Box<Answer>),
    /// Never answers and keeps the connection.
    Hang,
    /// Closes the connection without an answer.
    Close,
    /// Sends a status and half of a body, then closes the connection.
    CloseMidBody(u16),
    /// Sends a status and half of a body, then nothing more.
    HangMidBody(u16),
    /// Sends a status and a body that never ends.
    Endless(u16),
}

type Script = dyn Fn(&Request, u64) -> Answer + Send + Sync;

struct Shared {
    script: Mutex<Arc<Script>>,
    requests: Mutex<Vec<Request>>,
    keep: Keep,
    arrived: AtomicU64,
}

/// What the receiver keeps of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of them, for [`HttpReceiver::requests`].
    Everything,
    /// None: the script sees each once.
    Nothing,
}

/// A receiver on a free port of 127.0.0.1, speaking HTTP/1.1 with persistent connections.
pub struct HttpReceiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Mutex<Option<JoinHandle<()>>>,
    /// Dropping the set ends every connection.
    connections: Arc<Mutex<JoinSet<()>>>,
}

impl fmt::Debug for HttpReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReceiver").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpReceiver {
    /// Starts a receiver that answers 204 to everything.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_keeping(Keep::Everything).await
    }

    /// Starts a receiver that answers 204 to everything and keeps all requests, or none.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_keeping(keep: Keep) -> Result<Self, ServerError> {
        let failed = |error| ServerError::failed("starting the HTTP receiver", error);
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(failed)?;
        let script: Arc<Script> = Arc::new(|_: &Request, _| Answer::Status(204));
        let receiver = Self {
            address: listener.local_addr().map_err(failed)?,
            shared: Arc::new(Shared {
                script: Mutex::new(script),
                requests: Mutex::default(),
                keep,
                arrived: AtomicU64::new(0),
            }),
            running: Mutex::default(),
            connections: Arc::default(),
        };
        receiver.serve(listener);
        Ok(receiver)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on answers by a script: the request, and how many came before it.
    pub fn script(&self, script: impl Fn(&Request, u64) -> Answer + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// Every request that arrived whole, in the order of arrival; none where none is kept.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Closes the port and every connection.
    pub async fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.abort();
            let _ = running.await;
        }
        // A connection that was only told to end could still answer a request that comes after this call.
        let mut connections = std::mem::take(&mut *lock(&self.connections));
        connections.shutdown().await;
    }

    /// Opens the same port again.
    ///
    /// # Errors
    /// When somebody else has it now.
    pub async fn restart(&self) -> Result<(), ServerError> {
        self.stop().await;
        let listener =
            listen(self.address).map_err(|error| ServerError::failed("restarting the HTTP receiver", error))?;
        self.serve(listener);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        let connections = Arc::clone(&self.connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut connections = lock(&connections);
                connections.spawn(serve_connection(stream, Arc::clone(&shared)));
                while connections.try_join_next().is_some() {}
            }
        });
        *lock(&self.running) = Some(task);
    }
}

impl Drop for HttpReceiver {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.running).take() {
            running.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Ok(Some(request)) = read_request(&mut stream).await {
        let nth = shared.arrived.fetch_add(1, Ordering::SeqCst);
        if shared.keep == Keep::Everything {
            lock(&shared.requests).push(request.clone());
        }
        let script = Arc::clone(&lock(&shared.script));
        match answer(&mut stream, script(&request, nth)).await {
            Ok(Next::Request) => {}
            Ok(Next::Close) | Err(_) => return,
        }
    }
}

enum Next {
    Request,
    Close,
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let Some(first) = read_line(stream).await? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    let mut length = 0;
    while let Some(line) = read_line(stream).await?.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let (name, value) = (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned());
        if name == "content-length" {
            length = value.parse().map_err(io::Error::other)?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { method, path, headers, body: Bytes::from(body) }))
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

async fn answer(stream: &mut BufReader<TcpStream>, mut answer: Answer) -> io::Result<Next> {
    while let Answer::After(delay, then) = answer {
        tokio::time::sleep(delay).await;
        answer = *then;
    }
    match answer {
        Answer::Status(status) => write(stream, status, &[], b"", 0).await?,
        Answer::Full(status, headers, body) => write(stream, status, &headers, &body, body.len()).await?,
        Answer::Close => return Ok(Next::Close),
        Answer::CloseMidBody(status) => {
            write(stream, status, &[], b"half", 8).await?;
            return Ok(Next::Close);
        }
        Answer::HangMidBody(status) => {
            write(stream, status, &[], b"half", 8).await?;
            std::future::pending::<()>().await;
        }
        Answer::Endless(status) => {
            write(stream, status, &[], b"", usize::MAX >> 1).await?;
            loop {
                stream.get_mut().write_all(&[b'x'; 4096]).await?;
            }
        }
        Answer::Hang | Answer::After(..) => std::future::pending::<()>().await,
    }
    Ok(Next::Request)
}

async fn write(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
    length: usize,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    if status != 204 {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    stream.get_mut().write_all(&bytes).await
}
