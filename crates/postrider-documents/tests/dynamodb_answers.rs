//! What documents in DynamoDB make of answers that no emulator gives, by a service that answers as it is told.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod dynamodb_harness;

use std::sync::Arc;
use std::time::Duration;

use dynamodb_harness::{SECRET, at};
use postrider_core::{Collection, DocumentStore, Error, ErrorKind, Timestamp, Version, WriteError};
use postrider_documents::dynamodb::{DynamoDocuments, DynamoOptions};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Request};
use postrider_testkit::suites::documents::{draft, key};
use serde_json::{Value, json};

const REFUSED: &str = "ConditionalCheckFailedException";

fn said(status: u16, body: &Value) -> Answer {
    Answer::Full(status, Vec::new(), body.to_string().into_bytes())
}

fn error(status: u16, code: &str) -> Answer {
    said(status, &json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "as told" }))
}

fn action(request: &Request) -> String {
    request.header("x-amz-target").unwrap().split_once('.').unwrap().1.to_owned()
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn failure<T: std::fmt::Debug>(written: Result<T, WriteError>) -> Error {
    match written {
        Err(WriteError::Failed(error)) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

/// A service and a store of it. The script is given each request, what it is to do, and how many were before it.
async fn scripted(
    script: impl Fn(&Request, &str, u64) -> Answer + Send + Sync + 'static,
) -> (HttpReceiver, Arc<dyn DocumentStore>) {
    let service = HttpReceiver::start().await.unwrap();
    service.script(move |request, nth| script(request, &action(request), nth));
    let store = at(&service.url(), "documents");
    (service, store)
}

fn actions(service: &HttpReceiver) -> Vec<String> {
    service.requests().iter().map(action).collect()
}

#[tokio::test]
async fn what_is_not_taken_is_sent_again_and_then_throttled() {
    for code in ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"] {
        let (service, store) = scripted(|_, _, _| error(400, code)).await;
        let failed = failure(store.create(&key("7"), &draft("1")).await);
        assert_eq!((failed.kind(), actions(&service).len()), (ErrorKind::Throttled, 4), "{failed}");
        assert_eq!(store.load(&key("7")).await.unwrap_err().kind(), ErrorKind::Throttled);
        let carts = Collection::new("carts").unwrap();
        let failed = store.due(&carts, Timestamp(0), None, 1).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Throttled, "{failed}");
    }
    let busy = |_: &Request, _: &str, nth: u64| match nth {
        0 | 1 => error(400, "ThrottlingException"),
        _ => said(200, &json!({})),
    };
    let (service, store) = scripted(busy).await;
    store.create(&key("7"), &draft("1")).await.unwrap();
    assert_eq!(actions(&service), ["PutItem", "PutItem", "PutItem"]);
    // It was not taken at first: who is in the way then is no doubt.
    let (_service, store) =
        scripted(|_, _, nth| error(400, ["ThrottlingException", REFUSED][nth.min(1) as usize])).await;
    assert!(matches!(store.create(&key("7"), &draft("1")).await, Err(WriteError::Conflict)));
}

#[tokio::test]
async fn a_repeated_write_that_meets_itself_has_happened() {
    for lost in [Answer::Close, Answer::CloseMidBody(200), error(500, "InternalServerError"), Answer::Status(502)] {
        let itself = move |request: &Request, _: &str, nth: u64| match nth {
            0 => lost.clone(),
            _ => said(400, &json!({ "__type": REFUSED, "Item": body(request)["Item"] })),
        };
        let (service, store) = scripted(itself).await;
        let (over, next) = (Version("an older one".to_owned()), draft("2"));
        assert_eq!(store.replace(&key("7"), &over, &next).await.unwrap(), next.version());
        let requests: Vec<Value> = service.requests().iter().map(body).collect();
        let asked: Vec<&Value> = requests.iter().map(|body| &body["ReturnValuesOnConditionCheckFailure"]).collect();
        assert_eq!(asked, [&Value::Null, &json!("ALL_OLD")]);
        assert_eq!(requests[1]["ExpressionAttributeValues"][":over"]["S"], "an older one");
    }
}

#[tokio::test]
async fn a_repeated_write_that_meets_another_is_not_known() {
    for item in [json!({ "revision": { "S": "another" } }), Value::Null, json!({})] {
        let another = move |_: &Request, _: &str, nth: u64| match nth {
            0 => Answer::Close,
            _ => said(400, &json!({ "__type": REFUSED, "Item": item })),
        };
        let (_service, store) = scripted(another).await;
        let over = Version("an older one".to_owned());
        let failed = failure(store.replace(&key("7"), &over, &draft("2")).await);
        assert_eq!(failed.kind(), ErrorKind::Unknown, "{failed}");
    }
    let (service, store) = scripted(|_, _, nth| if nth == 0 { Answer::Close } else { error(400, REFUSED) }).await;
    let failed = failure(store.delete(&key("7"), &Version("an older one".to_owned())).await);
    assert_eq!((failed.kind(), actions(&service).len()), (ErrorKind::Unknown, 2), "{failed}");
    // What was not known does not become known by a further request that was not taken.
    let lost_then = |code: &'static str| {
        move |_: &Request, _: &str, nth: u64| match nth {
            0 => Answer::Close,
            _ => error(400, code),
        }
    };
    for code in ["ThrottlingException", "ValidationException"] {
        let (_service, store) = scripted(lost_then(code)).await;
        let failed = failure(store.replace(&key("7"), &Version("old".to_owned()), &draft("2")).await);
        assert_eq!(failed.kind(), ErrorKind::Unknown, "{code}: {failed}");
    }
}

