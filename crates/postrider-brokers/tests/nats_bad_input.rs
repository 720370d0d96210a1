//! What the NATS broker makes of a server that is away, refuses or has no stream, one test per clause.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Confirmation, Destination, Error, ErrorKind, Message, Outgoing, Published};
use postrider_testkit::servers::nats::{JetStream, NatsOptions, NatsServer};
use postrider_testkit::servers::process::{Signal, free_port};
use postrider_testkit::suites::broker::{message, outgoing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn broker(server: &NatsServer) -> Arc<dyn Broker> {
    open(&BrokerConfig::new(server.url()).option("timeout", "2s")).unwrap()
}

async fn with_extra(extra: &str) -> NatsServer {
    NatsServer::start_with(NatsOptions { extra: extra.to_owned(), ..NatsOptions::default() }).await.unwrap()
}

async fn create_stream(url: &str, config: Config) {
    let url = url::Url::parse(url).unwrap();
    let mut options = async_nats::ConnectOptions::new();
    if let Some(password) = url.password() {
        options = options.user_and_password(url.username().to_owned(), password.to_owned());
    }
    let server = format!("127.0.0.1:{}", url.port().unwrap());
    let context = jetstream::new(options.connect(server).await.unwrap());
    context.create_stream(config).await.unwrap();
}

fn orders() -> Config {
    Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..Config::default() }
}

fn to(message: Message) -> Outgoing {
    outgoing(message, &Destination::new("orders.placed"))
}

