//! What every subscription must do.
//!
//! A backend implements [`SubscriptionHarness`] and runs everything by one line:
//!
//! ```ignore
//! postrider_testkit::suites::subscriptions::run("mine", || async { MyHarness::start().await }).await.expect_success();
//! ```
//!
//! Each case gets a fresh harness. What a broker can't do is data, [`SubscriptionHarness::exclusions`], and is counted in
//! the [`Report`]; a name there that is no case is a failure.

mod contents;
mod ending;
mod faults;
mod hands;
mod harness;
mod leaving;
mod sharing;
mod taking;
mod unreadable;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use harness::{Foreign, SubscriptionHarness, message};

pub use super::{Exclusion, Report};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A harness, shared by the parts of a case.
pub type Harness = Arc<dyn SubscriptionHarness>;

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const CASES: &[(&str, fn(Harness) -> Running)] =
            &[$((stringify!($name), |harness| Box::pin($module::$name(harness)))),*];
    };
}

cases![
    contents::id_key_topic_and_media_type_come_as_they_were,
    contents::payloads_come_byte_for_byte,
    contents::headers_come_as_they_were,
    contents::a_token_comes_as_it_was,
    contents::a_message_of_another_producer_has_the_same_id_at_every_delivery,
    unreadable::what_can_not_be_read_comes_with_its_payload,
    unreadable::what_can_not_be_read_is_over_when_it_is_acknowledged,
    taking::nothing_comes_where_there_is_nothing,
    taking::a_message_that_comes_while_one_waits_is_taken,
    taking::never_more_comes_than_was_asked_for,
    taking::the_messages_of_a_key_come_in_order,
    taking::a_take_that_is_dropped_loses_nothing,
    ending::what_was_acknowledged_does_not_come_again,
    ending::what_was_dropped_without_a_word_comes_again,
    ending::what_was_released_comes_again_at_once,
    ending::what_is_extended_stays_where_it_is,
    ending::acknowledging_out_of_order_loses_nothing,
    leaving::what_was_not_acknowledged_comes_again_after_close,
    leaving::what_was_not_taken_comes_after_close,
    leaving::what_a_dead_member_held_goes_to_another,
    leaving::closing_twice_does_no_harm,
    sharing::two_of_one_consumer_share_what_there_is,
    sharing::every_consumer_gets_everything,
    sharing::a_consumer_that_comes_late_gets_everything,
    sharing::names_that_can_not_be_are_refused,
    faults::a_broker_that_is_away_fails_and_comes_back_by_itself,
    faults::a_broker_that_is_away_at_the_start_is_waited_for,
    faults::a_receipt_ends_in_time_while_the_broker_is_away,
    faults::connections_that_are_cut_lose_nothing,
    faults::check_is_content_with_a_working_place_and_takes_nothing,
    faults::check_of_a_broker_that_is_away_fails,
    faults::what_is_not_there_is_a_config_error,
    faults::nothing_secret_is_shown,
];

/// The names of every case.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs every case that is not excluded, each against a fresh harness.
pub async fn run<H, F>(backend: &str, make: impl Fn() -> F) -> Report
where
    H: SubscriptionHarness + 'static,
    F: Future<Output = H>,
{
    let mut report = Report::new("subscriptions", backend);
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
