//! Documents in memory: they pass the suite, and stores that are wrong in one thing do not.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod memory_harness;
mod wrong;

use memory_harness::Harness;
use postrider_documents::memory::MemoryDocuments;
use postrider_testkit::suites::documents::{draft, key, run};
use wrong::{Wrong, WrongDocuments};

#[tokio::test]
async fn a_url_opens_it_and_two_openings_share_nothing() {
    let key = key("7");
    let (one, two) =
        (postrider_documents::open("memory:").await.unwrap(), postrider_documents::open("memory:").await.unwrap());
    one.create(&key, &draft("{}")).await.unwrap();
    assert!(one.load(&key).await.unwrap().is_some() && two.load(&key).await.unwrap().is_none());
    let error = postrider_documents::open("memory://host").await.unwrap_err().to_string();
    assert!(error.contains("written memory:"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_memory_pass_the_suite() {
    run("memory", async || Harness::new(MemoryDocuments::new().limit(1 << 20))).await.expect_success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_wrong_in_one_thing_fails_the_case_of_it() {
    for (wrong, case) in Wrong::ALL {
        let report = run("a wrong one", async || Harness::new(WrongDocuments::new(wrong))).await;
        let failed: Vec<&str> = report.failures().iter().map(|(case, _)| case.as_str()).collect();
        assert!(failed.contains(&case), "{wrong:?} passes {case}; failed: {failed:?}");
        println!("{wrong:?}: caught by {}", failed.join(", "));
    }
}
