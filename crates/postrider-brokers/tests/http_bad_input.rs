//! What the HTTP broker makes of a receiver that answers badly, one test per clause. Names that lead to private
//! addresses are tested inside the crate, where names can be made up.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Destination, Error, ErrorKind, Message, Outgoing, Published};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::suites::broker::{message, outgoing};

const TIMEOUT: Duration = Duration::from_millis(400);

fn config(url: &str) -> BrokerConfig {
    BrokerConfig::new(url).option("timeout", "400ms")
}

fn to(message: Message) -> Outgoing {
    outgoing(message, &Destination::new("orders.placed"))
}

/// Publishes one message to a receiver that answers like this.
async fn publish(answer: Answer) -> Published {
    let receiver = HttpReceiver::start().await.unwrap();
    receiver.script(move |_, _| answer.clone());
    let broker = open(&config(&receiver.url())).unwrap();
    let began = Instant::now();
    let mut results = broker.publish(&[to(message("x"))]).await;
    assert!(began.elapsed() < TIMEOUT * 4, "it took {:?}", began.elapsed());
    results.remove(0)
}

fn error(result: Published) -> Error {
    match result {
        Published::Failed(error) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

async fn refusal(status: u16, headers: &[(&str, &str)]) -> Error {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    error(publish(Answer::Full(status, headers, b"because\r\nof this".to_vec())).await)
}

async fn is(status: u16, kind: ErrorKind) {
    let error = refusal(status, &[]).await;
    assert_eq!(error.kind(), kind, "{error}");
    assert!(
        error.to_string().contains(&status.to_string()) && error.to_string().contains("because of this"),
        "{error}"
    );
}

#[tokio::test]
async fn an_endpoint_answering_2xx_has_accepted() {
    for status in [200, 201, 202, 204, 299] {
        assert!(matches!(publish(Answer::Status(status)).await, Published::Accepted(_)), "{status}");
    }
}

#[tokio::test]
async fn an_endpoint_answering_400_rejects_the_message() {
    is(400, ErrorKind::Rejected).await;
}

#[tokio::test]
async fn an_endpoint_answering_401_or_403_needs_a_human() {
    is(401, ErrorKind::Config).await;
    is(403, ErrorKind::Config).await;
}

#[tokio::test]
async fn an_endpoint_answering_404_needs_a_human() {
    is(404, ErrorKind::Config).await;
}

#[tokio::test]
async fn an_endpoint_answering_410_asks_to_stop() {
    is(410, ErrorKind::Config).await;
    assert!(refusal(410, &[]).await.to_string().contains("asks to stop"));
}

#[tokio::test]
async fn an_endpoint_answering_413_rejects_the_message() {
    is(413, ErrorKind::Rejected).await;
}

#[tokio::test]
async fn an_endpoint_answering_429_asks_for_patience_and_says_how_long() {
    is(429, ErrorKind::Throttled).await;
    let error = refusal(429, &[("Retry-After", "7")]).await;
    assert_eq!((error.kind(), error.delay()), (ErrorKind::Throttled, Some(Duration::from_secs(7))));
    let error = refusal(429, &[("retry-after", "Thu, 31 Dec 2099 23:59:59 GMT")]).await;
    assert_eq!(error.delay(), Some(Duration::from_secs(3600)), "a pause is bounded");
}

#[tokio::test]
async fn an_endpoint_answering_500_is_unavailable() {
    is(500, ErrorKind::Unavailable).await;
}

#[tokio::test]
async fn an_endpoint_answering_503_with_retry_after_asks_for_patience() {
    is(503, ErrorKind::Unavailable).await;
    let error = refusal(503, &[("Retry-After", "1")]).await;
    assert_eq!((error.kind(), error.delay()), (ErrorKind::Throttled, Some(Duration::from_secs(1))));
}

#[tokio::test]
async fn a_hanging_endpoint_leaves_the_outcome_unknown_after_the_timeout() {
    for answer in [Answer::Hang, Answer::HangMidBody(200)] {
        let error = error(publish(answer).await);
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    }
}

#[tokio::test]
async fn an_endpoint_closing_without_an_answer_leaves_the_outcome_unknown() {
    let error = error(publish(Answer::Close).await);
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
}

#[tokio::test]
async fn an_endpoint_closing_mid_body_leaves_the_outcome_unknown_unless_it_refused() {
    let error_of_200 = error(publish(Answer::CloseMidBody(200)).await);
    assert_eq!(error_of_200.kind(), ErrorKind::Unknown, "{error_of_200}");
    let error_of_400 = error(publish(Answer::CloseMidBody(400)).await);
    assert_eq!(error_of_400.kind(), ErrorKind::Rejected, "{error_of_400}");
}

#[tokio::test]
async fn an_endless_answer_is_read_to_a_bound_only() {
    assert!(matches!(publish(Answer::Endless(200)).await, Published::Accepted(_)));
    let error = error(publish(Answer::Endless(500)).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().len() < 400, "{error}");
}

#[tokio::test]
async fn a_redirecting_endpoint_is_not_followed_and_its_host_is_named() {
    let elsewhere = HttpReceiver::start().await.unwrap();
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/secret-path?token=canary", elsewhere.url());
        let error = refusal(status, &[("location", &location)]).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let text = error.to_string();
        assert!(text.contains(&elsewhere.url()) && !text.contains("canary") && !text.contains("secret-path"), "{text}");
    }
    assert!(elsewhere.requests().is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_unavailable() {
    let receiver = HttpReceiver::start().await.unwrap();
    receiver.stop().await;
    let broker = open(&config(&receiver.url())).unwrap();
    let error = error(broker.publish(&[to(message("x"))]).await.remove(0));
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn what_no_connection_could_be_made_for_is_marked_as_never_sent_and_nothing_else_is() {
    let receiver = HttpReceiver::start().await.unwrap();
    let broker = open(&config(&receiver.url())).unwrap();
    for answer in [Answer::Close, Answer::Status(500), Answer::Status(400)] {
        receiver.script(move |_, _| answer.clone());
        let error = error(broker.publish(&[to(message("x"))]).await.remove(0));
        assert!(!error.is_unsent(), "{error}");
    }
    receiver.stop().await;
    let mut errors = Vec::new();
    for url in [receiver.url(), "http://no-such-host.invalid/".to_owned()] {
        let broker = open(&config(&url)).unwrap();
        errors.push(error(broker.publish(&[to(message("x"))]).await.remove(0)));
    }
    assert!(errors[0].is_unsent() && errors[0].kind() == ErrorKind::Unavailable, "{errors:?}");
    assert!(errors[1].is_unsent() || errors[1].kind() == ErrorKind::Unknown, "{errors:?}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unavailable() {
    let broker = open(&config("http://no-such-host.invalid/hooks?token=canary")).unwrap();
    let error = error(broker.publish(&[to(message("x"))]).await.remove(0));
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test]
async fn a_message_that_makes_the_receiver_drop_the_connection_fails_alone() {
    let receiver = HttpReceiver::start().await.unwrap();
    receiver.script(|request, _| match &request.body[..] {
        b"poison" => Answer::Close,
        _ => Answer::Status(204),
    });
    let broker = open(&config(&receiver.url())).unwrap();
    let batch: Vec<Outgoing> =
        (0..40).map(|n| to(message(if n == 20 { "poison".to_owned() } else { n.to_string() }).key(n))).collect();
    for (n, result) in broker.publish(&batch).await.into_iter().enumerate() {
        match result {
            Published::Accepted(_) => assert_ne!(n, 20),
            Published::Failed(error) => assert_eq!((n, error.kind()), (20, ErrorKind::Unknown), "{error}"),
            Published::NotSent => panic!("message {n} was not sent"),
        }
    }
}

#[tokio::test]
async fn a_private_address_is_refused_unless_it_is_allowed() {
    for url in
        ["http://10.0.0.1/", "http://169.254.169.254/latest", "http://[::ffff:192.168.0.1]/", "http://0x0a000001/"]
    {
        let error = open(&config(url)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("egress"), "{error}");
        assert!(open(&config(url).option("egress", "any")).is_ok());
    }
    assert!(open(&config("http://10.0.0.1/").option("egress", vec!["10.0.0.0/8"])).is_ok());
    assert!(open(&config("http://10.0.0.1/").option("egress", "privat")).is_err());
}

#[tokio::test]
async fn headers_that_frame_the_request_or_carry_credentials_cannot_be_set_by_a_message() {
    let receiver = HttpReceiver::start().await.unwrap();
    let broker = open(&config(&receiver.url())).unwrap();
    for name in ["Host", "Content-Length", "transfer-encoding", "Authorization", "Webhook-Id", "Connection"] {
        let error = error(broker.publish(&[to(message("x").header(name, "1"))]).await.remove(0));
        assert_eq!(error.kind(), ErrorKind::Rejected, "{name}");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn every_attempt_is_signed_with_its_own_time_and_the_same_id() {
    let receiver = HttpReceiver::start().await.unwrap();
    let keys = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let broker = open(&config(&format!("{}/hooks", receiver.url())).option("secret", keys)).unwrap();
    let sent = message(vec![0, 0xff]).attribute("http.path", "orders/7");
    for _ in 0..2 {
        assert!(matches!(broker.publish(&[to(sent.clone())]).await[..], [Published::Accepted(_)]));
    }
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/hooks/orders/7"));
        assert_eq!(request.header("webhook-id"), Some(sent.id.to_string().as_str()));
        let signatures: Vec<&str> = request.header("webhook-signature").unwrap().split(' ').collect();
        assert_eq!(signatures.len(), 2);
        assert!(signatures.iter().all(|signature| signature.starts_with("v1,")));
        assert!(request.header("webhook-timestamp").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    }
}

#[tokio::test]
async fn a_path_that_would_leave_its_place_rejects_the_message() {
    let receiver = HttpReceiver::start().await.unwrap();
    let broker = open(&config(&format!("{}/hooks", receiver.url()))).unwrap();
    let escaping = message("x").attribute("http.path", "../admin");
    let error = error(broker.publish(&[to(escaping)]).await.remove(0));
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(receiver.requests().is_empty());
}
