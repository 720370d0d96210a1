//! The seeds' example: MySQL to Kafka and HTTP, written by six languages, read back by strangers.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "mysql-kafka.2",
    says: "orders on MariaDB by six languages reach Kafka and an HTTP endpoint; kcat and KafkaJS read them back",
    steps: &[
        Step::Cargo {
            does: "the relay, built as the example's README says",
            words: &["build", "--release", "-p", "postrider-cli", "--features", "mysql,kafka"],
            prints: &[],
        },
        Step::Tests {
            does: "the walk of the example's README, block by block; what arrived, by kcat, KafkaJS and billing",
            package: "mysql-kafka",
            target: "walk",
            filter: "the_readme_does_what_it_says_and_strangers_read_every_message",
        },
        Step::Tests {
            does: "Python, Node, PHP, Java and Go write, and leave nothing where they fail",
            package: "mysql-kafka",
            target: "clients",
            filter: "",
        },
        Step::Tests {
            does: "go-outbox's own table is taken over: once, in order, with its ids, killed in the middle",
            package: "mysql-kafka",
            target: "from_go_outbox",
            filter: "",
        },
    ],
};
