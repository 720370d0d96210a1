//! A fresh clone, and nothing but Rust and Debian.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::process::{run, seconds};
use crate::tree::Tree;

const FIRST_PICTURE: Duration = Duration::from_secs(5 * 60);
const TESTS: Duration = Duration::from_secs(25 * 60);

pub const SHOW: Show = Show {
    name: "main.1",
    says: "on a fresh clone: the demo within five minutes, the tests within twenty-five, and a plain user is told what to install",
    steps: &[
        Step::Look { does: "clone, and fetch the dependencies", look: clone },
        Step::Look { does: "cargo run --release -- demo, built from nothing", look: demo },
        Step::Look { does: "cargo xtask test --install, built from nothing", look: tests },
        Step::Look { does: "a plain user is told what to install", look: plain_user },
    ],
};

fn folder(scene: &Scene<'_>) -> PathBuf {
    scene.tree.target.join("shows/clone")
}

/// Cargo in the clone, building in the clone.
fn cargo(scene: &Scene<'_>) -> Command {
    let folder = folder(scene);
    let mut command = Tree { target: folder.join("target"), root: folder.clone() }.cargo();
    command.env("CARGO_TARGET_DIR", folder.join("target"));
    command
}

fn clone(scene: &Scene<'_>) -> Result<Seen> {
    let folder = folder(scene);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut command = Command::new("git");
    command.args(["clone", "--quiet"]).arg(&scene.tree.root).arg(&folder);
    let ran = run(&mut command, &scene.logs.join("clone"), Duration::from_secs(120))?;
    if !ran.succeeded() {
        return Ok(Seen::wrong(ran.said()));
    }
    let ran = run(cargo(scene).args(["fetch", "--locked"]), &scene.logs.join("fetch"), Duration::from_secs(1800))?;
    Ok(if ran.succeeded() { Seen::well(format!("fetched in {}", seconds(ran.took))) } else { Seen::wrong(ran.said()) })
}

fn demo(scene: &Scene<'_>) -> Result<Seen> {
    let started = Instant::now();
    let mut command = cargo(scene);
    command.args(["run", "--release", "--quiet", "--", "demo"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn()?;
    let out = child.stdout.take().ok_or("the demo has no output")?;
    let (mut first, mut said) = (None, String::new());
    for line in BufReader::new(out).lines() {
        let line = line?;
        first.get_or_insert_with(|| started.elapsed());
        said.push_str(&line);
        said.push('\n');
    }
    let status = child.wait()?;
    let Some(first) = first else {
        return Ok(Seen::not_built(format!("it printed nothing ({status})")));
    };
    said += &format!("first picture after {}, the end after {}\n", seconds(first), seconds(started.elapsed()));
    Ok(if !status.success() || first > FIRST_PICTURE || !said.to_lowercase().contains("verdict") {
        Seen::wrong(format!(
            "{said}{status}; a verdict and a first picture within {} are promised",
            seconds(FIRST_PICTURE)
        ))
    } else {
        Seen::well(said)
    })
}

fn tests(scene: &Scene<'_>) -> Result<Seen> {
    let ran = run(cargo(scene).args(["xtask", "test", "--install"]), &scene.logs.join("tests"), TESTS * 2)?;
    let said = format!("{}\n{} in {}", ran.said(), ran.ending(), seconds(ran.took));
    Ok(if ran.succeeded() && ran.took <= TESTS { Seen::well(said) } else { Seen::wrong(said) })
}

/// As nobody, who may not install, on a machine where nothing is installed.
fn plain_user(scene: &Scene<'_>) -> Result<Seen> {
    let place = std::env::temp_dir().join(format!("postrider-show-{}", std::process::id()));
    let (program, folder) = (place.join("xtask"), place.join("xtask-manifest"));
    fs::create_dir_all(&folder)?;
    let built = scene.tree.target.join("debug/xtask");
    fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
    let open = |path: &PathBuf| fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    open(&place)?;
    open(&program)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    command.args(["servers", "--install", "--pretend-missing"]).current_dir("/");
    let ran = run(&mut command, &scene.logs.join("plain-user"), Duration::from_secs(60));
    fs::remove_dir_all(&place)?;
    let ran = ran?;
    let told = ran.code == Some(3) && ran.out.contains("apt-get install");
    Ok(if told { Seen::well(ran.said()) } else { Seen::wrong(format!("{}\n{}", ran.said(), ran.ending())) })
}
