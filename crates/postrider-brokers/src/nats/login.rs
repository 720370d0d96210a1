//! How the relay proves to NATS who it is.

use std::fmt;

use async_nats::ConnectOptions;
use nkeys::{KeyPair, KeyPairType};
use postrider_core::{Error, ErrorKind, Result, Secret};

use crate::options::Options;

/// One way to log in.
#[derive(Debug, Clone)]
pub(super) enum Login {
    /// None: the server asks nobody.
    Nobody,
    /// A token.
    Token(Secret),
    /// A user and a password.
    User(String, Secret),
    /// The seed of a user's nkey: the server sends a challenge, and the seed never leaves the process.
    Nkey(Secret),
    /// The text of a creds file: a user's JWT and the seed of its nkey.
    Creds(Secret),
}

impl fmt::Display for Login {
    /// The options that it is made of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "none",
            Self::Token(_) => "token",
            Self::User(..) => "user and password",
            Self::Nkey(_) => "nkey_seed",
            Self::Creds(_) => "creds",
        })
    }
}

impl Login {
    /// Reads the options beside what stands in the URL.
    ///
    /// # Errors
    /// `Config` for more than one way to log in, for a password without a user, and for a seed or creds that are none.
    pub(super) fn parse(options: &Options<'_>, in_url: Self) -> Result<Self> {
        let user = match (options.text("user")?, options.secret("password")?) {
            (None, None) => None,
            (Some(user), password) => Some(Self::User(user, password.unwrap_or_else(|| Secret::new("")))),
            (None, Some(_)) => return Err(options.wrong("password", "the option user beside it")),
        };
        let token = options.secret("token")?.map(Self::Token);
        let nkey = options.secret("nkey_seed")?.map(Self::Nkey);
        // The client finds no seed before the end of its last line.
        let creds = options.secret("creds")?.map(|text| Self::Creds(Secret::new(format!("{}\n", text.reveal()))));
        let given: Vec<Self> = [user, token, nkey, creds].into_iter().flatten().collect();
        let login = match (given.as_slice(), in_url) {
            ([], in_url) => in_url,
            ([one], Self::Nobody) => one.clone(),
            (several, in_url) => {
                let mut names: Vec<String> = several.iter().map(ToString::to_string).collect();
                if !matches!(in_url, Self::Nobody) {
                    names.push(format!("{in_url} in the URL"));
                }
                let expected = format!("one way to log in, and there are {}: keep one of them", names.join(", "));
                return Err(options.wrong(first_option(several), &expected));
            }
        };
        login.validate(options)?;
        Ok(login)
    }

    /// What the client would only find out when it connects, and then say to nobody.
    fn validate(&self, options: &Options<'_>) -> Result<()> {
        match self {
            Self::Nkey(seed) => match KeyPair::from_seed(seed.reveal()) {
                Ok(pair) if matches!(pair.key_pair_type(), KeyPairType::User) => Ok(()),
                Ok(_) => Err(options
                    .wrong("nkey_seed", "the seed of a user, which begins with SU; this one is of something else")),
                // The cause would tell about the text.
                Err(_) => {
                    Err(options.wrong("nkey_seed", "the seed of a user's nkey, which begins with SU, and nothing else"))
                }
            },
            Self::Creds(text) => ConnectOptions::new().credentials(text.reveal()).map(drop).map_err(|_| {
                options.wrong("creds", "a creds file: a user's JWT and its seed, each between its two lines of dashes")
            }),
            Self::Nobody | Self::Token(_) | Self::User(..) => Ok(()),
        }
    }

    /// The same for the client.
    ///
    /// # Errors
    /// `Config` for creds that are none, which [`parse`](Self::parse) refused before.
    pub(super) fn tell(&self, options: ConnectOptions) -> Result<ConnectOptions> {
        Ok(match self {
            Self::Nobody => options,
            Self::Token(token) => options.token(token.reveal().to_owned()),
            Self::User(user, password) => options.user_and_password(user.clone(), password.reveal().to_owned()),
            Self::Nkey(seed) => options.nkey(seed.reveal().to_owned()),
            Self::Creds(text) => options
                .credentials(text.reveal())
                .map_err(|_| Error::new(ErrorKind::Config, "the creds of the NATS broker are not valid"))?,
        })
    }
}

/// The option that the error is about: the first of those that were given.
fn first_option(given: &[Login]) -> &'static str {
    match given.first() {
        Some(Login::Token(_)) => "token",
        Some(Login::Nkey(_)) => "nkey_seed",
        Some(Login::Creds(_)) => "creds",
        Some(Login::User(..) | Login::Nobody) | None => "user",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    fn parse(config: &BrokerConfig, in_url: Login) -> Result<Login> {
        Login::parse(&Options::new(config), in_url)
    }

    fn at() -> BrokerConfig {
        BrokerConfig::new("nats://host")
    }

    #[test]
    fn one_way_to_log_in_is_taken_and_two_are_refused_by_their_names() {
        let seed = KeyPair::new_user().seed().unwrap();
        assert!(matches!(parse(&at(), Login::Nobody), Ok(Login::Nobody)));
        assert!(matches!(parse(&at().option("user", "u"), Login::Nobody), Ok(Login::User(user, _)) if user == "u"));
        let nkey = at().option("nkey_seed", seed.clone());
        assert!(matches!(parse(&nkey, Login::Nobody), Ok(Login::Nkey(found)) if found.reveal() == seed));
        let in_url = || Login::Token(Secret::new("canary"));
        for (config, in_url, named) in [
            (nkey.clone().option("token", "canary"), Login::Nobody, "token, nkey_seed"),
            (nkey.clone().option("creds", "canary"), Login::Nobody, "nkey_seed, creds"),
            (nkey.clone(), in_url(), "nkey_seed, token in the URL"),
            (at().option("user", "canary").option("token", "canary"), Login::Nobody, "user and password, token"),
        ] {
            let error = parse(&config, in_url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let text = error.to_string();
            assert!(text.contains(&format!("there are {named}: keep one")) && !text.contains("canary"), "{text}");
            assert!(!text.contains(&seed), "{text}");
        }
        let alone = parse(&at().option("password", "canary"), Login::Nobody).unwrap_err().to_string();
        assert!(alone.contains("the option user") && !alone.contains("canary"), "{alone}");
    }

    #[test]
    fn a_seed_or_creds_that_are_none_are_refused_without_being_shown() {
        let account = KeyPair::new_account().seed().unwrap();
        for (option, value, expected) in [
            ("nkey_seed", "SUcanary".to_owned(), "begins with SU, and nothing else"),
            ("nkey_seed", account.clone(), "this one is of something else"),
            ("creds", "canary".to_owned(), "between its two lines of dashes"),
        ] {
            let text = parse(&at().option(option, value.clone()), Login::Nobody).unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains(option) && !text.contains(&value), "{text}");
        }
    }

    #[test]
    fn no_way_to_log_in_shows_its_secret() {
        for login in [Login::Nkey(Secret::new("canary")), Login::Creds(Secret::new("canary"))] {
            assert!(!format!("{login:?} {login}").contains("canary"));
        }
    }
}
