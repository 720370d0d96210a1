//! What somebody builds who wants none of the heavy brokers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::process::{run, seconds};

/// On two cores.
const FIRST_BUILD: Duration = Duration::from_secs(5 * 60);
/// A heavy store and a heavy broker: the feature of each, the words that ask for it, and its address.
const HEAVY: [(&str, &[&str]); 2] = [
    ("mysql", &["status", "--store", "mysql://shop@localhost/shop"]),
    ("kafka", &["relay", "--store", "sqlite:shop.db", "--broker", "kafka://localhost:9092"]),
];

pub const SHOW: Show = Show {
    name: "mysql-kafka.6",
    says: "the default program is built within five minutes, says what is built in, and of what is not, which feature it needs",
    steps: &[
        Step::Look {
            does: "cargo build --release -p postrider-cli, from nothing but the fetched sources",
            look: build,
        },
        Step::Look { does: "postrider --version --verbose lists what is built in", look: version },
        Step::Look { does: "an address of a kind that is not built in says which feature it needs", look: addresses },
    ],
};

fn target(scene: &Scene<'_>) -> PathBuf {
    scene.tree.target.join("shows/first-build")
}

fn postrider(scene: &Scene<'_>) -> Command {
    Command::new(target(scene).join("release/postrider"))
}

fn build(scene: &Scene<'_>) -> Result<Seen> {
    let target = target(scene);
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let fetched = run(scene.tree.cargo().args(["fetch", "--locked"]), &scene.logs.join("fetch"), FIRST_BUILD * 6)?;
    if !fetched.succeeded() {
        return Ok(Seen::wrong(fetched.said()));
    }
    let mut command = scene.tree.cargo();
    command.args(["build", "--release", "--locked", "-p", "postrider-cli"]).env("CARGO_TARGET_DIR", &target);
    let ran = run(&mut command, &scene.logs.join("build"), FIRST_BUILD * 6)?;
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let said =
        format!("{} in {} on {cores} cores; {} are promised", ran.ending(), seconds(ran.took), seconds(FIRST_BUILD));
    if !ran.succeeded() {
        return Ok(Seen::wrong(format!("{}\n{said}", ran.said())));
    }
    Ok(if ran.took <= FIRST_BUILD { Seen::well(said) } else { Seen::wrong(said) })
}

fn version(scene: &Scene<'_>) -> Result<Seen> {
    let ran = run(postrider(scene).args(["--version", "--verbose"]), &scene.logs.join("version"), FIRST_BUILD)?;
    let absent = ran.out.lines().find(|line| line.starts_with("not built in")).unwrap_or_default();
    let told = ran.succeeded() && HEAVY.iter().all(|(feature, _)| absent.contains(&format!("--features {feature}")));
    Ok(if told { Seen::well(ran.said()) } else { Seen::wrong(format!("{}\n{}", ran.said(), ran.ending())) })
}

fn addresses(scene: &Scene<'_>) -> Result<Seen> {
    let (mut said, mut well) = (String::new(), true);
    for (feature, words) in HEAVY {
        let ran = run(postrider(scene).args(words), &scene.logs.join(feature), FIRST_BUILD)?;
        said += &format!("$ postrider {}\n{}{}\n", words.join(" "), ran.said(), ran.ending());
        well &= ran.code == Some(2) && ran.said().contains(&format!("--features {feature}"));
    }
    Ok(if well { Seen::well(said) } else { Seen::wrong(said) })
}
