//! What every store must do.
//!
//! A backend writes a [`StoreHarness`] and one line, `store_suite!(start)`, where `start` is an async function that
//! gives a harness around a fresh outbox of [`LANES`] lanes which keeps its history. Each case becomes a test of its
//! own under the name of its function; a case that a profile excludes says so and why. A second line,
//! `one_order_suite!(start_of_one_lane)`, is for an outbox of one lane.

pub mod archiving;
pub mod bench;
pub mod careful;
pub mod expiring;
pub mod holding;
pub mod leasing;
pub mod one_order;
pub mod operating;
pub mod reading;
pub mod retaining;
pub mod settling;
pub mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Lane, Message, Store};

/// The number of lanes of the outbox that a harness brings.
pub const LANES: u16 = 4;

/// A case that a backend does not run.
#[derive(Debug, Clone, Copy)]
pub struct Exclusion {
    /// The name of the case.
    pub case: &'static str,
    /// Why it means nothing there.
    pub reason: &'static str,
}

/// A fresh outbox and what a test does to it from outside.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Commits messages in one transaction on a connection that is not the store's.
    async fn write(&self, messages: &[Message]);

    /// Commits one row for each nullable column, with nonsense in that column and the given message otherwise; says
    /// which column each spoils, in the order of their ids. A backend whose columns have strict types has fewer.
    async fn write_nonsense(&self) -> Vec<String>;

    /// Returns when this much time has passed on the database's clock.
    async fn pass(&self, time: Duration);

    /// Gives a lane to somebody else under a new term, as an eviction and an acquisition would.
    async fn steal(&self, lane: Lane);

    /// The cases this backend does not run.
    fn exclusions(&self) -> &'static [Exclusion] {
        &[]
    }
}

/// Whether a case is run against a harness; says so where it is not.
pub fn runs(harness: &dyn StoreHarness, case: &str) -> bool {
    let exclusion = harness.exclusions().iter().find(|exclusion| exclusion.case == case);
    if let Some(exclusion) = exclusion {
        println!("suite store on {}: excluded {case}: {}", harness.store().profile().name, exclusion.reason);
    }
    exclusion.is_none()
}

/// Says that a case has passed, in the words that the table of all suites is made from.
pub fn passed(harness: &dyn StoreHarness, case: &str) {
    println!("suite store on {}: passed {case}", harness.store().profile().name);
}

