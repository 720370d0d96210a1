//! The crates under `examples/out-of-tree`: they stand for somebody else's repository.

use std::time::Duration;

use super::{Scene, Verdict, verdict};
use crate::Result;
use crate::process::{run, tail};

pub fn step(scene: &Scene<'_>) -> Result<Verdict> {
    let manifests = scene.tree.samples()?;
    if manifests.is_empty() {
        return Ok(Verdict::Failed("no sample stands under examples/out-of-tree".to_owned()));
    }
    let mut findings = Vec::new();
    for manifest in &manifests {
        let name = manifest.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
        let mut command = scene.tree.cargo();
        command.args(["test", "--quiet", "--manifest-path"]).arg(scene.tree.root.join(manifest));
        command.env("CARGO_TARGET_DIR", &scene.tree.target);
        let log = scene.logs.join(format!("sample-{}", name.display()));
        let ran = run(&mut command, &log, Duration::from_secs(15 * 60))?;
        if !ran.succeeded() {
            findings.push(format!("{}: {}\n{}", manifest.display(), ran.ending(), tail(&ran.said(), 60)));
        } else if !ran.out.contains(" passed;")
            || ran.out.lines().all(|line| !line.contains("ok. ") || line.contains("ok. 0 passed"))
        {
            findings.push(format!("{}: it has no test", manifest.display()));
        }
    }
    Ok(verdict(&findings, format!("{} crates outside the workspace", manifests.len())))
}
