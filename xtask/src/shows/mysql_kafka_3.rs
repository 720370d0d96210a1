//! One event for two services, one of which is away.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "mysql-kafka.3",
    says: "fan-out to Kafka and HTTP with HTTP down for two minutes: Kafka's rate at least 95% of before, no message twice \
           on Kafka, HTTP catches up in order",
    steps: &[Step::Tests {
        does: "one relay, PostgreSQL to Kafka and HTTP at 1,000 messages a second: before, during and after two minutes without HTTP",
        package: "postrider-cli",
        target: "fan_out",
        filter: "kafka_is_as_fast_as_before",
    }],
};
