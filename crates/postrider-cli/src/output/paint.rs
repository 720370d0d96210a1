//! Colours: only on a terminal, and not where `NO_COLOR` is set.

use std::io::IsTerminal;

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Well.
    Green,
    /// To be looked at.
    Yellow,
    /// Bad.
    Red,
}

/// Whether colours may be used at all.
pub(crate) fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The text in a colour, if standard output is a terminal.
pub(crate) fn paint(colour: Colour, text: &str) -> String {
    if !std::io::stdout().is_terminal() || !wanted() {
        return text.to_owned();
    }
    let code = match colour {
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Red => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
