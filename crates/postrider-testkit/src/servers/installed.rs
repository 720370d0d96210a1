//! What a test does where a server is not installed, and where one is that does not start.

use super::process::ServerError;

/// The server; none where its program is not on this machine, and then it says what was not run, which the runner counts.
///
/// # Panics
/// When the program is there and did not start: what cannot be tested then was not left out, it failed.
pub fn installed<T>(what: &str, started: Result<T, ServerError>) -> Option<T> {
    match started {
        Ok(server) => Some(server),
        Err(missing @ ServerError::NotInstalled { .. }) => {
            println!("NOT RUN: {what}: {missing}");
            None
        }
        Err(failed) => panic!("{what}: {failed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_left_out_and_what_is_there_is_used() {
        let missing = ServerError::NotInstalled { program: "x".to_owned(), package: "x" };
        assert_eq!(installed::<u8>("a sample", Err(missing)), None);
        assert_eq!(installed("a sample", Ok(1)), Some(1));
    }

    #[test]
    #[should_panic(expected = "a sample: starting it failed")]
    fn what_is_there_and_does_not_start_fails_its_test() {
        installed::<u8>("a sample", Err(ServerError::failed("starting it", "no space")));
    }
}
