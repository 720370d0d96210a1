//! Bad input from brokers, at the relay: one test per clause. A destination that is at fault pauses and costs no
//! message anything; a message that is at fault becomes a dead letter, and the others arrive.

use std::time::Duration;

use async_nats::jetstream;
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Request};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::NatsServer;

use crate::harness::{Place, lines, nowhere, until};

/// Waits no longer than it must for a destination that stays away.
const IMPATIENT: [&str; 4] = ["--relay-patience", "300ms", "--relay-max-pause", "100ms"];
/// Gives a message up soon.
const STRICT: [&str; 6] = ["--retry-max-attempts", "2", "--retry-initial", "10ms", "--relay-max-pause", "100ms"];

/// What `status --json` counts as pending and as dead.
fn left(place: &Place) -> (u64, u64) {
    let status = place.on(&["status", "--json", "--admin", &nowhere()]).json();
    let count = |name: &str| status[name]["value"].as_u64().unwrap();
    (count("pending"), count("dead"))
}

/// Every message is answered like this: the destination pauses, `relay` names it and the cause, nothing dies.
async fn pauses(answer: Answer, words: &[&str]) {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver.script(move |_, _| answer.clone());
    let ids = ["a", "b", "a"].map(|key| place.enqueue("orders", key, key));
    place.write("postrider.toml", format!("[broker.hook]\nurl = \"{}\"\ntimeout = \"300ms\"\n", receiver.url()));
    let run = place.on(&[&["relay", "--until-empty", "--admin-listen", "off"], &IMPATIENT[..]].concat());
    run.ends(1).says(&[&["destination hook stays paused"], words].concat());
    assert_eq!(left(&place), (3, 0));
    for id in ids {
        let explained = place.on(&["explain", &id, "--json"]).json().to_string();
        assert!(explained.contains("\"attempts\":0"), "an attempt was counted: {explained}");
    }
    receiver.script(|_, _| Answer::Status(204));
    place.on(&[&["relay", "--until-empty", "--admin-listen", "off"], &IMPATIENT[..]].concat()).good();
    assert_eq!(left(&place), (0, 0));
}

