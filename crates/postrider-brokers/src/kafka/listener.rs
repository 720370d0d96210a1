//! What librdkafka tells beside its answers: why there is no connection.

use std::sync::Arc;

use postrider_core::ErrorKind;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::watch;

/// What the client last complained of, until something works again.
pub(super) type Trouble = Option<(ErrorKind, String)>;

/// Keeps the last complaint of one client.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener {
    trouble: Arc<watch::Sender<Trouble>>,
}

impl Listener {
    /// What is wrong, as far as it is known.
    pub(super) fn trouble(&self) -> Trouble {
        self.trouble.borrow().clone()
    }

    /// Something works: what was wrong is over.
    pub(super) fn well(&self) {
        self.trouble.send_if_modified(|trouble| trouble.take().is_some());
    }

    /// Waits for a complaint that only a human can do something about.
    pub(super) async fn refused(&self) -> (ErrorKind, String) {
        let mut told = self.trouble.subscribe();
        let refusal = |trouble: &Trouble| matches!(trouble, Some((ErrorKind::Config, _)));
        let found = told.wait_for(refusal).await.ok().and_then(|trouble| trouble.clone());
        match found {
            Some(found) => found,
            None => std::future::pending().await,
        }
    }

    fn complain(&self, kind: ErrorKind, text: String, summary: bool) {
        self.trouble.send_modify(|trouble| {
            // That the connection is gone follows from the refusal, and says less; so does the count of what is down.
            let known_better = match trouble {
                None => false,
                Some((ErrorKind::Config, _)) => kind == ErrorKind::Unavailable,
                Some(_) => summary,
            };
            if !known_better {
                *trouble = Some((kind, text));
            }
        });
    }
}

impl ClientContext for Listener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(?level, facility, "librdkafka: {text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
        let Some(code) = error.rdkafka_error_code() else { return };
        let (kind, advice) = meaning(code, reason);
        self.complain(kind, format!("{}; {advice}", shortened(reason)), code == RDKafkaErrorCode::AllBrokersDown);
    }
}

impl ConsumerContext for Listener {}

/// What a complaint means, and what to do.
fn meaning(code: RDKafkaErrorCode, reason: &str) -> (ErrorKind, &'static str) {
    use RDKafkaErrorCode as Code;
    let lower = reason.to_ascii_lowercase();
    match code {
        // A server that misses ours says so only when the connection stands already. Of the server's certificate librdkafka
        // does not tell what is wrong, and guesses at the authority.
        Code::SSL | Code::BrokerTransportFailure if lower.contains("certificate") => (
            ErrorKind::Config,
            "the server's certificate does not verify, or it does not take ours: look at its name and its dates, \
             name its authority in ca_file, or ours in client_cert_file and client_key_file",
        ),
        Code::SSL => (ErrorKind::Config, "does the server speak TLS on this port? check security and ca_file"),
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => (ErrorKind::Config, "check sasl, user and password"),
        Code::ClusterAuthorizationFailed => {
            (ErrorKind::Config, "give the relay's user the permission IdempotentWrite on the cluster")
        }
        Code::TransactionalIdAuthorizationFailed => {
            (ErrorKind::Config, "give the relay's user the permissions Write and Describe on its transactional ids")
        }
        Code::Resolve => (ErrorKind::Unavailable, "is the server's name right?"),
        _ => (ErrorKind::Unavailable, "is the server running, and does it speak the protocol of the option security?"),
    }
}

fn shortened(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(300).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(code: RDKafkaErrorCode) -> KafkaError {
        KafkaError::Global(code)
    }

    #[test]
    fn a_refusal_is_not_forgotten_for_the_lost_connection_that_follows_it() {
        let listener = Listener::default();
        listener.error(global(RDKafkaErrorCode::BrokerTransportFailure), "connection refused");
        assert!(matches!(listener.trouble(), Some((ErrorKind::Unavailable, _))));
        listener.error(global(RDKafkaErrorCode::Authentication), "wrong\nword");
        listener.error(global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        let (kind, text) = listener.trouble().unwrap();
        assert_eq!((kind, text.as_str()), (ErrorKind::Config, "wrong word; check sasl, user and password"));
        listener.well();
        assert_eq!(listener.trouble(), None);
    }

    #[test]
    fn a_certificate_is_told_from_a_port_without_tls() {
        let told = |reason: &str| {
            let listener = Listener::default();
            listener.error(global(RDKafkaErrorCode::SSL), reason);
            listener.trouble().unwrap()
        };
        assert!(told("certificate verify failed").1.contains("ca_file, or ours"));
        let listener = Listener::default();
        listener.error(global(RDKafkaErrorCode::BrokerTransportFailure), "sslv3 alert bad certificate");
        assert_eq!(listener.trouble().map(|(kind, _)| kind), Some(ErrorKind::Config));
        assert!(told("SSL handshake failed: wrong version number").1.contains("does the server speak TLS"));
    }
}
