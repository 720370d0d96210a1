//! Documents in DynamoDB pass the suite on an emulator, and what only a proxy or another table can show.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod dynamodb_harness;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use dynamodb_harness::{Harness, SECRET, at, moto, opened, table_told, told};
use postrider_core::{Collection, DocumentKey, ErrorKind, Level, Timestamp, WriteError};
use postrider_documents::dynamodb::LIMIT;
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::moto::VERSION;
use postrider_testkit::suites::documents::{draft, key, run};

fn failure<T: std::fmt::Debug>(written: Result<T, WriteError>) -> postrider_core::Error {
    match written {
        Err(WriteError::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_dynamodb_pass_the_suite() {
    let Some(moto) = moto("documents in DynamoDB").await else { return };
    run(&format!("dynamodb (moto {VERSION})"), || Harness::start(&moto)).await.expect_success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_no_conflict_with_itself() {
    let Some(moto) = moto("answers that are lost").await else { return };
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, moto.port())), b"").await.unwrap();
    let (direct, store) =
        (at(&moto.endpoint(), "documents"), at(&format!("http://127.0.0.1:{}", proxy.port()), "documents"));
    direct.prepare().await.unwrap();
    proxy.lose_answer();
    let created = store.create(&key("7"), &draft("1")).await.unwrap();
    proxy.lose_answer();
    let replaced = store.replace(&key("7"), &created, &draft("2")).await.unwrap();
    assert_eq!(direct.load(&key("7")).await.unwrap().unwrap().version, replaced);

    // A delete leaves nothing by which it could be told: somebody else may have deleted it, and is told so, too.
    proxy.lose_answer();
    let error = failure(store.delete(&key("7"), &replaced).await);
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(direct.load(&key("7")).await.unwrap().is_none());

    let there = direct.create(&key("7"), &draft("3")).await.unwrap();
    proxy.lose_answer();
    let error = failure(store.create(&key("7"), &draft("4")).await);
    assert_eq!(error.kind(), ErrorKind::Unknown, "what stands there may have been written over it: {error}");
    proxy.lose_answer();
    let error = failure(store.replace(&key("7"), &created, &draft("5")).await);
    assert_eq!(error.kind(), ErrorKind::Unknown, "what stands there may have been written over it: {error}");
    assert_eq!(direct.load(&key("7")).await.unwrap().unwrap().version, there);

    proxy.pass(Passage::HeldToClient);
    let error = failure(store.replace(&key("7"), &there, &draft("6")).await);
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let error = tokio::time::timeout(Duration::from_secs(10), store.load(&key("7"))).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_whose_answers_are_lost_counts_each_step_once() {
    let Some(moto) = moto("a counter whose answers are lost").await else { return };
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, moto.port())), b"").await.unwrap();
    let (direct, store) =
        (at(&moto.endpoint(), "documents"), at(&format!("http://127.0.0.1:{}", proxy.port()), "documents"));
    direct.prepare().await.unwrap();
    let mut version = direct.create(&key("7"), &draft("0")).await.unwrap();
    for n in 1..=20 {
        // Once the answer to the first request, and once those to several.
        for _ in 0..=n % 5 {
            proxy.lose_answer();
        }
        let next = draft(n.to_string());
        match store.replace(&key("7"), &version, &next).await {
            Ok(written) => version = written,
            Err(WriteError::Failed(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
                let found = direct.load(&key("7")).await.unwrap().unwrap();
                assert_eq!(found.version, next.version(), "step {n} was made and is not there");
                version = found.version;
            }
            Err(other) => panic!("step {n}: {other:?}"),
        }
        let found = direct.load(&key("7")).await.unwrap().unwrap();
        assert_eq!((found.json.as_ref(), &found.version), (n.to_string().as_bytes(), &version));
    }
}

