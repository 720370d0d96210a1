//! What a new backend costs.

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::check::prices;

pub const SHOW: Show = Show {
    name: "mysql-kafka.5",
    says: "Kafka and MySQL touch few files outside their own folders, each known by name; backends of somebody else's still \
           need none",
    steps: &[
        Step::Look { does: "the files that name Kafka or MySQL outside their folders", look: counted },
        Step::Cargo {
            does: "cargo xtask check counts them, and the crates outside the workspace pass",
            words: &["xtask", "check", "backends", "samples"],
            prints: &["2 passed, 0 failed, 0 skipped"],
        },
        Step::Cargo {
            does: "a file more turns a test red",
            words: &["test", "-p", "xtask", "check::backends::"],
            prints: &[
                "a_file_more_that_names_a_backend_is_found ... ok",
                "kafka_and_mysql_cost_what_the_list_says ... ok",
            ],
        },
    ],
};

fn counted(scene: &Scene<'_>) -> Result<Seen> {
    let (said, findings) = prices(scene.tree)?;
    let said = format!("{said}\n{}", findings.join("\n"));
    Ok(if findings.is_empty() { Seen::well(said) } else { Seen::wrong(said) })
}
