//! The commented `postrider.toml` that `init` writes, made from the table of settings.

use std::fmt::Write;

use super::keys::{KEYS, Key};

const HEAD: &str = "\
# Postrider's configuration. Flags beat variables (POSTRIDER_RETRY__MAX_ATTEMPTS=3), variables beat this file.
# What stands behind '#' is the default or an example. `postrider config show` prints what is in force, and why.
";

const BROKER: &str = "\
# Where messages go. The name is yours; further keys are the broker's own options.
[broker.out]
";

/// The file's text, with the store and the broker given, or examples for them.
pub(crate) fn text(store: Option<&str>, broker: Option<&str>) -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for key in KEYS {
        let (head, name) = placed(key.path);
        if head != section {
            section = head;
            text.push('\n');
            match head {
                "broker.*" => text.push_str(BROKER),
                "route[]" => text.push_str("# Which topics go where, one [[route]] for each destination; without any, every topic goes to the one broker.\n# [[route]]\n"),
                "retry.topic[]" => text.push_str("# Other values for some topics; the first entry that matches wins.\n# [[retry.topic]]\n"),
                head => {
                    let _ = writeln!(text, "[{head}]");
                }
            }
        }
        let _ = writeln!(text, "# {}", key.about);
        let _ = match key.path {
            "outbox.store" => writeln!(text, "store = {}", quoted(store.unwrap_or("sqlite:app.db"))),
            "broker.*.url" => writeln!(text, "url = {}", quoted(broker.unwrap_or("stdout:"))),
            _ => writeln!(text, "# {} = {}", name.replace('*', "region"), example(key)),
        };
    }
    text
}

/// The section of a setting and its name there.
fn placed(path: &str) -> (&str, &str) {
    match path.strip_prefix("route[].") {
        Some(name) => ("route[]", name),
        None => path.rsplit_once('.').unwrap_or(("", path)),
    }
}

fn example(key: &Key) -> String {
    let value = match (key.default, key.path) {
        (Some(default), _) => default,
        (None, "retry.topic[].pattern") => "orders.#",
        (None, "retry.topic[].initial") => "1s",
        (None, "retry.topic[].maximum") => "1h",
        (None, "retry.topic[].multiplier") => "3",
        (None, "retry.topic[].max_attempts") => "0",
        (None, "retry.topic[].max_age") => "1d",
        (None, "retry.topic[].on_expire") => "drop",
        (None, "retry.topic[].on_dead") => "hold",
        (None, "route[].broker" | "route[].name") => "out",
        (None, "route[].allow.key") => "customer-*",
        (None, "route[].allow.header.*") => return "[\"eu\", \"us-*\"]".to_owned(),
        (None, _) => key.example,
    };
    if key.kind.bare() { value.to_owned() } else { quoted(value) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid_toml_with_and_without_its_comments() {
        let text = text(None, Some("nats://127.0.0.1:4222"));
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["broker"]["out"]["url"].as_str(), Some("nats://127.0.0.1:4222"));
        let open: String = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest)
                    if rest.starts_with("[[") || rest.split_once(" = ").is_some_and(|(k, _)| !k.contains(' ')) =>
                {
                    rest
                }
                _ => line,
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let table: toml::Table = toml::from_str(&open).unwrap_or_else(|error| panic!("{error}\n{open}"));
        assert_eq!(table["retry"]["max_attempts"].as_integer(), Some(10));
        assert!(table["route"].is_array());
    }
}