fn error(mut results: Vec<Published>) -> Error {
    match results.remove(0) {
        Published::Failed(error) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

/// Publishes until the message is accepted.
async fn until_accepted(broker: &Arc<dyn Broker>, outgoing: Outgoing) -> Confirmation {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match &broker.publish(std::slice::from_ref(&outgoing)).await[..] {
            [Published::Accepted(accepted)] => return accepted.confirmation,
            other => assert!(Instant::now() < until, "never accepted: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_missing_stream_is_a_config_error_that_says_how_to_create_it() {
    let server = NatsServer::start().await.unwrap();
    let broker = broker(&server);
    let error = error(broker.publish(&[to(message("x"))]).await);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("nats stream add"), "{error}");
    create_stream(&server.url(), orders()).await;
    assert!(matches!(broker.publish(&[to(message("x"))]).await[..], [Published::Accepted(_)]));
}

#[tokio::test]
async fn a_broker_that_is_down_at_start_does_not_keep_the_relay_from_starting() {
    let port = free_port().unwrap();
    let broker = open(&BrokerConfig::new(format!("nats://127.0.0.1:{port}")).option("timeout", "2s")).unwrap();
    let error = error(broker.publish(&[to(message("x"))]).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let server = NatsServer::start_on(port, NatsOptions::default()).await.unwrap();
    create_stream(&server.url(), orders()).await;
    until_accepted(&broker, to(message("x"))).await;
}

#[tokio::test]
async fn what_no_connection_stood_for_is_marked_as_never_sent_and_an_answer_of_the_server_is_not() {
    let mut server = NatsServer::start().await.unwrap();
    let broker = broker(&server);
    let refused = error(broker.publish(&[to(message("no stream"))]).await);
    assert!(!refused.is_unsent(), "{refused}");
    server.stop();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let failed = error(broker.publish(&[to(message("x"))]).await);
        if failed.is_unsent() {
            assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
            break;
        }
        assert!(Instant::now() < until, "{failed}");
    }
}

/// Stands before a server and lets everything pass, until a message with this word was sent to it and answered: that
/// answer and the connection are lost. Later connections are let alone. Returns its port.
async fn lose_the_answer_to(word: &'static [u8], server: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await.unwrap();
        let (mut sent, mut upward, mut downward) = (Vec::new(), [0; 4096], [0; 4096]);
        let has = |text: &[u8], word: &[u8]| text.windows(word.len()).any(|window| window == word);
        loop {
            tokio::select! {
                length = near.read(&mut upward) => {
                    let piece = &upward[..length.unwrap()];
                    sent.extend_from_slice(piece);
                    far.write_all(piece).await.unwrap();
                }
                length = far.read(&mut downward) => {
                    let piece = &downward[..length.unwrap()];
                    if has(&sent, word) && has(piece, b"\"stream\"") {
                        break;
                    }
                    near.write_all(piece).await.unwrap();
                }
            }
        }
        drop((near, far));
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    port
}

#[tokio::test]
async fn a_connection_lost_with_a_message_in_flight_leaves_its_outcome_unknown_at_once() {
    let server = NatsServer::start().await.unwrap();
    create_stream(&server.url(), orders()).await;
    let port = lose_the_answer_to(b"in flight", server.port()).await;
    let broker = open(&BrokerConfig::new(format!("nats://127.0.0.1:{port}")).option("timeout", "30s")).unwrap();
    until_accepted(&broker, to(message("before"))).await;
    let in_flight = to(message("in flight").key("k"));
    let began = Instant::now();
    let results = broker.publish(&[in_flight.clone(), to(message("behind").key("k"))]).await;
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert!(matches!(results[1], Published::NotSent), "{results:?}");
    assert_eq!(error(results).kind(), ErrorKind::Unknown);
    // It had been stored: the repeat is recognised.
    assert_eq!(until_accepted(&broker, in_flight).await, Confirmation::Duplicate);
}

#[tokio::test]
async fn a_frozen_broker_leaves_the_outcome_unknown_after_the_timeout() {
    let server = NatsServer::start().await.unwrap();
    create_stream(&server.url(), orders()).await;
    let broker = broker(&server);
    let frozen = to(message("frozen"));
    until_accepted(&broker, to(message("before"))).await;
    server.freeze();
    let began = Instant::now();
    assert_eq!(error(broker.publish(std::slice::from_ref(&frozen)).await).kind(), ErrorKind::Unknown);
    assert!(began.elapsed() < Duration::from_secs(4));
    server.signal(Signal::Continue);
    // What was written to the frozen server arrives after all: the repeat is recognised.
    assert_eq!(until_accepted(&broker, frozen).await, Confirmation::Duplicate);
}

#[tokio::test]
async fn wrong_credentials_are_a_config_error() {
    let server = with_extra("authorization { user: relay, password: right }").await;
    for config in [
        BrokerConfig::new(format!("nats://relay:wrong-canary@127.0.0.1:{}", server.port())),
        BrokerConfig::new(server.url()).option("token", "wrong-canary"),
        BrokerConfig::new(server.url()),
    ] {
        let broker = open(&config).unwrap();
        let from_publish = error(broker.publish(&[to(message("x"))]).await);
        let from_check = broker.check(&[]).await.unwrap_err();
        for error in [from_publish, from_check] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let text = error.to_string();
            assert!(text.contains("check token, user and password") && !text.contains("canary"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_token_and_a_user_are_let_in() {
    let by_token = with_extra("authorization { token: sesame }").await;
    let broker = open(&BrokerConfig::new(by_token.url()).option("token", "sesame")).unwrap();
    broker.check(&[]).await.unwrap();
    let by_user = with_extra("authorization { user: relay, password: sesame }").await;
    let config = BrokerConfig::new(by_user.url()).option("user", "relay").option("password", "sesame");
    open(&config).unwrap().check(&[]).await.unwrap();
}

#[tokio::test]
async fn credentials_revoked_during_the_run_are_a_config_error_until_they_are_back() {
    let users = |password: &str| format!("authorization {{ users: [{{ user: relay, password: {password} }}] }}");
    let mut server = with_extra(&users("good")).await;
    let url = format!("nats://relay:good@127.0.0.1:{}", server.port());
    create_stream(&url, orders()).await;
    let broker = open(&BrokerConfig::new(url)).unwrap();
    until_accepted(&broker, to(message("before"))).await;
    server.reload(&users("changed")).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match broker.publish(&[to(message("during"))]).await.remove(0) {
            Published::Failed(error) if error.kind() == ErrorKind::Config => break,
            other => assert!(Instant::now() < until, "never a config error: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.reload(&users("good")).unwrap();
    until_accepted(&broker, to(message("after"))).await;
}

#[tokio::test]
async fn a_subject_without_permission_is_a_config_error_at_once_and_others_go_on() {
    let users = "authorization { users: [
        { user: admin, password: a },
        { user: relay, password: r, permissions: { publish: [\"orders.placed\", \"$JS.API.>\"], subscribe: \"_INBOX.>\" } }
    ] }";
    let server = with_extra(users).await;
    create_stream(&format!("nats://admin:a@127.0.0.1:{}", server.port()), orders()).await;
    let config = BrokerConfig::new(format!("nats://relay:r@127.0.0.1:{}", server.port())).option("timeout", "20s");
    let broker = open(&config).unwrap();
    let began = Instant::now();
    let batch = [outgoing(message("no"), &Destination::new("orders.secret")), to(message("yes"))];
    let results = broker.publish(&batch).await;
    assert!(matches!(results[1], Published::Accepted(_)), "{results:?}");
    let error = error(results);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("Permissions Violation"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[tokio::test]
async fn another_stream_than_expected_is_a_config_error() {
    let server = NatsServer::start().await.unwrap();
    create_stream(&server.url(), orders()).await;
    let broker = open(&BrokerConfig::new(format!("{}?stream=OTHER", server.url()))).unwrap();
    let error = error(broker.publish(&[to(message("x"))]).await);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = broker.check(&[Destination::new("orders.placed")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn a_full_stream_is_unavailable_until_there_is_room() {
    let server = NatsServer::start().await.unwrap();
    let full = Config { max_messages: 1, discard: DiscardPolicy::New, ..orders() };
    create_stream(&server.url(), full).await;
    let broker = broker(&server);
    let batch = ["fits", "does not", "nor this"].map(|text| to(message(text).key("k")));
    let results = broker.publish(&batch).await;
    assert!(matches!(results[..], [Published::Accepted(_), Published::Failed(_), Published::NotSent]), "{results:?}");
    let error = error(results.into_iter().skip(1).collect());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("is it full?"), "{error}");
}

#[tokio::test]
async fn jetstream_switched_off_is_a_config_error() {
    let options = NatsOptions { jetstream: JetStream::Off, ..NatsOptions::default() };
    let server = NatsServer::start_with(options).await.unwrap();
    let broker = broker(&server);
    assert_eq!(error(broker.publish(&[to(message("x"))]).await).kind(), ErrorKind::Config);
    assert_eq!(broker.check(&[Destination::new("orders")]).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_header_that_would_command_the_server_rejects_the_message() {
    let server = NatsServer::start().await.unwrap();
    create_stream(&server.url(), Config { allow_rollup: true, ..orders() }).await;
    let broker = broker(&server);
    until_accepted(&broker, to(message("kept"))).await;
    let error = error(broker.publish(&[to(message("x").header("nats-Rollup", "all"))]).await);
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
}

/// Whether a server can lose what it acknowledged, or what it has not delivered yet: the one warning that Debian's own server deserves.
fn is_old(server: &NatsServer) -> bool {
    let version = server.version().unwrap();
    let numbers: Vec<u64> = version.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    numbers < vec![2, 10, 26]
}

#[tokio::test]
async fn check_of_a_healthy_stream_warns_of_nothing_but_an_old_server() {
    let server = NatsServer::start().await.unwrap();
    create_stream(&server.url(), Config { duplicate_window: Duration::from_secs(120), ..orders() }).await;
    let findings = broker(&server).check(&[Destination::new("orders.placed")]).await.unwrap();
    let found: Vec<&str> = findings.iter().map(|finding| finding.found.as_str()).collect();
    assert_eq!(found.len(), usize::from(is_old(&server)), "{findings:?}");
    assert!(found.iter().all(|found| found.contains("can lose ")), "{findings:?}");
}

#[tokio::test]
async fn check_of_a_missing_stream_says_how_to_create_it() {
    let server = NatsServer::start().await.unwrap();
    let error = broker(&server).check(&[Destination::new("orders.placed")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("create one: nats stream add"), "{error}");
}

#[tokio::test]
async fn check_reports_what_weakens_an_acknowledgement() {
    let server = NatsServer::start().await.unwrap();
    let weak = Config { storage: StorageType::Memory, duplicate_window: Duration::from_secs(1), ..orders() };
    create_stream(&server.url(), weak).await;
    let findings = broker(&server).check(&[Destination::new("orders.placed")]).await.unwrap();
    let text = format!("{findings:?}");
    assert!(text.contains("in memory") && text.contains("forgets message ids after 1s"), "{text}");
    assert_eq!(text.contains("can lose "), is_old(&server), "{text}");
    // Every other warning would send its reader the wrong way.
    assert!(!text.contains("could not be looked at"), "{text}");
}
