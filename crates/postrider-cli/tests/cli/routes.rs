//! Several routes and brokers in one configuration.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::{Place, lines, nowhere, until};

const TWO_FILES: &str =
    "[broker.events]\nurl = \"file:events.jsonl\"\n[broker.billing]\nurl = \"file:billing.jsonl\"\n";

fn configured(text: &str) -> Place {
    let place = Place::migrated();
    place.write("postrider.toml", text);
    place
}

fn drain(place: &Place) -> crate::harness::Run {
    place.on(&["relay", "--until-empty", "--admin-listen", "off", "--relay-patience", "300ms"])
}

/// What a file broker got: topics and places.
fn got(place: &Place, file: &str) -> Vec<(String, String)> {
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    lines(&place.path(file)).iter().map(|line| (text(line, "topic"), text(line, "destination"))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect()
}

#[test]
fn a_message_goes_along_every_route_that_matches() {
    let place = configured(&format!(
        "{TWO_FILES}[[route]]\ntopics = [\"orders.#\", \"stock\"]\nbroker = \"events\"\ndestination = \"shop.{{topic}}\"\n\
         [[route]]\ntopics = \"*.placed\"\nbroker = \"billing\"\n"
    ));
    for topic in ["orders.placed", "stock", "orders.paid", "mail.placed"] {
        place.enqueue(topic, "k", "x");
    }
    let run = drain(&place);
    assert!(run.good().err.contains("delivered 4"), "{}", run.err);
    let events =
        [("orders.placed", "shop.orders.placed"), ("stock", "shop.stock"), ("orders.paid", "shop.orders.paid")];
    assert_eq!(got(&place, "events.jsonl"), pairs(&events));
    let billing = [("orders.placed", "orders.placed"), ("mail.placed", "mail.placed")];
    assert_eq!(got(&place, "billing.jsonl"), pairs(&billing));
}

#[test]
fn messages_decide_where_they_go_as_far_as_the_route_allows() {
    let place = configured(
        "[retry]\nmax_attempts = 1\n[broker.out]\nurl = \"file:out.jsonl\"\n[[route]]\nname = \"by-region\"\n\
         destination = \"{header.region}.{topic}.{key}\"\nallow.key = \"order-*\"\nallow.header.region = [\"eu\", \"us-*\"]\n",
    );
    let enqueue = |key: &str, headers: &[&str]| {
        let headers: Vec<&str> = headers.iter().flat_map(|header| ["--header", *header]).collect();
        let run = place.on(&[&["enqueue", "placed", "--key", key, "--payload", "x"], &headers[..]].concat());
        run.good().out.trim().to_owned()
    };
    enqueue("order-7", &["region=us-east"]);
    let dead = [
        (
            enqueue("order-8", &["region=mars"]),
            "its header \"region\" is \"mars\", and allow.header.region lists eu, us-*",
        ),
        (enqueue("order-9", &[]), "it has no header \"region\""),
        (enqueue("7", &["region=eu"]), "its key is \"7\", and allow.key lists order-*"),
    ];
    // More than sixteen of them, whose number is no fault of the destination.
    let more: Vec<_> = (0..20).map(|n| enqueue(&format!("order-x{n}"), &["region=mars"])).collect();
    enqueue("order-8", &["region=eu"]);
    let run = drain(&place);
    assert!(run.good().err.contains(&format!("given up {}", dead.len() + more.len())), "{}", run.err);
    let expected = [("placed", "us-east.placed.order-7"), ("placed", "eu.placed.order-8")];
    assert_eq!(got(&place, "out.jsonl"), pairs(&expected));
    for (id, why) in &dead {
        let error = place.on(&["explain", id]).good().out.clone();
        assert!(
            error.contains("the route \"by-region\" has no place for this message") && error.contains(why),
            "{error}"
        );
    }
}

#[test]
fn what_makes_no_sense_of_routes_is_refused_with_what_to_do() {
    let place = Place::empty();
    let route = |text: &str| format!("{TWO_FILES}[[route]]\n{text}\n");
    let one = |text: &str| format!("[broker.out]\nurl = \"stdout:\"\n[[route]]\n{text}\n");
    for (text, words) in [
        (route("broker = \"event\""), &["there is no [broker.event]", "did you mean \"events\"?"][..]),
        (route("broker = \"somewhere\""), &["there is no [broker.somewhere]", "write one of: billing, events"]),
        (route("topics = \"a\""), &["several brokers", "route[0].topics", "one of: billing, events"]),
        (TWO_FILES.to_owned(), &["several brokers", "write [[route]]"]),
        (one("topics = \"a..b\""), &["route[0].topics", "empty word"]),
        (one("topics = [\"a\", \"#.b\"]"), &["route[0].topics", "only at the end"]),
        (one("topics = \"orders placed\""), &["matches no topic", "words joined by dots"]),
        (one("topics = []"), &["route[0].topics", "a list of texts"]),
        (one("name = \"a b\""), &["\"a b\" is no name", "letters, digits"]),
        (one("name = \"dead-letters\""), &["dead-letters is taken"]),
        (one("destination = \"x.{key}\""), &["{key}", "allow.key = ["]),
        (one("destination = \"x.{header.region}\""), &["{header.region}", "allow.header.region = ["]),
        (one("destination = \"x.{nonsense}\""), &["{nonsense}", "{topic}, {key} and {header.NAME}"]),
        (one("destination = \"x.{topic\""), &["not closed"]),
        (one("destination = \"x.{topic}}\""), &["without a '{'"]),
        (one("destination = \"x.{topic}\"\nallow.key = \"a\""), &["{key}", "does not name"]),
        (one("destination = \"{key}\"\nallow.key = \"*\""), &["a message alone would decide"]),
        (one("destination = \"x.{key}\"\nallow.key = \"a b\""), &["route[0].allow.key", "without blanks"]),
        (one("allow.heder.region = \"a\""), &["route[0].allow.heder.region is no setting"]),
        (one("[[route]]"), &["route[1].name: is missing", "also that of route[0]", "name = \"out-2\""]),
        (one("name = \"x\"\n[[route]]\nname = \"x\""), &["\"x\" is also the name of route[0]"]),
        (
            one("name = \"a\"\n[[route]]\nname = \"b\""),
            &["route[0] and route[1] both lead", "arrive there twice", "leave one"],
        ),
        (
            one("name = \"a\"\n[[route]]\ntopics = \"orders.placed\"\ndestination = \"orders.placed\""),
            &["both lead # and orders.placed", "arrive there twice"],
        ),
    ] {
        place.write("postrider.toml", &text);
        place.run(&["config", "show"]).ends(2).says(words);
    }
    for good in [
        one("name = \"a\"\ntopics = \"a.#\"\n[[route]]\nname = \"b\"\ntopics = \"b.#\""),
        one("[[route]]\nname = \"copies\"\ndestination = \"copy.{topic}\""),
        format!("{TWO_FILES}[[route]]\nbroker = \"events\"\n[[route]]\nbroker = \"billing\"\n"),
    ] {
        place.write("postrider.toml", &good);
        place.run(&["config", "show"]).good();
    }
}

#[test]
fn a_flag_that_says_where_messages_go_is_for_one_route() {
    let place = configured(&format!("{TWO_FILES}[[route]]\nbroker = \"events\"\n[[route]]\nbroker = \"billing\"\n"));
    for flag in [["--broker", "stdout:"], ["--destination", "x"]] {
        let run = place.on(&[&["relay", "--until-empty"], &flag[..]].concat());
        run.ends(2).says(&[flag[0], "is for one route, and the file has 2", "leave"]);
    }
}

#[test]
fn dead_letters_of_several_brokers_go_where_it_is_said() {
    let place = Place::empty();
    let text = format!(
        "[retry]\non_dead = \"forward\"\n{TWO_FILES}[[route]]\nbroker = \"events\"\n[[route]]\nbroker = \"billing\"\n"
    );
    place.write("postrider.toml", &text);
    place.run(&["config", "show"]).ends(2).says(&["forward.broker: is missing", "write one of: billing, events"]);
    place.write("postrider.toml", format!("{text}[forward]\nbroker = \"bilng\"\n"));
    place.run(&["config", "show"]).ends(2).says(&["there is no [broker.bilng]", "did you mean \"billing\"?"]);
    place.write("postrider.toml", format!("{text}[forward]\nbroker = \"billing\"\n"));
    place.run(&["config", "show"]).good();
}

#[test]
fn check_says_where_each_route_leads_and_which_topics_take_none() {
    let place = configured(&format!(
        "{TWO_FILES}[[route]]\ntopics = \"orders.#\"\nbroker = \"events\"\n\
         [[route]]\nname = \"stock\"\ntopics = [\"stok.#\", \"stok\"]\nbroker = \"events\"\n"
    ));
    let findings = || -> Vec<(String, String, String, String)> {
        let found = place.on(&["check", "--json"]).good().json();
        let text = |one: &serde_json::Value, name: &str| one[name].as_str().unwrap().to_owned();
        let of_routes = |one: &&serde_json::Value| text(one, "subject").contains("route");
        let told = |one: &serde_json::Value| {
            (text(one, "level"), text(one, "subject"), text(one, "found"), text(one, "advice"))
        };
        found["findings"].as_array().unwrap().iter().filter(of_routes).map(told).collect()
    };
    let quiet = findings();
    assert!(quiet.iter().all(|(level, ..)| level == "good"), "an empty outbox says nothing about topics: {quiet:?}");
    assert_eq!(quiet[0].2, "orders.# to \"{topic}\" of the broker events");
    place.enqueue("orders.placed", "k", "x");
    place.enqueue("stock.moved", "k", "x");
    let found = findings();
    let of = |subject: &str| found.iter().find(|(_, known, ..)| known == subject).unwrap();
    assert_eq!(of("route events").0, "good");
    let (level, _, text, advice) = of("route stock");
    assert!(level == "warning" && text.contains("stok.#, stok to") && text.contains("stock.moved"), "{text}");
    assert!(advice.contains("compare the patterns"), "{advice}");
    let (level, _, text, advice) = of("routes");
    assert!(level == "warning" && text.contains("no route leads stock.moved"), "{text}");
    assert!(advice.contains("[[route]]"), "{advice}");
    let text = place.on(&["check"]).good().out.clone();
    assert!(text.contains("broker billing") && text.contains("no route leads to it"), "{text}");
}

#[test]
fn check_looks_at_a_bounded_number_of_places_that_messages_wait_for_and_says_so() {
    let place = configured("[broker.events]\nurl = \"file:events.jsonl\"\n");
    let messages = |from: usize, to: usize| -> String {
        (from..to).map(|number| format!("{{\"topic\": \"orders.n{number}\"}}\n")).collect()
    };
    let check = |messages: &str| {
        place.run_fed(messages.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]).good();
        place.on(&["check"]).good().out.clone()
    };
    assert!(!check(&messages(0, 64)).contains("were looked at"));
    let told = check(&messages(64, 66));
    assert!(told.contains("messages wait for 66 places, of which 64 were looked at"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broker_that_is_down_holds_what_is_its_own_and_status_and_explain_tell_which() {
    let receiver = HttpReceiver::start().await.unwrap();
    let hook = |url: &str| {
        format!(
            "[relay]\nmax_pause = \"100ms\"\n[broker.events]\nurl = \"file:events.jsonl\"\n[broker.hook]\nurl = \"{url}\"\n\
             [[route]]\nbroker = \"events\"\n[[route]]\nname = \"webhook\"\nbroker = \"hook\"\n"
        )
    };
    let place = configured(&hook(&format!("http://{}/", nowhere())));
    let ids = ["1", "2", "3"].map(|payload| place.enqueue("orders", "k", payload));
    let run = drain(&place);
    run.ends(1).says(&["destination webhook stays paused", "postrider check"]);
    assert_eq!(lines(&place.path("events.jsonl")).len(), 3);
    for id in &ids {
        let told = place.on(&["explain", id]).good().out.clone();
        assert!(told.contains("owed to: webhook"), "{told}");
    }
    place.write("postrider.toml", hook(&receiver.url()).replace("webhook", "renamed"));
    let told = place.on(&["explain", &ids[0]]).good().out.clone();
    assert!(told.contains("no route configured here has the name \"webhook\""), "{told}");
    drain(&place).ends(1).says(&["messages without a route (3)", "still owed to \"webhook\"", "name = \"webhook\""]);
    assert!(receiver.requests().is_empty() && lines(&place.path("events.jsonl")).len() == 3);
    place.write("postrider.toml", hook(&receiver.url()));
    let mut command = place.command(&["relay", "--store", "sqlite:app.db", "--admin-listen", "127.0.0.1:0"]);
    let relay = place.start(command.args(["--log-format", "json"]));
    // What waits for a better configuration is tried again every minute.
    let outbox = rusqlite::Connection::open(place.path("app.db")).unwrap();
    outbox.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let due = "update postrider_outbox set next_attempt_at = created_at where next_attempt_at is not null";
    outbox.execute(due, []).unwrap();
    until("what the renamed one was owed", || (receiver.requests().len() == 3).then_some(()));
    let bodies: Vec<_> = receiver.requests().iter().map(|request| request.body.clone()).collect();
    assert_eq!((bodies, lines(&place.path("events.jsonl")).len()), (vec!["1".into(), "2".into(), "3".into()], 3));
    receiver.script(|_, _| Answer::Status(500));
    place.enqueue("orders", "k", "4");
    let stuck = until("a verdict", || {
        let run = place.on(&["status", "--admin", &relay.admin]);
        (run.code == 1 && run.out.contains("destination webhook has been paused")).then_some(run)
    });
    assert!(stuck.out.contains("not paused, and messages go on there: events"), "{}", stuck.out);
    assert!(stuck.out.contains("  events: ") && stuck.out.contains("  webhook: "), "{}", stuck.out);
}

/// Each broker validates the attributes of its own: the others take the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attribute_that_one_broker_refuses_is_no_matter_to_the_others() {
    let receiver = HttpReceiver::start().await.unwrap();
    let place = configured(&format!(
        "[retry]\nmax_attempts = 1\n[broker.events]\nurl = \"file:events.jsonl\"\n[broker.hook]\nurl = \"{}\"\n\
         [[route]]\nbroker = \"events\"\n[[route]]\nbroker = \"hook\"\n",
        receiver.url()
    ));
    let unknown = "01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e";
    let messages = format!(
        "{{\"topic\": \"orders\", \"attributes\": {{\"http.path\": \"placed\"}}}}\n\
         {{\"topic\": \"orders\", \"attributes\": {{\"http.pth\": \"placed\"}}, \"id\": \"{unknown}\"}}\n\
         {{\"topic\": \"orders\", \"attributes\": {{\"kafka.partition\": \"nonsense\"}}}}\n"
    );
    place.run_fed(messages.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]).good();
    assert!(drain(&place).good().err.contains("delivered 2, retried 0, given up 1"));
    assert_eq!((lines(&place.path("events.jsonl")).len(), receiver.requests().len()), (3, 2));
    let told = place.on(&["explain", unknown]).good().out.clone();
    assert!(
        told.contains("hook: the attribute \"http.pth\": expected http.path") && told.contains("owed to: hook"),
        "{told}"
    );
}
