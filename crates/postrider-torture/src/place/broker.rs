//! The broker of a run, whichever it is.

use std::sync::Arc;

use postrider_testkit::servers::process::Signal;

use super::http::HttpPlace;
use super::kafka::KafkaPlace;
use super::lines::LinesPlace;
use super::nats::NatsPlace;
use crate::Fallible;
use crate::record::Recorder;
use crate::settings::{BrokerKind, Settings};
use crate::ways::Ways;

/// Whether it takes the messages that can hold their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As it mostly is: it refuses the large ones among them.
    Usual,
    /// It takes them all.
    Healed,
}

impl Health {
    /// The most bytes that it takes of a message. Poison is above both.
    pub const fn most_bytes(self) -> usize {
        match self {
            Self::Usual => 32 << 10,
            Self::Healed => 64 << 10,
        }
    }
}

/// The broker.
#[derive(Debug)]
pub enum Broker {
    /// A private NATS.
    Nats(Box<NatsPlace>),
    /// A private Kafka.
    Kafka(Box<KafkaPlace>),
    /// A receiver inside this program.
    Http(HttpPlace),
    /// A file.
    File(LinesPlace),
}

impl Broker {
    /// Starts it, with a recorder of everything that it takes.
    ///
    /// # Errors
    /// When a server is missing or does not start.
    pub async fn start(settings: &Settings, recorder: &Arc<Recorder>) -> Fallible<Self> {
        // One more relay comes and goes.
        let slots = settings.relays + 1;
        Ok(match settings.broker {
            BrokerKind::Nats => Self::Nats(Box::new(NatsPlace::start(recorder).await?)),
            BrokerKind::Kafka => Self::Kafka(Box::new(KafkaPlace::start(1, slots, recorder).await?)),
            BrokerKind::Kafka3 => Self::Kafka(Box::new(KafkaPlace::start(3, slots, recorder).await?)),
            BrokerKind::Http => Self::Http(HttpPlace::start(recorder).await?),
            BrokerKind::File => Self::File(LinesPlace::start(&settings.out, recorder)),
        })
    }

    /// Its name and version.
    pub fn version(&self) -> String {
        match self {
            Self::Nats(place) => format!("NATS {}", place.version()),
            Self::Kafka(place) => place.version(),
            Self::Http(_) => "HTTP receiver".to_owned(),
            Self::File(_) => "file".to_owned(),
        }
    }

    /// Where receivers read, where it is one that they read from.
    pub fn readable(&self) -> Option<String> {
        match self {
            Self::Nats(place) => Some(place.url()),
            Self::Kafka(place) => Some(place.url()),
            Self::Http(_) | Self::File(_) => None,
        }
    }

    /// Whether a killed server keeps what it acknowledged.
    pub fn survives_kill(&self) -> bool {
        match self {
            Self::Nats(place) => place.survives_kill(),
            // The process ends, the machine does not: what it acknowledged is in the kernel's hands.
            Self::Kafka(_) | Self::Http(_) | Self::File(_) => true,
        }
    }

    /// Its section in a relay's configuration, by the ports of what stands in between.
    pub fn section(&self, ports: &[u16]) -> String {
        let servers: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let servers = servers.join(",");
        match self {
            Self::Nats(_) => format!("url = \"nats://{servers}\"\ntimeout = \"2s\"\n"),
            Self::Kafka(_) => format!("url = \"kafka://{servers}\"\ntimeout = \"2s\"\n"),
            Self::Http(_) => format!("url = \"http://{servers}\"\ntimeout = \"2s\"\n"),
            Self::File(place) => format!("url = \"file://{}\"\n", place.file().display()),
        }
    }

    /// What stands between it and the relay of a slot.
    ///
    /// # Errors
    /// When no port can be had for a proxy.
    pub async fn ways(&self, slot: usize) -> Fallible<Ways> {
        match self {
            Self::Nats(place) => Ways::to([place.port()]).await,
            Self::Kafka(place) => Ok(place.ways(slot)),
            Self::Http(place) => Ways::to([place.port()]).await,
            Self::File(_) => Ok(Ways::default()),
        }
    }

    /// Stops it, or one of its nodes, in good order.
    pub async fn stop(&self) {
        match self {
            Self::Nats(place) => place.server().lock().await.stop(),
            Self::Kafka(place) => place.stop().await,
            Self::Http(place) => place.stop().await,
            Self::File(_) => {}
        }
    }

    /// Ends it, or one of its nodes, at once.
    pub async fn kill(&self) {
        match self {
            Self::Nats(place) => place.server().lock().await.kill9(),
            Self::Kafka(place) => place.kill().await,
            Self::Http(_) | Self::File(_) => {}
        }
    }

    /// Starts it again with its data, and waits until it is whole.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&self) -> Fallible<()> {
        match self {
            Self::Nats(place) => Ok(place.server().lock().await.restart().await?),
            Self::Kafka(place) => place.restart().await,
            Self::Http(place) => place.restart().await,
            Self::File(_) => Ok(()),
        }
    }

    /// Lets it, or one of its nodes, stand still.
    pub async fn pause(&self) {
        match self {
            Self::Nats(place) => place.server().lock().await.freeze(),
            Self::Kafka(place) => place.freeze().await,
            Self::Http(place) => place.hang(),
            Self::File(_) => {}
        }
    }

    /// Lets it go on.
    pub async fn resume(&self) {
        match self {
            Self::Nats(place) => place.server().lock().await.signal(Signal::Continue),
            Self::Kafka(place) => place.thaw().await,
            Self::Http(place) => place.accept(),
            Self::File(_) => {}
        }
    }

    /// Lets it refuse everything, one way or another.
    ///
    /// # Errors
    /// When it cannot be told.
    pub async fn refuse(&self, draw: u64) -> Fallible<()> {
        match self {
            Self::Nats(place) => place.refuse().await,
            Self::Kafka(place) => place.refuse().await,
            Self::Http(place) => {
                place.refuse(draw);
                Ok(())
            }
            Self::File(_) => Ok(()),
        }
    }

    /// Lets it take everything again.
    ///
    /// # Errors
    /// When it cannot be told.
    pub async fn accept(&self) -> Fallible<()> {
        match self {
            Self::Nats(place) => place.accept().await,
            Self::Kafka(place) => place.accept().await,
            Self::Http(place) => {
                place.accept();
                Ok(())
            }
            Self::File(_) => Ok(()),
        }
    }

    /// Lets it take what is larger than usual, or no more.
    ///
    /// # Errors
    /// When it cannot be told.
    pub async fn set_health(&self, health: Health) -> Fallible<()> {
        match self {
            Self::Nats(place) => place.set_health(health).await,
            Self::Kafka(place) => place.set_health(health).await,
            Self::Http(place) => {
                place.set_health(health);
                Ok(())
            }
            Self::File(_) => Ok(()),
        }
    }

    /// Waits until everything that it took is in the record.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn read_to_end(&self) -> Fallible<()> {
        match self {
            Self::Nats(place) => place.read_to_end().await,
            Self::Kafka(place) => place.read_to_end().await,
            Self::Http(_) => Ok(()),
            Self::File(place) => place.read_to_end(),
        }
    }
}
