//! Replacing the secret that signs webhooks, step by step, without a request that its receiver would refuse.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Destination, ErrorKind, Published};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Request};
use postrider_testkit::suites::broker::{message, outgoing};
use serde_json::json;
use sha2::Sha256;

fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

/// What a receiver that knows one secret does, by the words of the Standard Webhooks specification: any of the signatures
/// may be its own.
fn is_genuine(request: &Request, secret: &str) -> bool {
    let header = |name: &str| request.header(name).unwrap().to_owned();
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(&secret["whsec_".len()..]).unwrap()).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&request.body);
    let own = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    header("webhook-signature").split(' ').any(|signature| signature == own)
}

/// What a receiver that knows `known` answers to a relay with this secret.
async fn answer(setting: serde_json::Value, known: &str) -> Published {
    let receiver = HttpReceiver::start().await.unwrap();
    let known = known.to_owned();
    receiver.script(move |request, _| Answer::Status(if is_genuine(request, &known) { 204 } else { 401 }));
    let broker = open(&BrokerConfig::new(format!("{}/hook", receiver.url())).option("secret", setting)).unwrap();
    broker.publish(&[outgoing(message("{}"), &Destination::new("orders"))]).await.pop().unwrap()
}

#[tokio::test]
async fn a_signing_secret_is_replaced_without_a_request_that_its_receiver_refuses() {
    let (old, new) = (secret(1), secret(2));
    for (step, setting, known) in [
        ("before", json!(old), &old),
        ("both sign, and the receiver has the old one", json!([new, old]), &old),
        ("both sign, and the receiver has the new one", json!([new, old]), &new),
        ("both sign, in one text", json!(format!("{new}\n{old}\n")), &new),
        ("after", json!(new), &new),
    ] {
        let answer = answer(setting, known).await;
        assert!(matches!(answer, Published::Accepted(_)), "{step}: {answer:?}");
    }
    // Without the step between, a receiver that is late refuses; no message is charged for that.
    match answer(json!(new), &old).await {
        Published::Failed(error) => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[tokio::test]
async fn the_newest_secret_signs_first_and_check_reminds_of_the_older_ones() {
    let receiver = HttpReceiver::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hook.secret");
    std::fs::write(&file, format!("{}\n{}\n", secret(2), secret(1))).unwrap();
    let config = BrokerConfig::new(receiver.url()).option("secret_file", file.to_str().unwrap());
    let broker = open(&config).unwrap();
    broker.publish(&[outgoing(message("{}"), &Destination::new("orders"))]).await;
    let mut request = receiver.requests().remove(0);
    let signatures = request.header("webhook-signature").unwrap().to_owned();
    assert_eq!(signatures.split(' ').count(), 2);
    let first = signatures.split(' ').next().unwrap().to_owned();
    request.headers.retain(|(name, _)| name != "webhook-signature");
    request.headers.push(("webhook-signature".to_owned(), first));
    assert!(is_genuine(&request, &secret(2)) && !is_genuine(&request, &secret(1)));
    let found = format!("{:?}", broker.check(&[]).await.unwrap());
    assert!(found.contains("2 secrets sign each request") && found.contains("remove the older ones"), "{found}");
}

#[test]
fn what_is_no_list_of_secrets_is_refused_without_being_shown() {
    let at = || BrokerConfig::new("http://127.0.0.1:9/");
    for config in [
        at().option("secret", json!([])),
        at().option("secret", json!([secret(1), secret(1)])),
        at().option("secret", json!([secret(1), "canary"])),
        at().option("secret", json!([secret(1), 7])),
        at().option("secret", json!([secret(1)])).option("secret_env", "HOME"),
    ] {
        let error = open(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.to_string().contains("canary") && !error.to_string().contains(&secret(1)), "{error}");
    }
}
