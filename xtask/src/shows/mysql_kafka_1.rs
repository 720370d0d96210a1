//! Torture of MariaDB and Kafka.

use super::Show;
use super::step::Step;

/// A quarter of an hour with every fault that fits the pair.
const fn torture(does: &'static str, words: &'static [&'static str]) -> Step {
    Step::Measured { does, words, prints: &["verdict: Pass"] }
}

pub const SHOW: Show = Show {
    name: "mysql-kafka.1",
    says: "fifteen minutes of faults each from MariaDB to NATS and Kafka and from PostgreSQL to Kafka, and with a Kafka of three \
           nodes of which one after the other is killed: nothing lost, no ghost, order kept, every repeat explained",
    steps: &[
        torture(
            "MariaDB to NATS",
            &["xtask", "torture", "--seed", "21", "--minutes", "15", "--store", "mariadb", "--broker", "nats"],
        ),
        torture(
            "MariaDB to Kafka",
            &["xtask", "torture", "--seed", "22", "--minutes", "15", "--store", "mariadb", "--broker", "kafka"],
        ),
        torture(
            "PostgreSQL to Kafka",
            &["xtask", "torture", "--seed", "23", "--minutes", "15", "--store", "postgres", "--broker", "kafka"],
        ),
        torture(
            "MariaDB to a Kafka of three nodes, two of which must have a message, one killed and restarted in turn",
            &["xtask", "torture", "--seed", "24", "--minutes", "15", "--store", "mariadb", "--broker", "kafka3"],
        ),
    ],
};