#[tokio::test]
async fn a_missing_table_is_no_missing_document() {
    let Some(moto) = moto("a missing table").await else { return };
    at(&moto.endpoint(), "documents").prepare().await.unwrap();
    let elsewhere = format!("dynamodb://documents?region=eu-west-1&endpoint={}", moto.endpoint());
    for store in [at(&moto.endpoint(), "nobody"), opened(&elsewhere, ["test", SECRET])] {
        let listed = store.due(&Collection::new("carts").unwrap(), Timestamp(0), None, 1).await.unwrap_err();
        let version = draft("0").version();
        for error in [
            store.load(&key("7")).await.unwrap_err(),
            failure(store.create(&key("7"), &draft("1")).await),
            failure(store.replace(&key("7"), &version, &draft("1")).await),
            failure(store.delete(&key("7"), &version).await),
            listed,
            store.check().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let advice = error.advice().unwrap();
            assert!(advice.contains("call prepare") && advice.contains("region"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_document_of_the_largest_size_fits_whatever_its_name_and_one_byte_more_is_refused() {
    let Some(moto) = moto("large documents").await else { return };
    let store = at(&moto.endpoint(), "documents");
    store.prepare().await.unwrap();
    let collection = Collection::new(&"c".repeat(40)).unwrap();
    let longest = DocumentKey::new(&collection, &"\u{e9}".repeat(127)).unwrap();
    let sized = |bytes: u64| {
        let text = "x".repeat(usize::try_from(bytes).unwrap() - 2);
        postrider_core::Draft { due: Some(Timestamp(i64::MIN)), ..draft(format!("\"{text}\"")) }
    };
    let version = store.create(&longest, &sized(LIMIT)).await.unwrap();
    match store.replace(&longest, &version, &sized(LIMIT + 1)).await {
        Err(WriteError::TooLarge { limit, actual }) => assert_eq!((limit, actual), (LIMIT, LIMIT + 1)),
        other => panic!("expected it to be too large, found {other:?}"),
    }
    let version = store.replace(&longest, &version, &sized(LIMIT)).await.unwrap();
    let stored = store.load(&longest).await.unwrap().unwrap();
    assert_eq!((stored.json.len() as u64, stored.version), (LIMIT, version));
    assert_eq!(store.due(&collection, Timestamp(0), None, 2).await.unwrap(), [longest]);
}

#[tokio::test]
async fn requests_are_signed_and_wrong_credentials_say_what_to_do() {
    let Some(moto) = moto("credentials").await else { return };
    let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C\
                  %22Action%22%3A%22dynamodb%3A*%22%2C%22Resource%22%3A%22*%22%7D%5D%7D";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let ask = async |question: String| told(&moto, "iam", form, &format!("{question}&Version=2010-05-08")).await;
    let (allowed, barred) = ("allowed", "barred");
    let mut keys = Vec::new();
    for user in [allowed, barred] {
        ask(format!("Action=CreateUser&UserName={user}")).await;
        let made = ask(format!("Action=CreateAccessKey&UserName={user}")).await;
        let part = |tag: &str| {
            let text = made.split_once(&format!("<{tag}>")).unwrap().1;
            text.split_once('<').unwrap().0.to_owned()
        };
        keys.push([part("AccessKeyId"), part("SecretAccessKey")]);
    }
    ask(format!("Action=PutUserPolicy&UserName={allowed}&PolicyName=all&PolicyDocument={policy}")).await;
    // From now on it looks at signatures and rights.
    told(&moto, "moto", "", "0").await;

    let url = format!("dynamodb://documents?region=us-east-1&endpoint={}", moto.endpoint());
    let store = opened(&url, [&keys[0][0], &keys[0][1]]);
    store.prepare().await.unwrap();
    let version = store.create(&key("gr\u{fc}\u{df}e"), &draft("\"\u{1f600}\"")).await.unwrap();
    assert_eq!(store.load(&key("gr\u{fc}\u{df}e")).await.unwrap().unwrap().version, version);

    let wrong = [["AKIANOBODY", SECRET], [&keys[0][0], SECRET], [&keys[1][0], &keys[1][1]]];
    for [name, secret] in wrong {
        let store = opened(&url, [name, secret]);
        for error in [
            failure(store.create(&key("7"), &draft("1")).await),
            store.load(&key("7")).await.unwrap_err(),
            store.check().await.unwrap_err(),
            store.prepare().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.advice().unwrap().contains("credentials"), "{error}");
            assert!(!format!("{error} {error:?} {store:?}").contains(secret), "{error}");
        }
    }
    let error = opened(&url, ["a\nb", SECRET]).load(&key("7")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.advice().unwrap().contains("AWS_"), "{error}");
}

#[tokio::test]
async fn check_warns_of_a_table_that_can_be_lost_and_leaves_nothing_of_what_it_tried() {
    let Some(moto) = moto("check").await else { return };
    let store = at(&moto.endpoint(), "documents");
    store.prepare().await.unwrap();
    let warned = async || {
        let findings = store.check().await.unwrap();
        let warnings = findings.iter().filter(|finding| finding.level == Level::Warning);
        warnings.map(|finding| finding.subject.clone()).collect::<Vec<_>>()
    };
    assert_eq!(warned().await, ["backups"]);
    let body = r#"{"TableName":"documents","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}"#;
    table_told(&moto, "UpdateContinuousBackups", body).await;
    assert!(warned().await.is_empty());
    table_told(&moto, "UpdateTable", r#"{"TableName":"documents","DeletionProtectionEnabled":false}"#).await;
    assert_eq!(warned().await, ["deletion"]);
    let left = table_told(&moto, "Scan", r#"{"TableName":"documents"}"#).await;
    assert!(left.contains("\"Count\": 0") || left.contains("\"Count\":0"), "what was tried is left: {left}");
}

#[tokio::test]
async fn a_table_without_the_index_gets_it_and_one_of_somebody_else_is_refused() {
    let Some(moto) = moto("tables of others").await else { return };
    let table = |name: &str, key: &str| {
        format!(
            r#"{{"TableName":"{name}","BillingMode":"PAY_PER_REQUEST",
                "AttributeDefinitions":[{{"AttributeName":"{key}","AttributeType":"S"}}],
                "KeySchema":[{{"AttributeName":"{key}","KeyType":"HASH"}}]}}"#
        )
    };
    table_told(&moto, "CreateTable", &table("without", "document")).await;
    let store = at(&moto.endpoint(), "without");
    let carts = Collection::new("carts").unwrap();
    let asked = store.due(&carts, Timestamp(7), None, 1).await;
    for error in [store.check().await.unwrap_err(), asked.unwrap_err()] {
        assert!(error.kind() == ErrorKind::Config && error.advice().unwrap().contains("call prepare"), "{error}");
    }
    store.prepare().await.unwrap();
    store.check().await.unwrap();
    let due = postrider_core::Draft { due: Some(Timestamp(7)), ..draft("1") };
    store.create(&key("7"), &due).await.unwrap();
    assert_eq!(store.due(&carts, Timestamp(7), None, 1).await.unwrap(), [key("7")]);

    table_told(&moto, "CreateTable", &table("other", "id")).await;
    let store = at(&moto.endpoint(), "other");
    for error in [store.prepare().await.unwrap_err(), store.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.advice().unwrap().contains("a table of their own"), "{error}");
    }
}
