//! Servers that stand still, lose answers, or have no JetStream.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, SubscriptionConfig, subscribe};
use postrider_core::ErrorKind;
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::nats::{JetStream, NatsOptions, NatsServer};
use postrider_testkit::servers::process::Signal;

use crate::scene::{PATIENCE, Scene, failing, over, payloads, take, taken};

#[tokio::test]
async fn a_server_that_stands_still_is_told_in_time_and_nothing_is_lost() {
    let scene = Scene::start().await;
    scene.publish(&["1", "2", "3"]).await;
    let from = scene.subscribe();
    let held = taken(&from, 1).await;
    scene.server.freeze();
    let began = Instant::now();
    let error = failing(&from).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    let began = Instant::now();
    let error = held.into_iter().next().unwrap().receipt.acknowledge().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    scene.server.signal(Signal::Continue);
    let mut left = vec!["2".to_owned(), "3".to_owned()];
    let until = Instant::now() + PATIENCE;
    while !left.is_empty() {
        assert!(Instant::now() < until, "{left:?} did not come");
        for payload in payloads(&take(&from, 10).await.unwrap_or_default()) {
            left.retain(|wanted| *wanted != payload);
        }
    }
}

#[tokio::test]
async fn an_acknowledgement_whose_answer_is_lost_is_unknown_and_was_heard() {
    let scene = Scene::start().await;
    scene.publish(&["1"]).await;
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, scene.server.port())), b"").await.unwrap();
    let broker = BrokerConfig::new(format!("nats://127.0.0.1:{}", proxy.port()));
    let broker = broker.option("timeout", "20s").option("ack_wait", "2s");
    let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
    let incoming = taken(&from, 1).await.remove(0);
    proxy.lose_answer();
    let began = Instant::now();
    let error = incoming.receipt.acknowledge().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for an answer that can't come any more");
    // It had been recorded: nothing comes again, for longer than its time.
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert!(take(&from, 10).await.unwrap_or_default().is_empty());
    }
}

#[tokio::test]
async fn a_connection_that_swallows_everything_is_told_in_time_and_comes_back() {
    let scene = Scene::start().await;
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, scene.server.port())), b"").await.unwrap();
    let broker = BrokerConfig::new(format!("nats://127.0.0.1:{}", proxy.port()));
    let broker = broker.option("timeout", "1s").option("ack_wait", "4s");
    let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
    assert!(take(&from, 1).await.unwrap().is_empty());
    scene.publish(&["1", "2"]).await;
    for passage in [Passage::Held, Passage::HeldToClient, Passage::HeldToServer] {
        proxy.pass(passage);
        let began = Instant::now();
        assert_eq!(failing(&from).await.kind(), ErrorKind::Unavailable);
        assert!(began.elapsed() < Duration::from_secs(10), "{passage:?}: it took {:?}", began.elapsed());
        proxy.pass(Passage::Open);
    }
    let came = taken(&from, 2).await;
    assert_eq!(came.len(), 2);
    over(came).await;
}

#[tokio::test]
async fn jetstream_switched_off_and_wrong_credentials_are_config_errors() {
    let options = NatsOptions { jetstream: JetStream::Off, ..NatsOptions::default() };
    let off = NatsServer::start_with(options).await.unwrap();
    let locked = NatsOptions { extra: "authorization { user: a, password: right }".into(), ..NatsOptions::default() };
    let locked = NatsServer::start_with(locked).await.unwrap();
    for (server, told) in [(&off, "JetStream is not enabled"), (&locked, "check token, user and password")] {
        let broker = BrokerConfig::new(server.url()).option("password", "canary").option("user", "a");
        let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
        for error in [failing(&from).await, from.check().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(told) && !error.to_string().contains("canary"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_option_that_is_not_known_is_refused_on_either_side() {
    let reading = |option: &str| {
        let broker = BrokerConfig::new("nats://127.0.0.1:1").option(option, "5s");
        subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>"))
    };
    assert!(reading("ack_wait").is_ok());
    let error = reading("ack_wiat").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("did you mean \"ack_wait\"?"), "{error}");
    let publishing = postrider_brokers::open(&BrokerConfig::new("nats://127.0.0.1:1").option("ack_wait", "5s"));
    assert!(publishing.unwrap_err().to_string().contains("no option \"ack_wait\""));
}
