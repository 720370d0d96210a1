//! What messages of NATS become.

use std::time::Duration;

use async_nats::HeaderMap;
use postrider_brokers::{SubscriptionConfig, open, subscribe};
use postrider_core::{Destination, Published};
use postrider_testkit::suites::broker::{message, outgoing};

use crate::scene::{Scene, over, take, taken};

#[tokio::test]
async fn a_foreign_message_is_known_by_its_msg_id_and_by_the_first_value_of_a_header() {
    let scene = Scene::start().await;
    let id = "01234567-89ab-4def-8123-456789abcdef";
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    headers.append("Tenant", "blue");
    headers.append("Tenant", "red");
    scene.send("orders.eu.placed", headers, "a").await;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", "order-7");
    scene.send("orders.paid", headers, "b").await;
    let came = taken(&scene.subscribe(), 2).await;
    let (first, second) = (came[0].message.as_ref().unwrap(), came[1].message.as_ref().unwrap());
    assert_eq!((first.id.to_string().as_str(), first.topic.as_str()), (id, "orders.eu.placed"));
    assert_eq!(first.headers.iter().collect::<Vec<_>>(), [("Tenant", "blue")]);
    assert_eq!((second.topic.as_str(), second.headers.get("Nats-Msg-Id")), ("orders.paid", Some("order-7")));
    assert_eq!((came[0].place.as_str(), came[1].place.as_str()), ("ORDERS/1", "ORDERS/2"));
    assert_eq!((came[0].deliveries, came[1].deliveries), (Some(1), Some(1)));
}

#[tokio::test]
async fn what_our_broker_adds_for_the_stream_is_not_the_messages_own() {
    let scene = Scene::start().await;
    let broker = open(&postrider_brokers::BrokerConfig::new(scene.server.url()).option("stream", "ORDERS")).unwrap();
    let sent = message("x").key("k").header("Tenant", "blue");
    let published = broker.publish(&[outgoing(sent.clone(), &Destination::new("orders.in"))]).await;
    assert!(matches!(published[..], [Published::Accepted(_)]), "{published:?}");
    assert_eq!(taken(&scene.subscribe(), 1).await[0].message.as_ref().unwrap(), &sent);
}

#[tokio::test]
async fn more_bytes_than_one_request_brings_come_one_request_after_another() {
    let scene = Scene::start().await;
    let payload = "x".repeat(6 << 20);
    let broker = scene.broker().option("ack_wait", "30s");
    let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
    for _ in 0..8 {
        scene.publish(&[&payload]).await;
    }
    let mut count = 0;
    while count < 8 {
        let came = take(&from, 100).await.unwrap();
        let bytes: usize = came.iter().map(|incoming| incoming.payload.len()).sum();
        assert!(bytes <= 32 << 20, "{bytes} bytes came at once");
        assert!(came.iter().all(|incoming| incoming.deliveries == Some(1)), "a message was given up on the way");
        count += came.len();
        over(came).await;
    }
    assert_eq!(count, 8);
    assert_eq!(from.hold(), Some(Duration::from_secs(30)));
}

/// Nobody but a hand-made client sends such a thing, and the server stores it.
#[tokio::test]
async fn a_message_whose_headers_begin_with_a_status_is_a_message() {
    let scene = Scene::start().await;
    let address = (std::net::Ipv4Addr::LOCALHOST, scene.server.port());
    let mut raw = tokio::net::TcpStream::connect(address).await.unwrap();
    for status in ["408 Request Timeout", "409 Consumer Deleted", "404 x"] {
        let headers = format!("NATS/1.0 {status}\r\nTenant: blue\r\n\r\n");
        let (length, whole) = (headers.len(), headers.len() + 1);
        let text = format!(
            "CONNECT {{\"user\":\"admin\",\"pass\":\"a\",\"headers\":true,\"verbose\":false}}\r\n\
             HPUB orders.placed {length} {whole}\r\n{headers}x\r\nPING\r\n"
        );
        tokio::io::AsyncWriteExt::write_all(&mut raw, text.as_bytes()).await.unwrap();
    }
    let came = taken(&scene.subscribe(), 3).await;
    for one in &came {
        let message = one.message.as_ref().unwrap();
        assert_eq!((&one.payload[..], message.headers.get("Tenant")), (&b"x"[..], Some("blue")));
    }
    over(came).await;
}
