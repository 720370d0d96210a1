//! Documents in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use bytes::Bytes;
use postrider_core::{Collection, DocumentKey, Draft, Revision};
use uuid::Uuid;

#[tokio::test]
async fn a_url_opens_it_and_two_openings_share_nothing() {
    let key = DocumentKey::new(&Collection::new("carts").unwrap(), "7").unwrap();
    let draft = Draft { json: Bytes::from_static(b"{}"), due: None, revision: Revision(Uuid::from_u128(1)) };
    let (one, two) =
        (postrider_documents::open("memory:").await.unwrap(), postrider_documents::open("memory:").await.unwrap());
    one.create(&key, &draft).await.unwrap();
    assert!(one.load(&key).await.unwrap().is_some() && two.load(&key).await.unwrap().is_none());
    let error = postrider_documents::open("memory://host").await.unwrap_err().to_string();
    assert!(error.contains("written memory:"), "{error}");
}
