//! What a server's client is told beside the URL: its password, and how long a statement may take.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result, Secret};

/// The settings `password`, `password-file` and `timeout-seconds` of a store, as far as they are given.
pub(crate) struct Login {
    /// The password, which counts more than the URL's.
    pub(crate) password: Option<Secret>,
    /// The time limit of one statement.
    pub(crate) timeout: Option<Duration>,
}

impl Login {
    /// Reads them from the settings of the store of this name.
    ///
    /// # Errors
    /// `Config` when the file cannot be read, or the time is none.
    pub(crate) fn read(settings: &BTreeMap<String, String>, store: &str) -> Result<Self> {
        let mut password = settings.get("password").map(|password| Secret::new(password.clone()));
        if let Some(path) = settings.get("password-file") {
            let text = std::fs::read_to_string(Path::new(path))
                .map_err(|error| refused(store, "password-file", "the file cannot be read").because(error))?;
            password = Some(Secret::new(text.trim_end_matches(['\r', '\n'])));
        }
        let timeout = settings.get("timeout-seconds").map(|seconds| {
            let seconds = seconds.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
            let seconds =
                seconds.ok_or_else(|| refused(store, "timeout-seconds", "expected a number from 1 to 3600"))?;
            Ok(Duration::from_secs(seconds))
        });
        Ok(Self { password, timeout: timeout.transpose()? })
    }
}

/// A setting of the store of this name that cannot be read.
pub(crate) fn refused(store: &str, setting: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the setting {setting:?} of the {store} store: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Login> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Login::read(&settings, "sample")
    }

    #[test]
    fn what_is_not_given_is_left_to_the_url() {
        let login = read(&[]).unwrap();
        assert!(login.password.is_none() && login.timeout.is_none());
    }

    #[test]
    fn a_time_limit_is_a_number_of_seconds_up_to_an_hour() {
        assert_eq!(read(&[("timeout-seconds", "3600")]).unwrap().timeout, Some(Duration::from_secs(3600)));
        for bad in ["0", "3601", "-1", "1s", ""] {
            let error = read(&[("timeout-seconds", bad)]).err().unwrap();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains("sample store"), "{error}");
        }
    }

    #[test]
    fn the_file_counts_more_than_the_text_and_its_end_of_line_is_none_of_the_password() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a b\r\n").unwrap();
        let path = file.path().to_str().unwrap();
        let login = read(&[("password", "other"), ("password-file", path)]).unwrap();
        assert_eq!(login.password.unwrap().reveal(), "a b");
        assert!(read(&[("password-file", "/nowhere/at/all")]).is_err());
    }
}
