//! A durable consumer as the server has it, and whether it is one that we can take from.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::reading::Reading;

/// Of what the server says about a consumer, what we need to know.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Consumer {
    /// How it is made.
    pub(super) config: Shape,
    /// When it was made: one that is made again has another time.
    #[serde(default)]
    pub(super) created: String,
    /// Whether it gives nothing for a while; servers before 2.11 do not know that.
    #[serde(default)]
    pub(super) paused: bool,
}

/// How a consumer is made, in the server's own words. Lengths of time are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Shape {
    pub(super) deliver_subject: Option<String>,
    pub(super) deliver_policy: String,
    pub(super) ack_policy: String,
    pub(super) ack_wait: u64,
    pub(super) backoff: Vec<u64>,
    pub(super) max_deliver: i64,
    pub(super) filter_subject: String,
    pub(super) filter_subjects: Vec<String>,
    pub(super) max_ack_pending: i64,
    pub(super) headers_only: bool,
    pub(super) priority_groups: Vec<String>,
    pub(super) inactive_threshold: u64,
    pub(super) mem_storage: bool,
    pub(super) max_batch: i64,
    pub(super) max_bytes: i64,
    pub(super) max_expires: u64,
}

/// The settings of the consumer that is made where there is none.
pub(super) fn fresh(reading: &Reading) -> Value {
    let mut config = json!({
        "name": reading.consumer,
        "durable_name": reading.consumer,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(reading.ack_wait),
        "max_deliver": -1,
        "max_ack_pending": reading.max_ack_pending,
        "replay_policy": "instant",
    });
    match reading.filter() {
        [] => {}
        [one] => config["filter_subject"] = json!(one),
        several => config["filter_subjects"] = json!(several),
    }
    config
}

impl Shape {
    /// The subjects that it gives, in the order of their names; none where it gives everything.
    pub(super) fn filter(&self) -> Vec<String> {
        let mut filter = self.filter_subjects.clone();
        if !self.filter_subject.is_empty() {
            filter.push(self.filter_subject.clone());
        }
        filter.sort();
        filter.dedup();
        if filter.iter().any(|subject| subject == ">") { Vec::new() } else { filter }
    }

    /// Whether it gives the same as what is read here, from a stream of these subjects.
    pub(super) fn reads_the_same(&self, reading: &Reading, stream: &[String]) -> bool {
        // What is everything in this stream is written in two ways.
        let whole = |filter: &[String]| {
            let names_all = filter.len() == stream.len() && stream.iter().all(|subject| filter.contains(subject));
            filter.is_empty() || names_all
        };
        let found = self.filter();
        found == reading.filter() || (whole(&found) && whole(reading.filter()))
    }

    /// What is different from what we need so that messages would be lost, or taken for over: each with what it would have to be.
    /// The filter is not looked at.
    pub(super) fn differences(&self, reading: &Reading) -> Vec<String> {
        let mut found = Vec::new();
        if self.deliver_subject.is_some() {
            found.push("it pushes its messages to a subject, and must be one that is pulled from".to_owned());
        }
        if self.ack_policy != "explicit" {
            found.push(format!("its ack_policy is {:?} and must be \"explicit\"", self.ack_policy));
        }
        if !self.backoff.is_empty() {
            found.push("it has a backoff, and every message must stay for the same time".to_owned());
        } else if self.ack_wait != nanoseconds(reading.ack_wait) {
            let has = Duration::from_nanos(self.ack_wait);
            found.push(format!("its ack_wait is {has:?}, and the option ack_wait says {:?}", reading.ack_wait));
        }
        if self.max_deliver > 0 {
            let times = self.max_deliver;
            found.push(format!("it gives no message more than {times} times (max_deliver), and must not count"));
        }
        if self.headers_only {
            found.push("it gives headers without payloads".to_owned());
        }
        if !self.priority_groups.is_empty() {
            found.push("it has priority groups, and everybody must have the same right to its messages".to_owned());
        }
        found
    }
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BrokerConfig, SubscriptionConfig};
    use crate::options::Options;

    fn reading(from: &[&str]) -> Reading {
        let from = from.iter().map(|text| (*text).to_owned()).collect();
        let config = SubscriptionConfig { broker: BrokerConfig::new("nats://a"), consumer: "c".into(), from };
        Reading::read(&config, &Options::with_query(&config.broker)).unwrap()
    }

    fn shape(of: &Reading) -> Shape {
        serde_json::from_value(fresh(of)).unwrap()
    }

    #[test]
    fn what_is_made_here_is_what_is_needed() {
        for from in [&[">"][..], &["a"], &["a", "b.*"]] {
            let reading = reading(from);
            let made = shape(&reading);
            assert!(made.differences(&reading).is_empty() && made.reads_the_same(&reading, &[]), "{made:?}");
            assert_eq!(made.deliver_policy, "all");
        }
    }

    #[test]
    fn each_setting_that_would_lose_messages_is_told_with_what_it_has_to_be() {
        let reading = reading(&["a"]);
        let good = shape(&reading);
        for (bad, told) in [
            (Shape { deliver_subject: Some("x".into()), ..good.clone() }, "pulled from"),
            (Shape { ack_policy: "none".into(), ..good.clone() }, "\"none\" and must be \"explicit\""),
            (Shape { ack_policy: "all".into(), ..good.clone() }, "\"all\" and must be \"explicit\""),
            (Shape { ack_wait: 10_000_000_000, ..good.clone() }, "ack_wait is 10s, and the option ack_wait says 30s"),
            (Shape { backoff: vec![1_000_000_000], ..good.clone() }, "backoff"),
            (Shape { max_deliver: 5, ..good.clone() }, "more than 5 times"),
            (Shape { headers_only: true, ..good.clone() }, "headers without payloads"),
            (Shape { priority_groups: vec!["g".into()], ..good.clone() }, "priority groups"),
        ] {
            let differences = bad.differences(&reading);
            assert!(differences.len() == 1 && differences[0].contains(told), "{differences:?}");
        }
        for same in [
            Shape { max_deliver: 0, ..good.clone() },
            Shape { max_ack_pending: 7, deliver_policy: "new".into(), ..good.clone() },
        ] {
            assert!(same.differences(&reading).is_empty(), "{same:?}");
        }
    }

    #[test]
    fn a_filter_is_the_same_however_it_is_written() {
        let (stream, two) = (["orders.>".to_owned()], ["b".to_owned(), "a".to_owned()]);
        let filtered = |one: &str, several: &[&str]| Shape {
            filter_subject: one.to_owned(),
            filter_subjects: several.iter().map(|text| (*text).to_owned()).collect(),
            ..Shape::default()
        };
        for (found, from) in [
            (filtered("", &[]), &["orders.>"][..]),
            (filtered("", &[]), &[">"]),
            (filtered("orders.>", &[]), &[">"]),
            (filtered("orders.a", &[]), &["orders.a"]),
            (filtered("", &["orders.b", "orders.a"]), &["orders.a", "orders.b"]),
            (filtered("", &["orders.a"]), &["orders.a"]),
        ] {
            assert!(found.reads_the_same(&reading(from), &stream), "{found:?} {from:?}");
        }
        assert!(filtered("", &[]).reads_the_same(&reading(&["a", "b"]), &two));
        for (found, from) in [
            (filtered("", &[]), &["orders.a"][..]),
            (filtered("orders.a", &[]), &["orders.>"]),
            (filtered("orders.a", &[]), &["orders.b"]),
            (filtered("", &["orders.a", "orders.b"]), &["orders.a"]),
        ] {
            assert!(!found.reads_the_same(&reading(from), &stream), "{found:?} {from:?}");
        }
    }
}
