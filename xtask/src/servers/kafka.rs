//! Kafka, which no Debian package has: brought by Maven's own client into a cache folder, beside no other program.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Result;

/// The version that is tested with; `crates/postrider-testkit/src/servers/kafka/mod.rs` starts the same.
const VERSION: &str = "4.3.1";
/// What the table calls it.
pub const NAME: &str = "kafka 4.3.1";
/// Another folder of Kafka's files.
const VARIABLE: &str = "POSTRIDER_KAFKA_LIBS";
/// What Maven is asked for: the server with all that it needs, and a log that goes to standard error.
const PROJECT: &str = "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
    <groupId>postrider</groupId><artifactId>kafka-for-tests</artifactId><version>1</version><packaging>pom</packaging>\
    <dependencies>\
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>VERSION</version></dependency>\
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>\
    </dependencies></project>";

/// Its main file, where it is installed.
pub fn found() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let folders = super::caches().map(|cache| cache.join(format!("kafka-{VERSION}")));
    let file = |folder: PathBuf| folder.join(format!("kafka_2.13-{VERSION}.jar"));
    named.into_iter().chain(folders).map(file).find(|file| file.is_file())
}

/// Fetches it into the cache folder.
///
/// # Errors
/// When Maven is not here, or does not get it.
pub fn bring() -> Result<()> {
    let cache = super::cache()?;
    let (folder, work) = (cache.join(format!("kafka-{VERSION}")), cache.join("kafka-being-fetched"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    fs::write(work.join("pom.xml"), PROJECT.replace("VERSION", VERSION))?;
    println!("mvn dependency:copy-dependencies (org.apache.kafka:kafka_2.13:{VERSION})");
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libraries"]);
    let status = command.current_dir(&work).stdin(Stdio::null()).status().map_err(|error| format!("mvn: {error}"))?;
    if !status.success() {
        return Err(format!("mvn dependency:copy-dependencies: {status}").into());
    }
    // Whole or not at all: a run that is killed leaves nothing that looks like a Kafka.
    let _ = fs::remove_dir_all(&folder);
    fs::rename(work.join("libraries"), &folder)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}
