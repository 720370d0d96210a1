//! What an inbox is asked, in the words of each database.

use postrider_core::receiving::Advance;
#[cfg(feature = "_mysql")]
use postrider_stores::mysql;
#[cfg(feature = "_postgres")]
use postrider_stores::postgres;
use postrider_stores::received::{Advanced, Claim, Claimed, Forget, Forgotten, Place, Refused};
#[cfg(feature = "_sqlite")]
use postrider_stores::sqlite;

#[cfg(any(feature = "_postgres", feature = "_mysql", feature = "_sqlite"))]
use postrider_stores::dialog::Turn;

use crate::inbox::{InboxError, Seen};

/// A question to an inbox, and what its outcome means to the caller.
///
/// Nobody else's type: that is what seals [`Receive`](crate::Receive).
pub trait Question: Send + 'static {
    /// What the dialog ends with.
    type Outcome: Send + 'static;
    /// What the caller is told.
    type Answer: Send + 'static;

    #[cfg(feature = "_postgres")]
    fn postgres(self, names: &postgres::Names) -> Turn<Self::Outcome>;

    #[cfg(feature = "_mysql")]
    fn mysql(self, names: &mysql::Names) -> Turn<Self::Outcome>;

    #[cfg(feature = "_sqlite")]
    fn sqlite(self, prefix: &str) -> Turn<Self::Outcome>;

    fn answer(outcome: Self::Outcome) -> Result<Self::Answer, InboxError>;
}

/// Asked by the function of this name, which each database has with the same arguments.
macro_rules! asked_by {
    ($function:ident) => {
        #[cfg(feature = "_postgres")]
        fn postgres(self, names: &postgres::Names) -> Turn<Self::Outcome> {
            postgres::inbox::$function(names, self)
        }

        #[cfg(feature = "_mysql")]
        fn mysql(self, names: &mysql::Names) -> Turn<Self::Outcome> {
            mysql::inbox::$function(names, self)
        }

        #[cfg(feature = "_sqlite")]
        fn sqlite(self, prefix: &str) -> Turn<Self::Outcome> {
            sqlite::inbox::$function(prefix, self)
        }
    };
}

impl Question for Claim {
    type Outcome = Claimed;
    type Answer = Seen;

    asked_by!(first_seen);

    fn answer(outcome: Claimed) -> Result<Seen, InboxError> {
        match outcome {
            Claimed::First => Ok(Seen::First),
            Claimed::Repeat => Ok(Seen::Repeat),
            Claimed::TooOld => Err(InboxError::TooOld),
        }
    }
}

impl Question for Place {
    type Outcome = Advanced;
    type Answer = Advance;

    asked_by!(advance);

    fn answer(outcome: Advanced) -> Result<Advance, InboxError> {
        match outcome {
            Advanced::By(advance) => Ok(advance),
            Advanced::Contended => Err(InboxError::Contended(None)),
        }
    }
}

impl Question for Refused {
    type Outcome = ();
    type Answer = ();

    asked_by!(refuse);

    fn answer((): ()) -> Result<(), InboxError> {
        Ok(())
    }
}

impl Question for Forget {
    type Outcome = Forgotten;
    type Answer = Forgotten;

    asked_by!(forget);

    fn answer(outcome: Forgotten) -> Result<Forgotten, InboxError> {
        Ok(outcome)
    }
}
