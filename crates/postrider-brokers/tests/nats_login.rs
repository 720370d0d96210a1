//! Logins by nkey and by creds, against a real server: users of its configuration, and an operator with accounts.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, ErrorKind, Published};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};
use postrider_testkit::suites::broker::{message, outgoing};
use serde_json::{Value, json};

const WHAT: &str = "logins to NATS by nkey and by creds";

/// A server with these lines in its configuration; none where there is no NATS, which is said.
async fn with_extra(extra: &str) -> Option<NatsServer> {
    let options = NatsOptions { extra: extra.to_owned(), ..NatsOptions::default() };
    installed(WHAT, NatsServer::start_with(options).await)
}

async fn accepts(broker: &Arc<dyn Broker>) {
    let place = Destination::new("orders.placed");
    match &broker.publish(&[outgoing(message("x"), &place)]).await[..] {
        [Published::Accepted(_)] => {}
        other => panic!("expected an acknowledgement, found {other:?}"),
    }
    broker.check(&[place]).await.unwrap();
}

/// The error of a login that the server refuses, which is the same from publish and check.
async fn refusal(config: &BrokerConfig, hidden: &str) -> String {
    let broker = open(config).unwrap();
    let from_publish = match broker.publish(&[outgoing(message("x"), &Destination::new("orders.placed"))]).await.pop() {
        Some(Published::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    };
    let from_check = broker.check(&[]).await.unwrap_err();
    for error in [&from_publish, &from_check] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.story().contains(hidden), "{error}");
    }
    from_publish.to_string()
}

async fn create_stream(options: async_nats::ConnectOptions, server: &NatsServer) {
    let context = jetstream::new(options.connect(server.url()).await.unwrap());
    let stream = Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..Config::default() };
    context.create_stream(stream).await.unwrap();
}

#[tokio::test]
async fn a_user_with_an_nkey_is_let_in_by_its_seed_and_another_one_is_not() {
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [{{ nkey: {} }}] }}", user.public_key());
    let Some(server) = with_extra(&users).await else { return };
    let seed = user.seed().unwrap();
    create_stream(async_nats::ConnectOptions::new().nkey(seed.clone()), &server).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.nk");
    // As `nk -gen user` writes it.
    std::fs::write(&file, format!("{seed}\n")).unwrap();
    let by_file = BrokerConfig::new(server.url()).option("nkey_seed_file", file.to_str().unwrap());
    accepts(&open(&by_file).unwrap()).await;

    let strange = stranger.seed().unwrap();
    let text = refusal(&BrokerConfig::new(server.url()).option("nkey_seed", strange.clone()), &strange).await;
    assert!(text.contains("nkey or creds"), "{text}");
    refusal(&BrokerConfig::new(server.url()).option("token", "canary"), "canary").await;
}

#[tokio::test]
async fn a_user_with_creds_is_let_in_and_one_whose_account_the_server_does_not_know_is_not() {
    let installation = Installation::new();
    let Some(server) = with_extra(&installation.configuration()).await else { return };
    let creds = installation.creds(&installation.account);
    create_stream(async_nats::ConnectOptions::with_credentials(&creds).unwrap(), &server).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.creds");
    std::fs::write(&file, &creds).unwrap();
    let by_file = BrokerConfig::new(server.url()).option("creds_file", file.to_str().unwrap());
    accepts(&open(&by_file).unwrap()).await;

    let foreign = installation.creds(&KeyPair::new_account());
    let seed = foreign.lines().find(|line| line.starts_with("SU")).unwrap().to_owned();
    let text = refusal(&BrokerConfig::new(server.url()).option("creds", foreign), &seed).await;
    assert!(text.contains("nkey or creds"), "{text}");
}

/// An operator with an account for us and one for the system, as `nsc` would make them.
struct Installation {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

impl Installation {
    fn new() -> Self {
        Self { operator: KeyPair::new_operator(), account: KeyPair::new_account(), system: KeyPair::new_account() }
    }

    /// What a server needs to know of it.
    fn configuration(&self) -> String {
        let operator = token(&self.operator, &self.operator.public_key(), "operator", json!({}));
        let preload: Vec<String> = [(&self.account, -1), (&self.system, 0)]
            .map(|(account, room)| {
                let limits = json!({
                    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                    "leaf": -1, "mem_storage": room, "disk_storage": room, "streams": room, "consumer": room,
                });
                let claims = token(&self.operator, &account.public_key(), "account", json!({ "limits": limits }));
                format!("{}: {claims}", account.public_key())
            })
            .into();
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}\n}}\n",
            self.system.public_key(),
            preload.join("\n")
        )
    }

    /// The creds file of a new user of an account.
    fn creds(&self, account: &KeyPair) -> String {
        let user = KeyPair::new_user();
        let nothing = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
        let claims = token(account, &user.public_key(), "user", nothing);
        format!(
            "-----BEGIN NATS USER JWT-----\n{claims}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        )
    }
}

/// A JWT of NATS, version 2.
fn token(issuer: &KeyPair, subject: &str, kind: &str, mut nats: Value) -> String {
    nats["type"] = kind.into();
    nats["version"] = 2.into();
    let claims = json!({
        "jti": "TESTS", "iat": 1_700_000_000, "iss": issuer.public_key(), "name": kind, "sub": subject, "nats": nats,
    });
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