/// Only the marked message is answered like this, while others flow: it alone becomes a dead letter, its key goes on.
async fn kills_the_marked_one(answer: Answer, word: &str) {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    let marked = |request: &Request| request.body.as_ref() == b"marked";
    receiver.script(move |request, _| if marked(request) { answer.clone() } else { Answer::Status(204) });
    place.write("postrider.toml", format!("[broker.hook]\nurl = \"{}\"\ntimeout = \"300ms\"\n", receiver.url()));
    let fixed = ["relay", "--store", "sqlite:app.db", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];
    let _relay = place.start(&mut place.command(&[&fixed[..], &STRICT].concat()));
    place.enqueue("orders", "a", "1");
    let id = place.enqueue("orders", "a", "marked");
    place.enqueue("orders", "a", "2");
    // Whose fault it is shows only by others that are accepted meanwhile.
    let mut others = 0;
    until("a dead letter", || {
        others += 1;
        place.enqueue("orders", &format!("k{}", others % 3), "another");
        (left(&place).1 > 0).then_some(())
    });
    until("an empty outbox", || (left(&place) == (0, 1)).then_some(()));
    let dead = place.on(&["explain", &id]);
    assert!(dead.out.contains("dead: given up") && dead.out.contains(word), "{}", dead.out);
    let bodies: Vec<_> = receiver.requests().iter().map(|request| request.body.clone()).collect();
    let times = |body: &[u8]| bodies.iter().filter(|one| one.as_ref() == body).count();
    assert_eq!((times(b"1"), times(b"2"), times(b"another")), (1, 1, others));
    assert!(times(b"marked") >= 2, "given up after {} attempts", times(b"marked"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_404_to_everything() {
    pauses(Answer::Status(404), &["404"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_410_to_everything() {
    pauses(Answer::Status(410), &["410", "asks to stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_429_to_everything() {
    pauses(Answer::Status(429), &["429"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_429_is_given_the_time_it_asks_for() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    let wait = Answer::Full(429, vec![("retry-after".to_owned(), "1".to_owned())], Vec::new());
    let began = std::time::Instant::now();
    let arrivals = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&arrivals);
    receiver.script(move |_, nth| {
        noted.lock().unwrap().push(began.elapsed());
        if nth == 0 { wait.clone() } else { Answer::Status(204) }
    });
    place.enqueue("orders", "a", "x");
    place.drain(&receiver.url(), &["--relay-max-pause", "5s"]).good();
    let arrivals = arrivals.lock().unwrap().clone();
    assert_eq!(arrivals.len(), 2, "{arrivals:?}");
    assert!(arrivals[1] - arrivals[0] >= Duration::from_millis(990), "{arrivals:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_500_to_everything() {
    pauses(Answer::Status(500), &["500"]).await;
}

/// Alone with the receiver, it looks as if that were away, and the pauses grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_500_to_one_message_gets_another_one_at_once() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    let is = |request: &Request, body: &[u8]| request.body.as_ref() == body;
    receiver.script(move |request, _| Answer::Status(if is(request, b"marked") { 500 } else { 204 }));
    let _relay = place.relay(&receiver.url(), &[]);
    place.enqueue("orders", "a", "marked");
    until("a long pause", || (receiver.requests().len() >= 7).then_some(()));
    let began = std::time::Instant::now();
    place.enqueue("orders", "b", "another");
    until("another one", || receiver.requests().iter().any(|request| is(request, b"another")).then_some(()));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_400_to_one_message() {
    kills_the_marked_one(Answer::Status(400), "400").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_on_one_message() {
    kills_the_marked_one(Answer::Hang, "hook").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_closes_mid_body_on_one_message() {
    kills_the_marked_one(Answer::CloseMidBody(200), "broke off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_on_everything() {
    pauses(Answer::Hang, &["hook"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_closes_mid_body_on_everything() {
    pauses(Answer::CloseMidBody(200), &["broke off"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_redirects_everything() {
    let elsewhere = HttpReceiver::start().await.unwrap();
    let location = vec![("location".to_owned(), format!("{}/there", elsewhere.url()))];
    pauses(Answer::Full(307, location, Vec::new()), &["307", "redirects are not followed"]).await;
    assert!(elsewhere.requests().is_empty());
}

/// A server with a stream, and a client of it.
async fn nats() -> Option<(NatsServer, jetstream::Context)> {
    let server = installed("bad input over NATS", NatsServer::start().await)?;
    let client = async_nats::connect(server.url()).await.unwrap();
    Some((server, jetstream::new(client)))
}

fn orders() -> jetstream::stream::Config {
    jetstream::stream::Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_jetstream_stream_pauses_the_destination_until_it_is_created() {
    let Some((server, context)) = nats().await else { return };
    let place = Place::migrated();
    let relay = place.relay(&server.url(), &["--relay-max-pause", "200ms"]);
    let id = place.enqueue("orders.placed", "a", "x");
    let stuck = until("a paused destination", || {
        let run = place.on(&["status", "--admin", &relay.admin]);
        (run.code == 1 && run.out.contains("has been paused")).then_some(run)
    });
    assert!(stuck.out.contains("destination default") && stuck.out.contains("nats stream add"), "{}", stuck.out);
    assert!(place.on(&["explain", &id, "--json"]).json().to_string().contains("\"attempts\":0"));
    let mut stream = context.create_stream(orders()).await.unwrap();
    until("an empty outbox", || (left(&place) == (0, 0)).then_some(()));
    assert_eq!(stream.info().await.unwrap().state.messages, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_fails_where_no_jetstream_stream_covers_what_a_route_sends() {
    let Some((server, context)) = nats().await else { return };
    let place = Place::migrated();
    let check = |route: &str| {
        let broker = format!("[broker.bus]\nurl = \"{}\"\n", server.url());
        place.write("postrider.toml", format!("{broker}{route}"));
        place.on(&["check"])
    };
    let by_topic = "[[route]]\ntopics = \"orders.#\"\n";
    let literal = "[[route]]\ndestination = \"orders.all\"\n";
    let nested = "[[route]]\ntopics = \"*.placed\"\ndestination = \"shop.{topic}\"\n";
    let forwards = "[retry]\non_dead = \"forward\"\n[forward]\nbroker = \"bus\"\ndestination = \"dead.{topic}\"\n";
    for (route, subjects) in [
        ("", "nats stream add NAME --subjects \"orders.>\""),
        (by_topic, "nats stream add NAME --subjects \"orders,orders.>\""),
        (literal, "nats stream add NAME --subjects \"orders.all\""),
        (nested, "nats stream add NAME --subjects \"shop.*.placed\""),
    ] {
        let run = check(route);
        assert!(run.ends(1).out.contains("FAILURE") && run.out.contains(subjects), "{}", run.out);
    }
    context.create_stream(orders()).await.unwrap();
    for route in ["", by_topic, literal] {
        check(route).good();
    }
    let dead = format!("{by_topic}{forwards}");
    for (route, subject) in [(nested, "shop.*.placed"), (&dead, "dead.orders.>")] {
        assert!(check(route).ends(1).out.contains(subject), "{route}");
    }
}

/// What a message's headers take on the wire.
fn weight(headers: &async_nats::HeaderMap) -> usize {
    let line = |(name, values): (&async_nats::HeaderName, &Vec<async_nats::HeaderValue>)| -> usize {
        let name: &str = name.as_ref();
        values.iter().map(|value| name.len() + ": \r\n".len() + value.as_str().len()).sum()
    };
    "NATS/1.0\r\n".len() + headers.iter().map(line).sum::<usize>() + "\r\n".len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_one_byte_over_the_brokers_limit_dies_and_one_at_the_limit_arrives() {
    let Some((server, context)) = nats().await else { return };
    let mut stream = context.create_stream(orders()).await.unwrap();
    let place = Place::migrated();
    let drain = || place.drain(&server.url(), &STRICT);
    place.enqueue("orders.placed", "a", "x");
    drain().good();
    let first = stream.get_raw_message(1).await.unwrap();
    let limit = 8 * 1024 * 1024 - weight(&first.headers);
    for (name, size) in [("at", limit), ("over", limit + 1)] {
        place.write(name, vec![b'x'; size]);
        place.on(&["enqueue", "orders.placed", "--key", "a", "--payload-file", name]).good();
    }
    place.enqueue("orders.placed", "a", "after");
    drain().good();
    assert_eq!(left(&place), (0, 1));
    let dead = place.on(&["explain", "a"]);
    assert!(dead.out.contains("larger than the server's max_payload"), "{}", dead.out);
    assert_eq!(stream.info().await.unwrap().state.messages, 3);
    assert_eq!(stream.get_raw_message(2).await.unwrap().payload.len(), limit);
    assert_eq!(stream.get_raw_message(3).await.unwrap().payload.as_ref(), b"after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_one_byte_over_an_endpoints_limit_dies_and_one_at_the_limit_arrives() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver.script(|request, _| Answer::Status(if request.body.len() > 1000 { 413 } else { 204 }));
    for size in [1000, 1001, 5] {
        place.enqueue("orders", "a", &"x".repeat(size));
    }
    place.drain(&receiver.url(), &STRICT).good();
    assert_eq!(left(&place), (0, 1));
    let sizes: Vec<_> = receiver.requests().iter().map(|request| request.body.len()).collect();
    assert_eq!(sizes, [1000, 1001, 1001, 5]);
    place.drain("file:out.jsonl", &[]).good();
    assert!(lines(&place.path("out.jsonl")).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_that_is_down_at_start_is_waited_for() {
    let Some((mut server, context)) = nats().await else { return };
    let mut stream = context.create_stream(orders()).await.unwrap();
    server.stop();
    let place = Place::migrated();
    place.enqueue("orders.placed", "a", "x");
    let relay = place.relay(&server.url(), &["--relay-max-pause", "200ms"]);
    until("a pause", || relay.ask("/status", None).1.contains("is the server running").then_some(()));
    assert_eq!(left(&place), (1, 0));
    server.restart().await.unwrap();
    until("an empty outbox", || (left(&place) == (0, 0)).then_some(()));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !stream.info().await.is_ok_and(|info| info.state.messages == 1) {
        assert!(std::time::Instant::now() < deadline, "the message is not in the stream");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
