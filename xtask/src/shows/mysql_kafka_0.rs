//! Named rows, and breaks, with those of MySQL, Kafka and routes.

use super::Show;

pub const SHOW: Show = Show {
    name: "mysql-kafka.0",
    says: "every promised sentence of MySQL, Kafka and routes has its cases too, and each promise broken on purpose turns a test red",
    steps: super::main_0::SHOW.steps,
};