#[tokio::test]
async fn a_create_without_an_answer_is_looked_for_and_not_sent_again() {
    let next = draft("1");
    let there = json!({ "Item": { "revision": { "S": next.version().0 }, "json": { "S": "1" } } });
    for (found, is_known) in
        [(there, true), (json!({}), false), (json!({ "Item": { "revision": { "S": "b" } } }), false)]
    {
        let (service, store) = scripted(move |_, action, _| match action {
            "GetItem" => said(200, &found),
            _ => Answer::Close,
        })
        .await;
        match (store.create(&key("7"), &next).await, is_known) {
            (Ok(version), true) => assert_eq!(version, next.version()),
            (Err(WriteError::Failed(failed)), false) => assert_eq!(failed.kind(), ErrorKind::Unknown, "{failed}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(actions(&service), ["PutItem", "GetItem"]);
        let looked = body(&service.requests()[1]);
        assert_eq!((&looked["ConsistentRead"], &looked["Key"]["document"]["S"]), (&json!(true), &json!("carts/7")));
    }
}

#[tokio::test]
async fn no_call_waits_for_ever_and_what_has_no_answer_in_time_is_not_known() {
    for hanging in [Answer::Hang, Answer::HangMidBody(200)] {
        let (_service, store) = scripted(move |_, _, _| hanging.clone()).await;
        let within = Duration::from_secs(20);
        let failed = failure(tokio::time::timeout(within, store.create(&key("7"), &draft("1"))).await.unwrap());
        assert_eq!(failed.kind(), ErrorKind::Unknown, "{failed}");
        let failed = tokio::time::timeout(within, store.load(&key("7"))).await.unwrap().unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
    }
}

#[tokio::test]
async fn what_is_no_dynamodb_is_not_taken_for_it() {
    let page = Answer::Full(200, Vec::new(), b"<html>welcome</html>".to_vec());
    let (_service, store) = scripted(move |_, _, _| page.clone()).await;
    let failed = failure(store.create(&key("7"), &draft("1")).await);
    assert_eq!(failed.kind(), ErrorKind::Unknown, "{failed}");
    assert!(store.load(&key("7")).await.is_err());

    let ready = json!({ "Table": {
        "TableStatus": "ACTIVE",
        "KeySchema": [{ "AttributeName": "document", "KeyType": "HASH" }],
        "GlobalSecondaryIndexes": [{
            "IndexName": "postrider_document_due",
            "IndexStatus": "ACTIVE",
            "KeySchema": [
                { "AttributeName": "due_shard", "KeyType": "HASH" },
                { "AttributeName": "due", "KeyType": "RANGE" },
            ],
        }],
    } });
    let mut making = ready.clone();
    making["Table"]["GlobalSecondaryIndexes"][0]["IndexStatus"] = "CREATING".into();
    // It is made in a while, and then takes every write.
    let heedless = move |_: &Request, action: &str, nth: u64| match (action, nth) {
        ("DescribeTable", 0 | 2) => error(400, "ResourceNotFoundException"),
        ("DescribeTable", 3) => said(200, &making),
        ("DescribeTable", _) => said(200, &ready),
        ("CreateTable", _) => error(400, "ResourceInUseException"),
        _ => said(200, &json!({})),
    };
    let (service, store) = scripted(heedless).await;
    let failed = store.prepare().await.unwrap_err();
    assert!(failed.kind() == ErrorKind::Config && failed.to_string().contains("does not hold"), "{failed}");
    let asked = actions(&service);
    let until =
        ["DescribeTable", "CreateTable", "DescribeTable", "DescribeTable", "DescribeTable", "PutItem", "PutItem"];
    assert_eq!(asked[..7], until, "{asked:?}");
    assert_eq!(asked.last().unwrap(), "DeleteItem", "what was tried is left: {asked:?}");
}

#[tokio::test]
async fn what_is_due_is_read_to_the_end_of_each_part_and_named_in_order() {
    let entry = |name: &str| json!({ "document": { "S": format!("carts/{name}") } });
    let pages = move |request: &Request, action: &str, _: u64| {
        assert_eq!(action, "Query");
        let asked = body(request);
        let part = asked["ExpressionAttributeValues"][":shard"]["S"].as_str().unwrap().to_owned();
        match (part.as_str(), &asked["ExclusiveStartKey"]) {
            ("carts 0", Value::Null) => {
                said(200, &json!({ "Items": [entry("m"), entry("c")], "LastEvaluatedKey": entry("c") }))
            }
            ("carts 0", from) if *from == entry("c") => said(200, &json!({ "Items": [entry("a")] })),
            // A page may be empty and not the last.
            ("carts 3", Value::Null) => said(200, &json!({ "Items": [], "LastEvaluatedKey": entry("x") })),
            ("carts 3", _) => said(200, &json!({ "Items": [entry("b"), entry("z/z")] })),
            _ => said(200, &json!({ "Items": [] })),
        }
    };
    let (service, store) = scripted(pages).await;
    let carts = Collection::new("carts").unwrap();
    let named = store.due(&carts, Timestamp(-7), None, 100).await.unwrap();
    assert_eq!(named, ["a", "b", "c", "m", "z/z"].map(key));
    assert_eq!(store.due(&carts, Timestamp(-7), Some(&key("a")), 2).await.unwrap(), ["b", "c"].map(key));
    assert_eq!(store.due(&carts, Timestamp(-7), Some(&key("n")), 2).await.unwrap(), [key("z/z")]);
    let asked = body(&service.requests()[0]);
    assert_eq!(asked["ExpressionAttributeValues"][":by"]["N"], "-7");

    let stranger = json!({ "Items": [{ "document": { "S": "elsewhere/a" } }] });
    let (_service, store) = scripted(move |_, _, _| said(200, &stranger)).await;
    assert_eq!(store.due(&carts, Timestamp(0), None, 1).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_request_names_its_region_and_its_token_and_shows_no_secret() {
    let service = HttpReceiver::start().await.unwrap();
    service.script(|_, _| error(400, "InvalidSignatureException"));
    let url = format!("dynamodb://documents?region=eu-central-1&endpoint={}", service.url());
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "a-token-of-the-tests"),
        ("AWS_S3_EXPRESS", "true"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let store = DynamoDocuments::new(DynamoOptions::new(&url, variables).unwrap()).unwrap();
    let failed = store.load(&key("7")).await.unwrap_err();
    let request = &service.requests()[0];
    let signed = request.header("authorization").unwrap();
    assert!(signed.contains("AKIATEST/") && signed.contains("/eu-central-1/dynamodb/aws4_request"), "{signed}");
    assert_eq!(request.header("x-amz-security-token"), Some("a-token-of-the-tests"));
    let shown = format!("{failed} {failed:?} {store:?} {signed}");
    assert!(!shown.contains(SECRET) && !shown.contains("a-token"), "{shown}");
    assert!(failed.advice().unwrap().contains("clock"), "{failed}");

    let half = [("AWS_ACCESS_KEY_ID".to_owned(), "AKIATEST".to_owned())];
    let failed = DynamoDocuments::new(DynamoOptions::new(&url, half).unwrap()).unwrap_err();
    assert!(failed.kind() == ErrorKind::Config && failed.advice().unwrap().contains("AWS_"), "{failed}");
}
