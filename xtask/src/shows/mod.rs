//! `cargo xtask show NAME.N`: what the product is seen to do, step by step.
//!
//! One file per show. A step whose command, test or file is not there yet says "not built yet" and is a failure: a
//! show is never green for what it did not do.

mod duplicates;
mod fire_0;
mod fire_1;
mod fire_2;
mod fire_3;
mod fire_4;
mod fire_5;
mod fire_6;
mod fire_7;
mod main_0;
mod main_1;
mod main_2;
mod main_3;
mod main_4;
mod main_5;
mod main_6;
mod main_7;
mod main_8;
mod mysql_kafka_0;
mod mysql_kafka_1;
mod mysql_kafka_2;
mod mysql_kafka_3;
mod mysql_kafka_4;
mod mysql_kafka_5;
mod mysql_kafka_6;
mod receiving_0;
mod receiving_1;
mod receiving_2;
mod receiving_3;
mod receiving_4;
mod receiving_5;
mod receiving_6;
mod step;
mod ways;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use step::{Scene, Seen, Step};

use crate::process::seconds;
use crate::tree::Tree;
use crate::{Result, circumstances, table};

/// One show.
struct Show {
    name: &'static str,
    says: &'static str,
    steps: &'static [Step],
}

const SHOWS: &[&Show] = &[
    &main_0::SHOW,
    &main_1::SHOW,
    &main_2::SHOW,
    &main_3::SHOW,
    &main_4::SHOW,
    &main_5::SHOW,
    &main_6::SHOW,
    &main_7::SHOW,
    &main_8::SHOW,
    &fire_0::SHOW,
    &fire_1::SHOW,
    &fire_2::SHOW,
    &fire_3::SHOW,
    &fire_4::SHOW,
    &fire_5::SHOW,
    &fire_6::SHOW,
    &fire_7::SHOW,
    &mysql_kafka_0::SHOW,
    &mysql_kafka_1::SHOW,
    &mysql_kafka_2::SHOW,
    &mysql_kafka_3::SHOW,
    &mysql_kafka_4::SHOW,
    &mysql_kafka_5::SHOW,
    &mysql_kafka_6::SHOW,
    &receiving_0::SHOW,
    &receiving_1::SHOW,
    &receiving_2::SHOW,
    &receiving_3::SHOW,
    &receiving_4::SHOW,
    &receiving_5::SHOW,
    &receiving_6::SHOW,
];

/// What a step showed, and how long it took.
struct Taken {
    step: &'static Step,
    seen: Seen,
    took: Duration,
}

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let report = arguments.iter().any(|word| word == "--report");
    let names: Vec<&String> = arguments.iter().filter(|word| *word != "--report").collect();
    let mut shows = Vec::new();
    for name in &names {
        let Some(show) = SHOWS.iter().find(|show| show.name == name.as_str()) else {
            eprintln!("there is no show {name:?}; `cargo xtask show` lists them");
            return Ok(ExitCode::from(2));
        };
        shows.push(*show);
    }
    if shows.is_empty() {
        for show in SHOWS {
            println!("{:<14} {}", show.name, show.says);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut taken, mut failed) = (Vec::new(), 0);
    for show in shows {
        let scene = Scene { tree, logs: tree.fresh_folder(show.name)?, report };
        failed += one(show, &scene, &mut taken)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one of them, but for what was seen already, and says how many of its steps failed.
fn one(show: &Show, scene: &Scene<'_>, taken: &mut Vec<Taken>) -> Result<usize> {
    println!("{}: {}\n", show.name, show.says);
    let tree = scene.tree;
    let mut written = format!("# Show {}\n\n{}\n\n{}\n", show.name, show.says, circumstances(tree, show.name)?);
    let (mut rows, mut failed) = (Vec::new(), 0);
    for step in show.steps {
        println!("== {}", step.does());
        let place = match taken.iter().position(|earlier| earlier.step.is_the_command_of(step)) {
            Some(place) => {
                println!("seen above");
                place
            }
            None => {
                let started = Instant::now();
                let seen = step.run(scene).unwrap_or_else(|error| Seen::wrong(error.to_string()));
                println!("{}", seen.said.trim_end());
                taken.push(Taken { step, seen, took: started.elapsed() });
                taken.len() - 1
            }
        };
        let (seen, took) = (&taken[place].seen, seconds(taken[place].took));
        println!("-- {} ({took})\n", seen.word());
        failed += usize::from(!seen.well);
        rows.push(vec![step.does().to_owned(), seen.word().to_owned(), took]);
        write!(written, "\n## {}\n\n{}\n\n```text\n{}\n```\n", step.does(), seen.word(), seen.said.trim_end())?;
    }
    let drawn = table::draw(&["step", "result", "time"], &rows);
    print!("{drawn}");
    write!(written, "\n## Result\n\n```text\n{drawn}```\n")?;
    if scene.report {
        let folder = tree.root.join("docs/reports");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{}.md", show.name)), anywhere(tree, &written))?;
    }
    Ok(failed)
}

/// The text without the folders of this machine.
fn anywhere(tree: &Tree, text: &str) -> String {
    let folders = [(&tree.target, "target"), (&tree.root, "postrider")];
    folders.iter().fold(text.to_owned(), |text, (folder, name)| text.replace(&*folder.to_string_lossy(), name))
}

/// The commit, the build, the machine, and how to see it again.
fn circumstances(tree: &Tree, name: &str) -> Result<String> {
    let (commit, machine) = (circumstances::dated(tree)?, circumstances::machine());
    Ok(format!("{commit}, release build; {machine}. Repeat it with `cargo xtask show {name}`."))
}
