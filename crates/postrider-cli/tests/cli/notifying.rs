//! A URL is told of messages that are given up.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_fails_now_and_then_is_told_in_batches_of_every_message_that_is_given_up() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver
        .script(|request, _| if request.body.starts_with(b"good") { Answer::Status(204) } else { Answer::Status(422) });
    let told = HttpReceiver::start().await.unwrap();
    told.script(|_, before| match before {
        0 => Answer::Status(503),
        1 => Answer::Close,
        _ => Answer::Status(204),
    });
    let bad = |n| format!("{{\"topic\":\"orders.placed\",\"key\":\"k{n}\",\"payload\":\"bad\"}}\n");
    let good = |n| format!("{{\"topic\":\"orders.paid\",\"key\":\"g{n}\",\"payload\":\"good\"}}\n");
    let lines: String = (0..5).map(|n| bad(n) + &good(n)).collect();
    let run = place.run_fed(lines.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]);
    let mut ids: Vec<String> = run.good().out.lines().step_by(2).map(str::to_owned).collect();
    let url = format!("{}/dead", told.url());
    let relay = place.relay(&receiver.url(), &["--retry-max-attempts", "1", "--notify-url", &url]);
    let accepted = crate::harness::until("a notification that is taken", || told.requests().get(2).cloned());
    let requests = told.requests();
    assert!(requests.iter().all(|request| request.path == "/dead" && request.method == "POST"));
    assert!(requests[..3].iter().all(|request| request.body == accepted.body), "what is sent again is the same");
    let webhook = |place: usize| requests[place].header("webhook-id").map(str::to_owned);
    assert!(webhook(0).is_some() && webhook(0) == webhook(2), "and has the same id");
    let body: serde_json::Value = serde_json::from_slice(&accepted.body).unwrap();
    let dead = body["dead"].as_array().unwrap();
    let mut named: Vec<String> = dead.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    named.sort();
    ids.sort();
    assert_eq!(named, ids);
    assert_eq!(
        (&body["left_out"], &dead[0]["topic"], &dead[0]["reason"]),
        (&0.into(), &"orders.placed".into(), &"attempts".into())
    );
    assert!(dead[0]["error"].as_str().unwrap().contains("422"), "{body}");
    drop(relay);
}

#[test]
fn an_address_that_is_not_http_is_refused() {
    let place = Place::migrated();
    let run = place.on(&["relay", "--broker", "stdout:", "--notify-url", "nats://host"]);
    run.ends(2).says(&["notify.url", "is no address of HTTP"]);
}
