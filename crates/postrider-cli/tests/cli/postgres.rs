//! The same binary on PostgreSQL, and what a database can do to it.

use postrider_testkit::servers::postgres::{self, Postgres};

use crate::harness::{Place, lines, until};

/// The server of these tests, and the URL of a database of its own with the tables.
async fn migrated(place: &Place) -> (&'static Postgres, String) {
    let server = postgres::shared().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    place.run(&["migrate", "--store", &url]).good();
    (server, url)
}

/// The name of a URL's database.
fn database(url: &str) -> &str {
    url.rsplit('/').next().unwrap().split('?').next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbs_work_on_postgresql() {
    let place = Place::empty();
    let (server, url) = migrated(&place).await;
    let on = |arguments: &[&str]| place.run(&[arguments, &["--store", &url]].concat());
    on(&["migrate", "--check"]).good();
    let id = on(&["enqueue", "orders.placed", "--key", "42", "--payload", "one"]).good().out.trim().to_owned();
    let sql = "select postrider_enqueue('orders.placed', '42', 'two'::bytea)";
    server.psql(database(&url), sql).await.unwrap();
    assert!(on(&["explain", &id]).good().out.contains("pending"));
    assert_eq!(on(&["status", "--json", "--admin", &crate::harness::nowhere()]).ends(1).json()["due"], 2);
    let run = on(&[
        "relay",
        "--until-empty",
        "--broker",
        "file:out.jsonl",
        "--admin-listen",
        "off",
        "--outbox-history",
        "7d",
    ]);
    assert!(run.good().err.contains("delivered 2"), "{}", run.err);
    let payloads: Vec<_> = lines(&place.path("out.jsonl")).iter().map(|line| line["payload"].clone()).collect();
    assert_eq!(payloads, ["one", "two"]);
    assert!(on(&["explain", "42"]).good().out.contains("delivered: settled"));
    assert_eq!(on(&["prune", "--delivered", "1ms", "--json"]).good().json()["delivered"], 2);
    assert_eq!(on(&["check", "--broker", "file:out.jsonl", "--json"]).good().json()["failed"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measurement_judges_its_figures_and_leaves_nothing() {
    let place = Place::empty();
    let (server, url) = migrated(&place).await;
    let small = ["--messages", "500", "--rates", "50", "--seconds", "3", "--runs", "1", "--keys", "20"];
    let run = place.run(&[&["bench", "--store", &url, "--broker", "memory:"], &small[..]].concat());
    assert!(run.good().out.contains("lost 0, ghosts 0, order 0"), "{}", run.out);
    let left = "select (select count(*) from pg_class where relname like 'postrider_bench_%')
                     + (select count(*) from pg_proc where proname like 'postrider_bench_%')";
    assert_eq!(server.psql(database(&url), left).await.unwrap().trim(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_and_a_prefix_of_ones_own() {
    let place = Place::empty();
    let server = postgres::shared().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    server.psql(database(&url), "create schema shop").await.unwrap();
    place.write(
        "postrider.toml",
        format!("[outbox]\nstore = \"{url}\"\nschema = \"shop\"\nprefix = \"mail_\"\nlanes = 3\n"),
    );
    place.run(&["migrate"]).good();
    assert_eq!(place.run(&["status", "--json"]).good().json()["lanes"]["total"], 3);
    let tables =
        server.psql(database(&url), "select tablename from pg_tables where schemaname = 'shop'").await.unwrap();
    assert!(tables.contains("mail_outbox"), "{tables}");
    assert!(place.run(&["migrate", "--print"]).good().out.contains("mail_outbox"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_of_lanes_that_contradicts_the_tables_is_refused_on_postgresql() {
    let url = postgres::shared().await.unwrap().fresh_database().await.unwrap();
    crate::bad_input::lanes_that_contradict_the_tables(&Place::empty(), &url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_said_and_not_shown() {
    let place = Place::empty();
    let (server, url) = migrated(&place).await;
    server.psql("postgres", "create role canary_reader login password 'right-canary'").await.unwrap();
    let wrong = server.url_as("canary_reader", "wrong-canary", database(&url));
    for verb in [&["status"][..], &["relay", "--broker", "stdout:", "--admin-listen", "off"], &["migrate"]] {
        place.run(&[verb, &["--store", &wrong]].concat()).ends(2).says(&["password"]).hides("wrong-canary");
    }
    let user = server.url_as("canary_reader", "", database(&url)).replace("canary_reader:@", "canary_reader@");
    let relay = ["relay", "--broker", "stdout:", "--admin-listen", "off"];
    for verb in [&["status"][..], &relay, &["migrate"]] {
        let words = ["the server asks for a password", "next: give outbox.store_password_file"];
        place.run(&[verb, &["--store", &user]].concat()).ends(2).says(&words);
    }
    place.write("password", "right-canary\n");
    let run = place.run_with(&[("POSTRIDER_OUTBOX__STORE_PASSWORD_FILE", "password")], &["status", "--store", &user]);
    // The password is right; this role may not read the tables.
    run.ends(2).says(&[]).hides("right-canary");
    assert!(!run.err.contains("password authentication failed"), "{}", run.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_an_ordinary_word_leaves_the_words_of_messages() {
    let place = Place::empty();
    let (server, url) = migrated(&place).await;
    server.psql("postgres", "create role postrider login password 'postrider'").await.unwrap();
    let wrong = server.url_as("postrider", "outbox", database(&url));
    let run = place.run(&["status", "--store", &wrong]);
    run.ends(2).says(&["user \"postrider\""]).hides("outbox@").hides("***");
    let right = server.url_as("postrider", "postrider", database(&url));
    let shown = place.run(&["config", "show", "--store", &right]);
    assert!(shown.good().out.contains("postgres://postrider:***@"), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_tables_or_with_newer_ones() {
    let place = Place::empty();
    let server = postgres::shared().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    place.run(&["status", "--store", &url]).ends(2).says(&["postrider migrate"]);
    place.run(&["migrate", "--check", "--store", &url]).ends(1).says(&["postrider migrate"]);
    place.run(&["migrate", "--store", &url]).good();
    server.psql(database(&url), "update postrider_meta set version = 99").await.unwrap();
    for verb in [&["status"][..], &["migrate"], &["migrate", "--check"]] {
        place.run(&[verb, &["--store", &url]].concat()).good();
    }
    server.psql(database(&url), "update postrider_meta set compatible_from = 99").await.unwrap();
    for verb in [&["status"][..], &["migrate"], &["migrate", "--check"]] {
        let run = place.run(&[verb, &["--store", &url]].concat());
        run.ends(2).says(&["newer", "next: use a postrider that is as new"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_and_comes_back() {
    let place = Place::empty();
    let mut server = Postgres::start().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    place.run(&["migrate", "--store", &url]).good();
    let arguments = ["relay", "--store", &url, "--broker", "file:out.jsonl", "--log-format", "json"];
    let mut command =
        place.command(&[&arguments[..], &["--admin-listen", "127.0.0.1:0", "--relay-lease", "2s"]].concat());
    let relay = place.start(&mut command);
    let shows = |line: &str| relay.ask("/metrics", None).1.lines().any(|shown| shown == line);
    let errors = || -> f64 {
        let metrics = relay.ask("/metrics", None).1;
        let counts = metrics.lines().filter(|line| line.starts_with("postrider_store_errors_total{"));
        counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    until("readiness", || (relay.ask("/readyz", None).0 == 200).then_some(()));
    place.run(&["enqueue", "a", "--payload", "later", "--delay", "1h", "--store", &url]).good();
    until("a message that waits", || shows("postrider_delayed_messages 1").then_some(()));
    server.stop();
    until("a relay that is not ready", || (relay.ask("/readyz", None).1 == "store away\n").then_some(()));
    until("a lease that ran out", || shows("postrider_lanes_held 0").then_some(()));
    let before = errors();
    until("failures that go on being counted", || (errors() >= before + 2.0).then_some(()));
    assert!(shows("postrider_delayed_messages 1"), "what waits is not shown while the database is away");
    assert_eq!(relay.ask("/livez", None).0, 200);
    place.run(&["status", "--store", &url, "--admin", &relay.admin]).ends(2).says(&[]);
    server.restart().await.unwrap();
    place.run(&["enqueue", "a", "--payload", "after", "--store", &url]).good();
    until("the message", || (lines(&place.path("out.jsonl")).len() == 1).then_some(()));
    until("readiness again", || (relay.ask("/readyz", None).0 == 200).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_instead_of_a_primary() {
    let place = Place::empty();
    let server = Postgres::start().await.unwrap();
    place.run(&["migrate", "--store", &server.url()]).good();
    let standby = server.standby().await.unwrap();
    for verb in [&["status"][..], &["relay", "--broker", "stdout:", "--admin-listen", "off"]] {
        place.run(&[verb, &["--store", &standby.url()]].concat()).ends(2).says(&["primary"]);
    }
}
