//! `postrider completions`: for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples, each for one user; a new shell has them:
  postrider completions bash > ~/.local/share/bash-completion/completions/postrider
  postrider completions fish > ~/.config/fish/completions/postrider.fish
  postrider completions zsh  > ~/.zfunc/_postrider     # with `fpath+=~/.zfunc` before compinit in ~/.zshrc";

/// Prints the completions of a shell.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub(crate) fn run(&self) -> Outcome<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "postrider", &mut script);
        output::print(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Exit::Good)
    }
}
