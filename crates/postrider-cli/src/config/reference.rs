//! The table of docs/configuration.md, made from the table of settings.

use std::fmt::Write;

use super::keys::{Flag, KEYS, Key, Kind, flag_name, variable_name};

/// The table, as Markdown.
fn table() -> String {
    let mut table = String::new();
    let mut section = "";
    for key in KEYS {
        let head = key.path.split(['.', '[']).next().unwrap_or_default();
        if head != section {
            section = head;
            let _ = write!(
                table,
                "\n### {head}\n\n| key | default | flag and variable | what it does |\n|---|---|---|---|\n"
            );
        }
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} Written as {}. |",
            key.path,
            key.default.map_or("none".to_owned(), |default| format!("`{default}`")),
            origins(key),
            key.about,
            expected(key.kind),
        );
    }
    table.push('\n');
    table
}

/// A flag and a variable, where there are some.
fn origins(key: &Key) -> String {
    let flag = match key.flag {
        Flag::Global(name) => Some(format!("`--{name}`")),
        Flag::Made => Some(format!("`--{}`", flag_name(key.path))),
        Flag::None => None,
    };
    let variable = (!key.path.contains('[')).then(|| format!("`{}`", variable_name(&key.path.replace('*', "NAME"))));
    let parts: Vec<String> = flag.into_iter().chain(variable).collect();
    if parts.is_empty() { "the file alone".to_owned() } else { parts.join("<br>") }
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Secret => "a text; never printed".to_owned(),
        Kind::Address => "an address; printed without its password".to_owned(),
        kind => kind.expected(),
    }
}

#[test]
fn the_documented_settings_are_those_of_the_code() {
    const BEGIN: &str = "<!-- made from the code: begin -->\n";
    const END: &str = "<!-- made from the code: end -->\n";
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "docs/configuration.md is behind the code: run this test with WRITE_DOCS=1");
}
