//! What every store of documents must do.
//!
//! A backend implements [`DocumentHarness`] and runs everything by one line:
//!
//! ```ignore
//! postrider_testkit::suites::documents::run("mine", || async { MyHarness::start().await }).await.expect_success();
//! ```
//!
//! Each case gets a fresh harness. What a store can't do is data, [`DocumentHarness::exclusions`], and is counted in the
//! [`Report`]; a name there that is no case is a failure.

mod contents;
mod due;
mod faults;
mod harness;
mod names;
mod racing;
mod versions;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use harness::{DocumentHarness, draft, key};

pub use super::{Exclusion, Report};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A harness, shared by the parts of a case.
pub type Harness = Arc<dyn DocumentHarness>;

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const CASES: &[(&str, fn(Harness) -> Running)] =
            &[$((stringify!($name), |harness| Box::pin($module::$name(harness)))),*];
    };
}

cases![
    versions::an_absent_document_is_none,
    versions::a_second_create_conflicts_and_the_first_value_stays,
    versions::a_replace_over_the_current_version_gives_another,
    versions::a_stale_replace_conflicts_and_the_value_stays,
    versions::a_stale_delete_conflicts_and_the_value_stays,
    versions::a_write_over_an_absent_document_conflicts_and_makes_none,
    versions::the_same_content_written_twice_has_two_versions,
    versions::content_that_comes_back_brings_no_version_back,
    versions::a_document_that_was_deleted_brings_no_version_back,
    versions::every_client_sees_a_write_once_it_is_answered,
    racing::of_many_creators_one_wins,
    racing::of_many_writers_over_one_version_one_wins,
    racing::of_a_delete_and_a_replace_one_wins,
    racing::counting_at_once_loses_nothing,
    racing::a_reader_never_goes_back,
    names::unusual_names_stay_apart,
    names::a_name_means_another_document_in_another_collection,
    contents::every_kind_of_value_comes_back,
    contents::the_character_zero_is_kept_or_refused,
    contents::what_is_too_large_is_refused_and_not_stored,
    contents::a_document_of_the_largest_size_is_stored,
    due::what_is_due_is_named_in_order_and_in_pages,
    due::a_replace_moves_what_is_due_and_a_delete_takes_it_away,
    faults::a_call_that_is_dropped_leaves_the_old_or_the_new,
    faults::preparing_again_does_no_harm,
    faults::two_can_prepare_at_once,
    faults::check_is_content_with_a_prepared_store,
    faults::what_is_not_prepared_says_what_to_do,
    faults::a_store_that_is_away_writes_nothing_and_never_hangs,
    faults::a_store_that_is_away_is_not_read,
    faults::check_of_a_store_that_is_away_fails,
    faults::it_goes_on_by_itself_when_the_store_is_back,
    faults::what_was_answered_survives_a_crash,
    faults::nothing_secret_is_shown,
];

/// The names of every case.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs every case that is not excluded, each against a fresh harness.
pub async fn run<H, F>(backend: &str, make: impl Fn() -> F) -> Report
where
    H: DocumentHarness + 'static,
    F: Future<Output = H>,
{
    let mut report = Report::new("documents", backend);
    for (name, case) in CASES {
        let harness: Harness = Arc::new(make().await);
        if let Some(exclusion) = harness.exclusions().iter().find(|exclusion| exclusion.case == *name) {
            report.excluded(name, exclusion.reason);
            continue;
        }
        report.run(name, case(harness)).await;
    }
    report.refuse_unknown(make().await.exclusions(), names());
    report
}
