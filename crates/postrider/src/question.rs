//! What an inbox, and the keys of requests, are asked, in the words of each database.

use postrider_core::receiving::{Advance, Begun};
use postrider_stores::keys::{Answer, Begin, Beginning, ForgetKey, ForgetKeys, Release, StoredAnswer};
#[cfg(feature = "_mysql")]
use postrider_stores::mysql;
#[cfg(feature = "_postgres")]
use postrider_stores::postgres;
use postrider_stores::received::{
    Advanced, Claim, Claimed, Forget, Forgotten, IssueToken, Place, Refused, Round, TakeToken,
};
#[cfg(feature = "_sqlite")]
use postrider_stores::sqlite;

#[cfg(any(feature = "_postgres", feature = "_mysql", feature = "_sqlite"))]
use postrider_stores::dialog::Turn;

use crate::inbox::{InboxError, Seen};

/// A question, and what its outcome means to the caller.
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

/// Asked by the function of this name and module, which each database has with the same arguments.
macro_rules! asked_by {
    ($module:ident::$function:ident) => {
        #[cfg(feature = "_postgres")]
        fn postgres(self, names: &postgres::Names) -> Turn<Self::Outcome> {
            postgres::$module::$function(names, self)
        }

        #[cfg(feature = "_mysql")]
        fn mysql(self, names: &mysql::Names) -> Turn<Self::Outcome> {
            mysql::$module::$function(names, self)
        }

        #[cfg(feature = "_sqlite")]
        fn sqlite(self, prefix: &str) -> Turn<Self::Outcome> {
            sqlite::$module::$function(prefix, self)
        }
    };
}

impl Question for Claim {
    type Outcome = Claimed;
    type Answer = Seen;

    asked_by!(inbox::first_seen);

    fn answer(outcome: Claimed) -> Result<Seen, InboxError> {
        match outcome {
            Claimed::First => Ok(Seen::First),
            Claimed::Repeat => Ok(Seen::Repeat),
            Claimed::TooOld => Err(InboxError::TooOld),
        }
    }
}

impl Question for IssueToken {
    type Outcome = ();
    type Answer = ();

    asked_by!(tokens::issue);

    fn answer((): ()) -> Result<(), InboxError> {
        Ok(())
    }
}

impl Question for TakeToken {
    type Outcome = bool;
    type Answer = Seen;

    asked_by!(tokens::take);

    fn answer(was_there: bool) -> Result<Seen, InboxError> {
        Ok(if was_there { Seen::First } else { Seen::Repeat })
    }
}

impl Question for Place {
    type Outcome = Advanced;
    type Answer = Advance;

    asked_by!(inbox::advance);

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

    asked_by!(inbox::refuse);

    fn answer((): ()) -> Result<(), InboxError> {
        Ok(())
    }
}

impl Question for Forget {
    type Outcome = Round;
    type Answer = Forgotten;

    asked_by!(inbox::forget);

    fn answer(outcome: Round) -> Result<Forgotten, InboxError> {
        match outcome {
            Round::Over(forgotten) => Ok(forgotten),
            Round::HeldUp => Err(InboxError::Contended(None)),
        }
    }
}

impl Question for Begin {
    type Outcome = Beginning;
    type Answer = Begun<StoredAnswer>;

    asked_by!(keys::begin);

    fn answer(outcome: Beginning) -> Result<Begun<StoredAnswer>, InboxError> {
        match outcome {
            Beginning::By(begun) => Ok(begun),
            Beginning::Contended => Err(InboxError::Contended(None)),
        }
    }
}

impl Question for Answer {
    type Outcome = Option<StoredAnswer>;
    type Answer = StoredAnswer;

    asked_by!(keys::answer);

    fn answer(outcome: Option<StoredAnswer>) -> Result<StoredAnswer, InboxError> {
        outcome.ok_or(InboxError::Superseded)
    }
}

/// An answer that is handed back as the response that it is.
#[cfg(feature = "http-idempotency")]
#[derive(Debug)]
pub struct Response(pub(crate) Answer);

#[cfg(feature = "http-idempotency")]
impl From<Response> for Answer {
    fn from(Response(answer): Response) -> Self {
        answer
    }
}

#[cfg(feature = "http-idempotency")]
impl Question for Response {
    type Outcome = Option<StoredAnswer>;
    type Answer = http::Response<http_body_util::Full<bytes::Bytes>>;

    asked_by!(keys::answer);

    fn answer(outcome: Option<StoredAnswer>) -> Result<Self::Answer, InboxError> {
        <Answer as Question>::answer(outcome).map(crate::idempotency::response)
    }
}

impl Question for Release {
    type Outcome = ();
    type Answer = ();

    asked_by!(keys::release);

    fn answer((): ()) -> Result<(), InboxError> {
        Ok(())
    }
}

impl Question for ForgetKey {
    type Outcome = u64;
    type Answer = u64;

    asked_by!(keys::forget_key);

    fn answer(outcome: u64) -> Result<u64, InboxError> {
        Ok(outcome)
    }
}

impl Question for ForgetKeys {
    type Outcome = Forgotten;
    type Answer = Forgotten;

    asked_by!(keys::forget);

    fn answer(outcome: Forgotten) -> Result<Forgotten, InboxError> {
        Ok(outcome)
    }
}
