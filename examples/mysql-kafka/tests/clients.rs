//! The order programs in other languages, each on a private MariaDB or MySQL: what they write is delivered, and what fails is not
//! half there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

#[allow(dead_code, reason = "these tests use a part of it")]
mod outbox;
#[allow(dead_code, reason = "these tests use a part of it")]
mod programs;

use outbox::{Database, Got};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::process::ServerError;
use programs::Program;
use serde_json::{Value, json};

const ORDERS: &str = include_str!("../schema.sql");
/// From now on the database refuses every message.
const REFUSE: &str = "create trigger refuse before insert on postrider_outbox for each row \
                      signal sqlstate '45000' set message_text = 'refused by the test'";

/// The program places three orders, then meets a database that refuses its fourth message, then places three more.
async fn orders_arrive_and_a_failed_one_leaves_nothing(suffix: &str, program: Result<Program, ServerError>) {
    let what = format!("orders written by {suffix}");
    let Some(program) = installed(&what, program) else { return };
    let Some(database) = installed(&what, Database::migrated().await) else { return };
    database.sql(ORDERS).await;
    let good = |first: &str| {
        let ran = program.run(&database.url, &[first]);
        assert!(ran.status.success(), "{}{}", said(&ran.stdout), said(&ran.stderr));
    };
    // A MySQL that has not met a user since it started wants more of its client than one that has.
    database.sql("flush privileges").await;
    good("10");
    database.sql(REFUSE).await;
    let refused = program.run(&database.url, &["20"]);
    assert!(!refused.status.success());
    let told = said(&refused.stdout) + &said(&refused.stderr);
    assert!(told.contains("refused by the test"), "{told}");
    database.sql("drop trigger refuse").await;
    good("30");

    let ids = "select group_concat(id order by id) from orders";
    assert_eq!(database.sql(ids).await, "10,11,12,30,31,32", "an order without its message");
    let got = database.relayed().await;
    assert_eq!(got.len(), 6, "{got:?}");
    got.iter().for_each(|got| is_an_order(got, suffix));
    let of = |customer: &str| -> Vec<String> {
        let key = format!("{customer}-{suffix}");
        let of = got.iter().filter(|got| got.key.as_ref() == Some(&key));
        of.map(|got| header(got, "correlation-id")).collect()
    };
    assert_eq!((of("ann"), of("bob")), (strings(&[10, 12, 30, 32]), strings(&[11, 31])));
    let mut ids: Vec<&String> = got.iter().map(|got| &got.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

fn is_an_order(got: &Got, suffix: &str) {
    let payload: Value = serde_json::from_slice(&got.payload).unwrap();
    let id: i64 = header(got, "correlation-id").parse().unwrap();
    let customer = if id % 10 == 1 { "bob" } else { "ann" };
    assert_eq!(payload, json!({ "id": id, "customer": format!("{customer}-{suffix}"), "item": "Tür" }));
    assert_eq!((got.topic.as_str(), got.content_type.as_deref()), ("orders.placed", Some("application/json")));
}

fn header(got: &Got, name: &str) -> String {
    let found = got.headers.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no header {name}: {got:?}")).1.clone()
}

fn strings(numbers: &[i64]) -> Vec<String> {
    numbers.iter().map(ToString::to_string).collect()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_inserts_the_row_on_mariadb() {
    orders_arrive_and_a_failed_one_leaves_nothing("py", programs::python()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_inserts_the_row_on_mariadb() {
    orders_arrive_and_a_failed_one_leaves_nothing("js", programs::node()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn php_calls_the_procedure_on_mariadb() {
    orders_arrive_and_a_failed_one_leaves_nothing("php", programs::php("orders.php")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_calls_the_procedure_on_mariadb() {
    orders_arrive_and_a_failed_one_leaves_nothing("java", programs::java()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_inserts_the_row_on_mariadb() {
    orders_arrive_and_a_failed_one_leaves_nothing("go", programs::go()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn php_receives_a_message_once_on_mariadb() {
    let what = "messages received by php";
    let Some(program) = installed(what, programs::php("invoices.php")) else { return };
    let Some(database) = installed(what, Database::migrated().await) else { return };
    let receive = |id: &str| {
        let ran = program.run(&database.url, &[id, "7"]);
        said(&ran.stdout) + &said(&ran.stderr)
    };
    for id in ["018f3f6e-0000-4000-8000-000000000007", "019F3F6E-0000-7000-8000-000000000007"] {
        assert_eq!([receive(id), receive(id)], ["invoiced\n", "was invoiced before\n"]);
    }
    database.sql("update postrider_inbox_span set oldest = '01a00000-0000-0000-0000-000000000000'").await;
    let refused = receive("019f3f6e-0000-7000-8000-000000000008");
    assert!(refused.contains("postrider: the message is too old"), "{refused}");
    assert_eq!(database.sql("select count(*) from invoices").await, "2");
}
