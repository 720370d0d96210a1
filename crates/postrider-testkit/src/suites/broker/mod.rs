//! What every broker must do.
//!
//! A backend implements [`BrokerHarness`] and runs everything by one line:
//!
//! ```ignore
//! postrider_testkit::suites::broker::run("mine", || async { MyHarness::start().await }).await.expect_success();
//! ```
//!
//! Each case gets a fresh harness. What a broker can't do is data, [`BrokerHarness::exclusions`], and is counted in
//! the [`Report`]; a name there that is no case is a failure.

mod cases;
mod faults;
mod harness;

pub use harness::{BrokerHarness, Deduplication, Received, message, outgoing, told};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use super::{Exclusion, Report};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A harness, shared by the parts of a case.
pub type Harness = Arc<dyn BrokerHarness>;

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const CASES: &[(&str, fn(Harness) -> Running)] =
            &[$((stringify!($name), |harness| Box::pin($module::$name(harness)))),*];
    };
}

cases![
    cases::every_message_gets_one_result_in_order_and_arrives,
    cases::an_empty_batch_gets_an_empty_answer,
    cases::payloads_arrive_byte_for_byte,
    cases::a_payload_of_one_mebibyte_arrives,
    cases::id_content_type_and_user_headers_arrive,
    cases::unusual_but_legal_headers_arrive,
    cases::the_wire_headers_arrive,
    cases::the_same_id_again_is_accepted,
    cases::a_repeat_is_recognised,
    cases::the_messages_of_a_key_arrive_in_order,
    cases::as_many_calls_at_once_as_the_profile_says_all_succeed,
    cases::what_was_accepted_is_there_after_close,
    cases::check_is_content_with_a_working_place,
    faults::an_unreachable_broker_is_never_accepted_and_never_hangs,
    faults::check_of_an_unreachable_broker_fails_with_what_to_do,
    faults::it_goes_on_by_itself_when_the_receiver_is_back,
    faults::a_message_that_is_too_large_is_rejected_alone,
    faults::nothing_of_a_key_is_accepted_after_its_failure,
    faults::publishing_to_a_missing_destination_is_a_config_error,
    faults::check_finds_a_missing_destination,
    faults::nothing_secret_is_shown,
];

/// The names of every case.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs every case that is not excluded, each against a fresh harness.
pub async fn run<H, F>(backend: &str, make: impl Fn() -> F) -> Report
where
    H: BrokerHarness + 'static,
    F: Future<Output = H>,
{
    let mut report = Report::new("broker", backend);
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
