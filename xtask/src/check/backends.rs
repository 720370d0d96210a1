//! What a backend costs outside its own folder: the files of the product that name it, each of which `xtask/backends.toml`
//! must know.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Scene, Verdict, verdict};
use crate::Result;
use crate::test::matches;
use crate::tree::Tree;

const LIST: &str = "xtask/backends.toml";
/// What an application runs: the crates on the floors.
const PRODUCT: [&str; 7] = [
    "Cargo.toml",
    "crates/postrider-core/*",
    "crates/postrider-stores/*",
    "crates/postrider-brokers/*",
    "crates/postrider-relay/*",
    "crates/postrider/*",
    "crates/postrider-cli/*",
];
/// The adapters of the SDK for drivers, and their tests.
const DRIVERS: [&str; 3] =
    ["crates/postrider/src/driver/*", "crates/postrider/src/testing/driver/*", "crates/postrider/tests/*"];
const TESTS: [&str; 1] = ["crates/*/tests/*"];
const DOCS: [&str; 3] = ["README.md", "ARCHITECTURE.md", "docs/*.md"];
/// Made from reports, which name what was measured.
const MADE: [&str; 2] = ["docs/reliability.md", "docs/performance.md"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    backend: Vec<Backend>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    name: String,
    words: Vec<String>,
    folder: Vec<String>,
    mentions: Vec<String>,
    touched: BTreeMap<String, String>,
}

/// The files that name a backend.
#[derive(Debug, Default)]
struct Price {
    code: Vec<String>,
    tests: Vec<String>,
    docs: Vec<String>,
    /// What would stand as it is without it.
    mentioned: Vec<String>,
    own: usize,
}

pub fn step(scene: &Scene<'_>) -> Result<Verdict> {
    let (said, findings) = prices(scene.tree)?;
    Ok(verdict(&findings, said.lines().next().unwrap_or_default().to_owned()))
}

/// The price of every backend, its sum first, and what the list does not know.
pub fn prices(tree: &Tree) -> Result<(String, Vec<String>)> {
    let text = std::fs::read_to_string(tree.root.join(LIST))?;
    let list: List = toml::from_str(&text).map_err(|error| format!("{LIST}: {error}"))?;
    let files = named(tree)?;
    let (mut sums, mut said, mut findings) = (Vec::new(), String::new(), Vec::new());
    for backend in &list.backend {
        let price = price(backend, &files);
        sums.push(format!("{} {}", backend.name, backend.touched.len()));
        said += &format!(
            "\n{}: {} files of its own; {} touched, {} tests above it, {} pages\n",
            backend.name,
            price.own,
            price.code.len(),
            price.tests.len(),
            price.docs.len()
        );
        for file in &price.code {
            let why = backend.touched.get(file).map_or("NOT KNOWN", String::as_str);
            said += &format!("  {file}: {why}\n");
        }
        for file in price.tests.iter().chain(&price.docs) {
            said += &format!("  {file}\n");
        }
        findings.extend(judge(backend, &price));
    }
    Ok((format!("files touched outside a backend's folder: {}\n{said}", sums.join(", ")), findings))
}

/// Every file that may name a backend, with its text in lower case.
fn named(tree: &Tree) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for file in tree.files()? {
        let name = file.to_string_lossy().into_owned();
        let wanted = fits(&PRODUCT, &name) || fits(&DOCS, &name);
        if !wanted || fits(&DRIVERS, &name) || fits(&MADE, &name) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(tree.root.join(Path::new(&name))) else { continue };
        files.push((name, text.to_lowercase()));
    }
    Ok(files)
}

fn price(backend: &Backend, files: &[(String, String)]) -> Price {
    let mut price = Price::default();
    for (file, text) in files {
        if fits(&backend.folder, file) {
            price.own += 1;
            continue;
        }
        let is_named = backend.words.iter().any(|word| text.contains(word));
        if !is_named {
            continue;
        }
        let kind = if fits(&backend.mentions, file) {
            &mut price.mentioned
        } else if fits(&DOCS, file) {
            &mut price.docs
        } else if fits(&TESTS, file) {
            &mut price.tests
        } else {
            &mut price.code
        };
        kind.push(file.clone());
    }
    price
}

fn judge(backend: &Backend, price: &Price) -> Vec<String> {
    let name = &backend.name;
    let mut findings = Vec::new();
    for file in price.code.iter().filter(|file| !backend.touched.contains_key(*file)) {
        findings.push(format!("{name}: {file} names it; keep it in its folder, or say in {LIST} why it cannot be"));
    }
    for file in backend.touched.keys().filter(|file| !price.code.contains(file)) {
        findings.push(format!("{name}: {file} does not name it any more; take it out of {LIST}"));
    }
    let is_gone = |pattern: &&String| !price.mentioned.iter().any(|file| matches(pattern, file));
    for pattern in backend.mentions.iter().filter(is_gone) {
        findings.push(format!("{name}: {pattern} does not mention it any more; take it out of {LIST}"));
    }
    if price.own == 0 {
        findings.push(format!("{name}: it has no folder"));
    }
    findings
}

fn fits<P: AsRef<str>>(patterns: &[P], file: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend() -> Backend {
        Backend {
            name: "Pigeon".to_owned(),
            words: vec!["pigeon".to_owned()],
            folder: vec!["crates/postrider-brokers/src/pigeon/*".to_owned()],
            mentions: vec!["crates/postrider-core/src/words.rs".to_owned()],
            touched: BTreeMap::from([("Cargo.toml".to_owned(), "its cage".to_owned())]),
        }
    }

    fn judged(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let backend = backend();
        judge(&backend, &price(&backend, &files))
    }

    const OWN: (&str, &str) = ("crates/postrider-brokers/src/pigeon/mod.rs", "pigeon");

    #[test]
    fn a_file_more_that_names_a_backend_is_found() {
        let known = [OWN, ("Cargo.toml", "pigeon"), ("crates/postrider-core/src/words.rs", "pigeon")];
        assert_eq!(judged(&known), [""; 0]);
        let more = [known.to_vec(), vec![("crates/postrider-relay/src/hands.rs", "if pigeon")]].concat();
        assert!(judged(&more)[0].contains("hands.rs names it"), "{:?}", judged(&more));
        let proof = [known.to_vec(), vec![("docs/a.md", "pigeon"), ("crates/postrider-cli/tests/x.rs", "pigeon")]];
        assert_eq!(judged(&proof.concat()), [""; 0], "pages and tests are counted apart");
    }

    #[test]
    fn a_line_of_the_list_that_is_not_true_any_more_is_found() {
        let mention = ("crates/postrider-core/src/words.rs", "pigeon");
        assert!(judged(&[OWN, mention, ("Cargo.toml", "dove")])[0].contains("does not name it any more"));
        assert!(judged(&[mention, ("Cargo.toml", "pigeon")])[0].contains("no folder"));
        assert!(judged(&[OWN, ("Cargo.toml", "pigeon")])[0].contains("words.rs does not mention it any more"));
    }

    #[test]
    fn kafka_and_mysql_cost_what_the_list_says() {
        let (said, findings) = prices(&Tree::find().unwrap()).unwrap();
        assert_eq!(findings, [""; 0], "{said}");
        assert!(said.contains("Kafka") && said.contains("MySQL"), "{said}");
    }
}
