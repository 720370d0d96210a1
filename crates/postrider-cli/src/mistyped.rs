//! What could not be understood on the command line, in the form of every other error.

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::redact;

/// What was mistyped, with the nearest that there is, and whose help to read. None where help or the version was asked
/// for: that is no error.
pub(crate) fn failure(error: &clap::Error, typed: impl IntoIterator<Item = String>) -> Option<Failure> {
    let asked =
        [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    if asked.contains(&error.kind()) {
        return None;
    }
    // Nothing of the configuration is read yet: an address that stands where it may not is masked by its form alone.
    let what = redact::address(&told(&error.render().to_string()));
    Some(Failure::usage(what, format!("{} --help", verb(typed))))
}

/// What clap says before it comes to the usage, in one line. Who wrote `--topic` did not mean a value of that name: where
/// clap has no better tip for an unknown flag, the usage is one.
fn told(text: &str) -> String {
    const NO_TIP: &str = "tip: to pass '";
    let mut tips = text.lines().filter(|line| line.trim().starts_with("tip: "));
    let is_helped = !text.contains("unexpected argument") || tips.any(|tip| !tip.trim().starts_with(NO_TIP));
    let mut line = String::new();
    let is_end = |part: &&str| part.starts_with("For more information") || is_helped && part.starts_with("Usage:");
    let parts = text.lines().map(str::trim).take_while(|part| !is_end(part));
    for part in parts.filter(|part| !part.is_empty() && !part.starts_with(NO_TIP)) {
        line.push_str(match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        });
        line.push_str(part.strip_prefix("error: ").unwrap_or(part));
    }
    line
}

/// The command as far as it was understood.
fn verb(typed: impl IntoIterator<Item = String>) -> String {
    let (mut path, mut command) = ("postrider".to_owned(), Cli::command());
    for word in typed {
        if let Some(next) = command.find_subcommand(&word).cloned() {
            path.push(' ');
            path.push_str(next.get_name());
            command = next;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn said(typed: &[&str]) -> Option<String> {
        let words = || typed.iter().map(|word| (*word).to_owned());
        let error = Cli::try_parse_from(std::iter::once("postrider".to_owned()).chain(words())).err()?;
        Some(failure(&error, words())?.lines())
    }

    #[test]
    fn a_mistyped_command_is_one_line_that_says_what_and_one_that_says_whose_help_to_read() {
        for (typed, what, next) in [
            (&["statsu"][..], "unrecognized subcommand 'statsu'; tip: a similar subcommand exists: 'status'", ""),
            (
                &["status", "--jsno"],
                "unexpected argument '--jsno' found; tip: a similar argument exists: '--json'",
                " status",
            ),
            (&["dead", "replya"], "'replya'; tip: a similar subcommand exists: 'replay'", " dead"),
            (&["dead", "show"], "the following required arguments were not provided: <", " dead show"),
            (
                &["relay", "--log-level", "loud"],
                "invalid value 'loud' for '--log-level <LEVEL>'; [possible values: ",
                " relay",
            ),
            (&["migrate", "--print", "--check"], "the argument '--print' cannot be used with '--check'", " migrate"),
            (
                &["enqueue", "--topic", "a"],
                "unexpected argument '--topic' found; Usage: postrider enqueue [OPTIONS] [TOPIC]",
                " enqueue",
            ),
            (
                &["status", "--frobnicate"],
                "unexpected argument '--frobnicate' found; Usage: postrider status [OPTIONS]",
                " status",
            ),
            (&["dead", "replay", "--rate", "0"], "invalid value '0' for '--rate <N>'", " dead replay"),
        ] {
            let lines = said(typed).unwrap();
            assert_eq!(lines.lines().count(), 2, "{lines}");
            assert!(lines.starts_with("error: ") && lines.contains(what), "{lines}");
            assert!(lines.ends_with(&format!("next: postrider{next} --help")), "{lines}");
        }
    }

    #[test]
    fn an_address_where_it_may_not_stand_is_shown_without_its_password() {
        let lines = said(&["status", "postgres://u:can'ary@db/shop"]).unwrap();
        assert!(lines.contains("postgres://u:***@db/shop") && !lines.contains("can'ary"), "{lines}");
    }

    #[test]
    fn who_asks_for_help_or_the_version_gets_it() {
        for typed in [&["--help"][..], &["--version"], &["status", "--help"], &["help", "relay"], &[]] {
            assert_eq!(said(typed), None, "{typed:?}");
        }
    }
}
