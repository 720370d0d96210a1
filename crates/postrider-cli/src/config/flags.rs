//! Flags made from the table of settings, for the verbs that take every setting.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::keys::{Flag, KEYS, flag_name};

/// The settings given as flags: path, value, name of the flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(pub(crate) Vec<(String, String, String)>);

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for key in KEYS.iter().filter(|key| key.flag == Flag::Made) {
            if let Some(value) = matches.get_one::<String>(key.path) {
                self.0.push((key.path.to_owned(), value.clone(), flag_name(key.path)));
            }
        }
        Ok(())
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().filter(|key| key.flag == Flag::Made).fold(command, |command, key| {
            let about = match key.default {
                Some(default) => format!("{} [default: {default}]", key.about),
                None => key.about.to_owned(),
            };
            command.arg(
                Arg::new(key.path)
                    .long(flag_name(key.path))
                    .value_name("VALUE")
                    .help(about)
                    .help_heading("Settings, as in postrider.toml")
                    .hide_short_help(true),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
