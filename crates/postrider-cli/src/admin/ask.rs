//! Asking a relay's admin address for its report: one plain HTTP/1.1 exchange.

use std::net::SocketAddr;
use std::time::Duration;

use postrider_core::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::report::Report;

/// How long the whole exchange may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const LONGEST: u64 = 1 << 20;

/// The relay's report, or why there is none.
pub(crate) async fn ask(address: SocketAddr, token: Option<&Secret>) -> Result<Report, String> {
    // An address that listens everywhere is asked on this machine.
    let address = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        ip if ip.is_unspecified() => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port())),
        _ => address,
    };
    match timeout(PATIENCE, exchange(address, token)).await {
        Ok(Ok(answer)) => report(&answer),
        Ok(Err(error)) => Err(format!("nobody answers at {address} ({error})")),
        Err(_) => Err(format!("no answer from {address} within {}s", PATIENCE.as_secs())),
    }
}

async fn exchange(address: SocketAddr, token: Option<&Secret>) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let authorization = token.map_or(String::new(), |token| format!("authorization: Bearer {}\r\n", token.reveal()));
    let request = format!("GET /status HTTP/1.1\r\nhost: {address}\r\n{authorization}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn report(answer: &[u8]) -> Result<Report, String> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").ok_or("the answer is no HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    match head.split_whitespace().nth(1) {
        Some("200") => serde_json::from_slice(&answer[end + 4..])
            .map_err(|_| "what answers there is no postrider relay of this version".to_owned()),
        Some("401") => Err("it asks for a token: set admin.token_file or POSTRIDER_ADMIN__TOKEN".to_owned()),
        code => Err(format!("it answered {}", code.unwrap_or("nonsense"))),
    }
}
