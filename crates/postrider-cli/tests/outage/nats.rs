//! A NATS server with two users: the relay's, whose password can be revoked, and an observer's.

use std::collections::HashSet;

use async_nats::{Client, ConnectOptions, jetstream};
use futures_util::StreamExt;
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};
use postrider_testkit::servers::process::ServerError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::stream;

/// The password that the relay has.
const PASSWORD: &str = "right";

fn users(password: &str) -> String {
    format!("authorization {{ users: [{{user: relay, password: {password}}}, {{user: observer, password: watch}}] }}")
}

pub struct Nats {
    pub server: NatsServer,
    pub observer: Client,
}

impl Nats {
    /// Starts a server with a stream.
    ///
    /// # Errors
    /// When NATS is not there.
    pub async fn start() -> Result<Self, ServerError> {
        let options = NatsOptions { extra: users(PASSWORD), ..NatsOptions::default() };
        let server = NatsServer::start_with(options).await?;
        let observer = ConnectOptions::with_user_and_password("observer".to_owned(), "watch".to_owned())
            .max_reconnects(None)
            .connect(server.url())
            .await
            .unwrap();
        stream::create(&observer).await;
        Ok(Self { server, observer })
    }

    /// What stands in the relay's configuration when it reaches the server by a port.
    pub fn broker(port: u16) -> String {
        format!("url = \"nats://127.0.0.1:{port}\"\nuser = \"relay\"\npassword = \"{PASSWORD}\"\ntimeout = \"2s\"")
    }

    /// The server knows the relay's password no more.
    pub fn revoke(&mut self) {
        self.server.reload(&users("another")).unwrap();
    }

    /// It knows it again.
    pub fn restore(&mut self) {
        self.server.reload(&users(PASSWORD)).unwrap();
    }

    /// Deletes the stream with everything in it.
    pub async fn delete_stream(&self) {
        jetstream::new(self.observer.clone()).delete_stream(stream::STREAM).await.unwrap();
    }

    /// The ids in the stream, in its order.
    pub async fn ids(&self) -> Vec<String> {
        stream::read(&self.observer).await.iter().map(|message| message.id().to_owned()).collect()
    }
}

/// Sees every publication and every acknowledgement on the wire, so that what a stream had acknowledged is known after
/// the stream was deleted.
///
/// While it is open, a subject that no stream covers has a subscriber all the same, and the server does not answer that
/// there is none: it must be closed as soon as the stream is gone.
pub struct Tap {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Where the acknowledgement goes, and the message id.
    published: Vec<(String, String)>,
    acknowledged: HashSet<String>,
}

impl Seen {
    fn take_in(&mut self, message: &async_nats::Message) {
        if let Some(id) = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")) {
            let reply = message.reply.as_ref().map(ToString::to_string);
            self.published.push((reply.unwrap_or_default(), id.to_string()));
            return;
        }
        let answer: serde_json::Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        if answer.get("seq").is_some() && answer.get("error").is_none() {
            self.acknowledged.insert(message.subject.to_string());
        }
    }
}

impl Tap {
    /// Begins to watch.
    pub async fn open(client: &Client) -> Self {
        let mut published = client.subscribe(stream::SUBJECTS).await.unwrap();
        let mut answers = client.subscribe("_INBOX.>").await.unwrap();
        client.flush().await.unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let mut seen = Seen::default();
            loop {
                tokio::select! {
                    Some(message) = published.next() => seen.take_in(&message),
                    Some(answer) = answers.next() => seen.take_in(&answer),
                    _ = &mut stopped => break,
                }
            }
            published.drain().await.unwrap();
            answers.drain().await.unwrap();
            while let Some(message) = published.next().await {
                seen.take_in(&message);
            }
            while let Some(answer) = answers.next().await {
                seen.take_in(&answer);
            }
            seen
        });
        Self { stop, running }
    }

    /// Ends it: the ids that were acknowledged, in the order of their publication.
    pub async fn close(self) -> Vec<String> {
        self.stop.send(()).unwrap();
        let seen = self.running.await.unwrap();
        let acknowledged = seen.published.iter().filter(|(reply, _)| seen.acknowledged.contains(reply));
        acknowledged.map(|(_, id)| id.clone()).collect()
    }
}
