//! What a relay is refused with before it runs, and what just goes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::memory::MemoryBroker;
use postrider_core::machine::{MAX_DESTINATIONS, Ordering};
use postrider_core::{Broker, DestinationName, DestinationTemplate, ErrorKind, LaneCount, OnDead, Store, TopicPattern};
use postrider_relay::{Relay, RelayBuilder};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;

fn of_lanes(lanes: u16) -> RelayBuilder {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LaneCount::new(lanes).unwrap(), History::Off));
    Relay::builder(store)
}

fn broker() -> Arc<dyn Broker> {
    Arc::new(MemoryBroker::recording())
}

fn to(builder: RelayBuilder, name: &str) -> RelayBuilder {
    builder.destination(DestinationName::new(name), broker(), DestinationTemplate::topic())
}

fn relay() -> RelayBuilder {
    to(of_lanes(8), "out")
}

fn many(count: usize) -> RelayBuilder {
    (0..count).fold(of_lanes(8), |builder, place| to(builder, &format!("d{place}")))
}

fn forwarding(builder: RelayBuilder) -> RelayBuilder {
    builder.forward_to(DestinationName::new("dead"), broker(), DestinationTemplate::topic())
}

fn refused(builder: RelayBuilder, why: &str) {
    let error = builder.build().map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains(why), "{error}");
}

fn goes(builder: RelayBuilder) {
    builder.build().unwrap();
}

#[test]
fn a_relay_has_from_one_to_sixty_four_destinations_that_routes_can_lead_to() {
    for count in [0, MAX_DESTINATIONS + 1] {
        refused(many(count), &format!("1 to {MAX_DESTINATIONS} destinations; {count} are given"));
    }
    refused(forwarding(of_lanes(8)), "1 are given");
    for builder in [many(1), many(MAX_DESTINATIONS), forwarding(many(1))] {
        goes(builder);
    }
}

#[test]
fn each_destination_has_a_name_of_its_own() {
    refused(to(relay(), "out"), "two destinations are called \"out\"");
}

#[test]
fn a_lease_lasts_half_a_second_at_least() {
    refused(relay().lease(Duration::from_millis(499)), "too short");
    goes(relay().lease(Duration::from_millis(500)));
    goes(relay().lease(Duration::from_secs(60)));
}

#[test]
fn the_window_holds_one_message_and_one_byte_at_least() {
    for (rows, bytes) in [(0, 1), (1, 0), (0, 0)] {
        refused(relay().window(rows, bytes), "at least one message and one byte");
    }
    goes(relay().window(1, 1));
}

#[test]
fn one_order_of_everything_needs_an_outbox_of_one_lane() {
    refused(relay().ordering(Ordering::Everything), "this one has 8");
    goes(to(of_lanes(1), "out").ordering(Ordering::Everything));
}

#[test]
fn a_key_is_held_only_where_keys_have_an_order_of_their_own() {
    let held = |builder: RelayBuilder| builder.on_dead(TopicPattern::every(), OnDead::Hold);
    goes(held(relay()));
    refused(held(relay().ordering(Ordering::None)), "a key cannot be held");
    refused(held(to(of_lanes(1), "out")), "a key cannot be held");
    goes(relay().ordering(Ordering::None).on_dead(TopicPattern::every(), OnDead::Skip));
}

#[test]
fn dead_letters_are_forwarded_only_where_they_have_a_destination() {
    let forwarded = |builder: RelayBuilder| builder.on_dead(TopicPattern::every(), OnDead::Forward);
    refused(forwarded(relay()), "no destination is given for them");
    goes(forwarded(forwarding(relay())));
    let twice = forwarding(relay()).forward_to(DestinationName::new("buried"), broker(), DestinationTemplate::topic());
    refused(forwarded(twice), "\"dead\" and \"buried\"");
    goes(relay().on_dead(TopicPattern::every(), OnDead::Skip));
}

#[test]
fn a_route_leads_to_a_destination() {
    goes(relay().route(TopicPattern::every(), DestinationName::new("out")));
    refused(relay().route(TopicPattern::every(), DestinationName::new("elsewhere")), "\"elsewhere\"");
}

#[test]
fn a_destination_to_which_no_route_leads_is_refused_but_that_of_dead_letters() {
    let routed = |builder: RelayBuilder| builder.route(TopicPattern::every(), DestinationName::new("out"));
    refused(routed(to(relay(), "lonely")), "no route leads to the destination \"lonely\"");
    refused(to(of_lanes(8), ""), "an empty name");
    goes(routed(forwarding(relay())));
}

#[test]
fn two_destinations_that_are_one_place_for_the_same_topic_are_refused() {
    let shared = broker();
    let two = |broker: &Arc<dyn Broker>, other: &Arc<dyn Broker>, places: [&str; 2], topics: [&str; 2]| {
        let place = |text: &str| DestinationTemplate::parse(text).unwrap();
        let pattern = |text: &str| TopicPattern::parse(text).unwrap();
        of_lanes(8)
            .destination(DestinationName::new("a"), Arc::clone(broker), place(places[0]))
            .destination(DestinationName::new("b"), Arc::clone(other), place(places[1]))
            .route(pattern(topics[0]), DestinationName::new("a"))
            .route(pattern(topics[1]), DestinationName::new("b"))
    };
    let one = |places, topics| two(&shared, &shared, places, topics);
    for (places, topics) in [
        (["{topic}", "{topic}"], ["#", "orders.#"]),
        (["events", "events"], ["orders.*", "*.placed"]),
        (["{topic}", "orders.placed"], ["orders.#", "orders.placed"]),
    ] {
        refused(one(places, topics), "a message would arrive there twice");
    }
    goes(one(["{topic}", "{topic}"], ["stock.#", "orders.#"]));
    goes(one(["{topic}", "copy.{topic}"], ["#", "#"]));
    goes(one(["{topic}", "orders.placed"], ["orders.#", "stock"]));
    goes(two(&shared, &broker(), ["{topic}", "{topic}"], ["#", "#"]));
}