/// Runs every case against the harness that an async function gives.
#[macro_export]
macro_rules! store_suite {
    ($start:ident) => {
        $crate::store_suite! { @groups $start;
            reading {
                what_is_committed_is_read_and_settled
                nothing_is_read_twice_in_steady_state
                a_lane_that_is_regained_is_read_from_its_beginning
                a_lane_that_was_left_out_once_is_read_from_its_beginning
                a_lane_acquired_later_is_read_from_its_beginning_while_the_others_go_on
                a_row_of_a_lane_that_is_not_held_is_not_read
                a_page_is_bounded_by_rows
                a_page_is_bounded_by_bytes_and_an_oversized_row_travels_alone
                a_page_is_bounded_by_the_bytes_of_headers_too
                rows_of_a_key_come_in_the_order_of_their_ids
                a_lane_is_read_from_its_beginning_in_the_order_of_its_ids
                a_page_tells_how_far_every_lane_is_read
                everything_of_a_message_arrives_as_it_was_written
                nonsense_in_any_nullable_column_is_one_malformed_row_and_costs_no_other
                a_row_that_breaks_the_grammar_is_malformed
                the_sweep_finds_what_is_pending_and_nothing_else
                many_rows_in_small_pages_are_each_read_once
                a_reading_ends_however_much_is_written_meanwhile
            }
            settling {
                a_delivered_row_is_gone
                a_retried_row_waits_for_its_time_with_what_was_recorded
                a_row_set_aside_is_exceptional_and_not_due
                a_dead_row_is_never_read_again
                a_relay_that_lost_its_lease_changes_nothing
                a_settle_under_an_older_term_changes_nothing
                a_lane_that_was_not_given_is_not_settled
                the_three_answers_of_a_settle_can_be_told_apart
                the_same_settlement_twice_is_harmless
                what_fails_again_after_a_replay_is_recorded
                the_last_ten_failures_are_kept
                a_large_batch_is_settled_whole
                what_becomes_of_a_message_is_never_recorded_of_another_one_that_got_its_number
            }
            waiting {
                a_retry_is_found_exactly_when_it_is_due
                a_delayed_row_is_found_when_it_is_due_and_holds_back_nothing
                due_rows_in_the_window_are_left_out
                due_rows_of_lanes_that_are_not_held_are_left_out
                a_page_of_due_rows_is_bounded
                the_exceptional_rows_of_a_key_come_in_order
                the_walk_over_exceptional_keys_meets_each_once
                a_row_behind_an_exceptional_one_is_closed
                a_row_behind_a_partly_delivered_one_is_closed_for_the_rest
                a_row_behind_many_partly_delivered_ones_is_told_that_there_are_more
            }
            careful {
                rows_of_a_lane_that_starts_carefully_come_as_heads
                messages_are_fetched_by_their_rows
                suspicion_is_recorded_and_any_other_outcome_clears_it
                a_row_that_goes_back_keeps_the_suspicion_that_its_settlement_says
                a_relay_that_lost_its_lease_suspects_nobody
            }
            expiring {
                the_database_says_how_old_a_message_is_and_how_long_it_has
                a_message_whose_time_has_passed_says_so_wherever_it_is_found
                a_dropped_row_is_gone_and_in_no_history
                a_relay_that_lost_its_lease_drops_nothing
                a_death_by_time_is_recorded_without_an_attempt
                a_replayed_dead_letter_never_expires
            }
            holding {
                a_row_that_holds_its_key_is_a_dead_letter_that_closes_it
                a_row_that_holds_its_key_is_no_longer_settled
                a_replayed_head_is_due_and_its_successors_stay_behind_it
                a_discarded_head_makes_the_first_row_behind_it_due
                a_discarded_head_frees_what_stands_before_it_too
                a_discarded_head_with_nothing_behind_it_is_gone
                a_head_past_its_retention_opens_its_key
                a_key_with_several_dead_letters_is_replayed_whole
                dead_letters_are_told_apart_by_whether_they_hold
                a_row_to_be_forwarded_keeps_its_reason_and_holds_back_nothing
            }
            leasing {
                only_a_member_acquires_lanes
                a_lane_is_acquired_once
                two_acquirers_at_once_never_share_a_lane
                terms_increase_with_every_owner
                an_evicted_member_is_told
                a_renewed_member_is_not_evicted
                a_lane_after_an_unclean_end_starts_carefully
                a_released_lane_starts_cleanly
                a_lane_released_during_its_careful_start_starts_carefully_again
                a_lane_of_somebody_else_is_not_released
                a_release_under_an_older_term_releases_nothing
                the_living_members_are_known_in_the_order_of_their_ids
                a_member_can_ask_what_it_owns_and_how_that_was_left
                a_member_that_leaves_frees_its_lanes
                two_relays_of_one_name_are_two_members
            }
            operating {
                the_status_counts_exactly_up_to_the_bound
                the_status_says_when_it_estimates
                the_status_names_members_lanes_and_errors
                the_status_names_topics_that_no_route_leads
                the_topics_of_what_waits_are_told
                a_pending_a_retrying_and_a_waiting_message_are_explained
                a_dead_and_a_delivered_message_are_explained
                enqueue_writes_in_order_and_refuses_what_is_invalid
                the_doctor_finds_no_failure_in_a_sound_store
            }
            retaining {
                dead_letters_are_listed_by_filter_and_page
                dead_letters_are_grouped_by_topic_and_reason
                a_replayed_dead_letter_keeps_its_id_and_is_due_at_once
                two_replays_at_once_replay_each_message_once
                a_discarded_dead_letter_is_gone
                prune_removes_only_what_is_settled_and_past_its_time
                prunable_is_what_prune_removes
                two_prunes_at_once_remove_each_row_once_and_nothing_else
                prune_is_bounded
            }
            archiving {
                what_is_past_its_retention_is_shown_whole_and_stays
                what_is_shown_is_bounded_and_the_first_of_a_kind_comes_whatever_it_weighs
                what_was_shown_is_removed_and_nothing_else
                what_was_replayed_since_it_was_shown_stays
                a_head_that_was_shown_and_removed_opens_its_key
            }
        }
    };
    (@groups $start:ident; $($group:ident { $($case:ident)+ })+) => {
        $(mod $group {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness = super::$start().await;
                    if $crate::suites::store::runs(&harness, stringify!($case)) {
                        $crate::suites::store::$group::$case(&harness).await;
                        $crate::suites::store::passed(&harness, stringify!($case));
                    }
                }
            )+
        })+
    };
}

/// Runs every case about one order of all messages against the harness, around an outbox of one lane, that an async
/// function gives.
#[macro_export]
macro_rules! one_order_suite {
    ($start:ident) => {
        $crate::store_suite! { @groups $start;
            one_order {
                a_row_behind_an_exceptional_one_of_any_key_is_closed
                a_row_behind_partly_delivered_ones_is_closed_for_what_they_owe
                a_row_behind_many_exceptional_ones_is_closed
                a_due_row_behind_an_exceptional_one_of_any_key_is_closed
                the_exceptional_rows_of_all_keys_come_in_order
                the_exceptional_rows_of_all_keys_come_as_heads_after_a_death
                the_walk_gives_everything_once
                a_message_is_explained_by_the_first_exceptional_one_of_all
            }
        }
    };
}
