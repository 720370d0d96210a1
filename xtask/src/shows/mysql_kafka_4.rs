//! How fast MariaDB and Kafka are.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "mysql-kafka.4",
    says: "MariaDB to Kafka drains at 60% of what the same drivers do without a relay or more; latency at 1,000 messages a \
           second; the application's transactions with and without a relay beside them",
    steps: &[Step::Measured {
        does: "drain rates beside their limits, latency, the application's own transactions",
        words: &["xtask", "bench", "--only", "mysql-kafka"],
        prints: &[
            "MariaDB to Kafka, 10,000 keys",
            "PostgreSQL to Kafka, 10,000 keys",
            "ratio at least 0.6: kept",
            "1,000/s of 200 B: p99",
            "relay at work: p99",
            "lost 0, ghosts 0, order 0",
        ],
    }],
};
