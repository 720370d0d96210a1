//! A user who may not do all that is needed: which permission is missing, and that it goes on when it is given.

use async_nats::jetstream::consumer::Config;
use postrider_brokers::{BrokerConfig, SubscriptionConfig, subscribe};
use postrider_core::ErrorKind;

use crate::scene::{Scene, failing, fit, orders, over, payloads, taken};

const NEEDED: [&str; 5] = [
    "$JS.API.STREAM.NAMES",
    "$JS.API.CONSUMER.INFO.ORDERS.invoices",
    "$JS.API.CONSUMER.CREATE.ORDERS.invoices.>",
    "$JS.API.CONSUMER.MSG.NEXT.ORDERS.invoices",
    "$JS.ACK.ORDERS.invoices.>",
];

fn users(publish: &[&str], subscribe: &str) -> String {
    let publish: Vec<String> = publish.iter().map(|subject| format!("{subject:?}")).collect();
    format!(
        "authorization {{ users: [\n{{ user: admin, password: a }},\n{{ user: reader, password: r, permissions: {{ \
         publish: [{}], subscribe: {subscribe:?} }} }}\n] }}",
        publish.join(", ")
    )
}

fn config(scene: &Scene) -> SubscriptionConfig {
    let broker = BrokerConfig::new(format!("nats://reader:r@127.0.0.1:{}", scene.server.port()));
    SubscriptionConfig::new(broker.option("timeout", "2s").option("ack_wait", "4s"), "invoices", "orders.>")
}

async fn scene(extra: &str) -> Scene {
    let scene = Scene::without_stream(extra).await;
    scene.context.create_stream(orders()).await.unwrap();
    scene.publish(&["1", "2"]).await;
    scene
}

#[tokio::test]
async fn what_the_manual_names_is_enough() {
    let scene = scene(&users(&NEEDED, "_INBOX.>")).await;
    let from = subscribe(&config(&scene)).unwrap();
    let came = taken(&from, 2).await;
    assert_eq!(payloads(&came), ["1", "2"]);
    came[0].receipt.extend().await.unwrap();
    over(came).await;
    // Beside it, check wants to see the stream, and says so.
    let findings = format!("{:?}", from.check().await.unwrap());
    assert!(findings.contains("permission to publish to $JS.API.STREAM.INFO.ORDERS"), "{findings}");
    from.close().await;
}

#[tokio::test]
async fn each_missing_permission_is_named_and_taking_goes_on_when_it_is_given() {
    for missing in &NEEDED[..4] {
        let left: Vec<&str> = NEEDED.iter().filter(|subject| *subject != missing).copied().collect();
        let mut scene = scene(&users(&left, "_INBOX.>")).await;
        let from = subscribe(&config(&scene)).unwrap();
        for _ in 0..2 {
            let error = failing(&from).await;
            assert_eq!(error.kind(), ErrorKind::Config, "{missing}: {error}");
            let named = missing.trim_end_matches(".>");
            assert!(error.to_string().contains(&format!("permission to publish to {named}")), "{missing}: {error}");
        }
        scene.server.reload(&users(&NEEDED, "_INBOX.>")).unwrap();
        assert_eq!(payloads(&taken(&from, 2).await), ["1", "2"], "{missing}");
    }
}

#[tokio::test]
async fn check_finds_that_the_consumer_may_not_be_made_and_makes_none_where_it_may() {
    let left: Vec<&str> = NEEDED.iter().filter(|subject| !subject.contains("CREATE")).copied().collect();
    let mut scene = scene(&users(&left, "_INBOX.>")).await;
    let error = subscribe(&config(&scene)).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("permission to publish to $JS.API.CONSUMER.CREATE.ORDERS.invoices"), "{error}");
    scene.server.reload(&users(&NEEDED, "_INBOX.>")).unwrap();
    let findings = format!("{:?}", subscribe(&config(&scene)).unwrap().check().await.unwrap());
    assert!(findings.contains("the first take makes it"), "{findings}");
    assert_eq!(scene.consumer().await, None);
    // It is not needed where the consumer is there.
    scene.server.reload(&users(&left, "_INBOX.>")).unwrap();
    scene.make(Config { filter_subject: "orders.>".into(), ..fit() }).await;
    let from = subscribe(&config(&scene)).unwrap();
    from.check().await.unwrap();
    assert_eq!(payloads(&taken(&from, 2).await), ["1", "2"]);
}

#[tokio::test]
async fn an_acknowledgement_without_permission_says_which_one() {
    let mut scene = scene(&users(&NEEDED[..4], "_INBOX.>")).await;
    let from = subscribe(&config(&scene)).unwrap();
    let mut came = taken(&from, 2).await;
    for error in [
        came[0].receipt.extend().await.unwrap_err(),
        came.remove(0).receipt.acknowledge().await.unwrap_err(),
        came.remove(0).receipt.release().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("permission to publish to $JS.ACK.ORDERS.invoices.>"), "{error}");
    }
    scene.server.reload(&users(&NEEDED, "_INBOX.>")).unwrap();
    over(taken(&from, 2).await).await;
}

#[tokio::test]
async fn a_user_who_may_not_hear_answers_is_told_and_goes_on_when_it_may() {
    let mut scene = scene(&users(&NEEDED, "nothing")).await;
    let from = subscribe(&config(&scene)).unwrap();
    for _ in 0..3 {
        let error = failing(&from).await;
        assert!(matches!(error.kind(), ErrorKind::Config | ErrorKind::Unavailable), "{error}");
        if error.kind() == ErrorKind::Config {
            assert!(error.to_string().contains("permission to subscribe to _INBOX.>"), "{error}");
        }
    }
    let until = std::time::Instant::now() + crate::scene::PATIENCE;
    while failing(&from).await.kind() != ErrorKind::Config {
        assert!(std::time::Instant::now() < until, "never told");
    }
    scene.server.reload(&users(&NEEDED, "_INBOX.>")).unwrap();
    assert_eq!(payloads(&taken(&from, 2).await), ["1", "2"]);
}
