//! Where the demo is shown: a terminal, where the picture is redrawn in place below a growing list of events, or
//! anything else, where there is a line for each event and a line for each second.

use std::io::{self, IsTerminal, StdoutLock, Write};
use std::time::{Duration, Instant};

use crate::output::paint;

/// The longest time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The output of the demo. A reader that went away does not end the demo.
#[derive(Debug)]
pub(super) struct Screen {
    redraws: bool,
    drawn: usize,
    next_line: Instant,
}

impl Screen {
    /// Standard output.
    pub(super) fn new() -> Self {
        // A terminal that calls itself dumb cannot move its cursor.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { redraws: io::stdout().is_terminal() && !dumb, drawn: 0, next_line: Instant::now() }
    }

    /// Whether colours may be used.
    pub(super) fn has_colours(&self) -> bool {
        self.redraws && paint::wanted()
    }

    /// Shows the picture in the place of the one before, or the line, at most once a second.
    pub(super) fn show(&mut self, picture: impl FnOnce() -> Vec<String>, line: impl FnOnce() -> String) {
        let mut out = io::stdout().lock();
        if self.redraws {
            let picture = picture();
            // Long lines are cut by the terminal, not wrapped: a wrapped line would spoil the way back up.
            let mut text = String::from("\u{1b}[?7l");
            text.push_str(&self.back());
            picture.iter().for_each(|line| text.push_str(&format!("{line}\u{1b}[K\n")));
            text.push_str("\u{1b}[J\u{1b}[?7h");
            self.drawn = picture.len();
            put(&mut out, &text);
        } else if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LINE_EVERY;
            put(&mut out, &format!("{}\n", line()));
        }
    }

    /// Prints a line that stays, above the picture.
    pub(super) fn say(&mut self, line: &str) {
        let text = format!("{}\u{1b}[J{line}\n", self.back());
        let text = if self.redraws { text } else { format!("{line}\n") };
        self.drawn = 0;
        put(&mut io::stdout().lock(), &text);
    }

    /// Leaves the last picture where it is.
    pub(super) fn keep(&mut self) {
        self.drawn = 0;
    }

    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}F"),
        }
    }
}

fn put(out: &mut StdoutLock<'_>, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
