//! Rules broken on purpose: each must make a promise fall, or the model proves nothing about it. And changes that look
//! wrong and are not, which must not.

use postrider_core::receiving::{Protocol, Step};

use super::invariants::{ACKNOWLEDGED, LEFT_BEHIND, ONCE, OUTPUTS, STATE, TOKENS};
use super::{Bounds, Receiver};

/// A rule of the stores, or of what is around the protocol, that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// The document is written whatever its version is.
    NoCondition,
    /// The first write of a document replaces one that somebody else made in between.
    CreateReplaces,
    /// The write that cleans up is made whatever the version is.
    BlindCleanUp,
    /// The check is answered from a copy that is behind.
    StaleCheck,
    /// A known id is forgotten while the message may still come.
    KnownIdExpires,
    /// A filter that is wrong now and then is believed when it says that a message was handled.
    FilterIsBelieved,
    /// Ids are known without the receiver that handled them.
    IdsWithoutReceiver,
    /// The version is a hash of the content, and the handler leaves the state as it was.
    VersionIsHash,
    /// Outputs get new ids when they are sent again.
    FreshIdsOnResume,
    /// The id of a token follows from the message, so that a retry makes the same one again.
    TokenOfTheMessage,
    /// Tokens are valid as soon as they are made.
    TokensMadeValid,
    /// Making a token valid makes it where it is missing.
    ActivateCreates,
    /// A token that is in use is dropped by age.
    TokenExpires,
    /// Outputs beside the document are stored under the message.
    StagedByMessage,
    /// When the answer to a commit is lost, what was stored beside the document for it is deleted.
    CompensateUnknown,
    /// What an earlier attempt left unfinished is not finished, and goes with the next commit.
    UnfinishedIsReplaced,
    /// Outputs beside the document are moved under the message before they are sent, over what is there: harmless, one
    /// attempt commits.
    MovedOver,
    /// The same, and they stay under the attempt as well until they are sent: harmless.
    MovedAndKept,
    /// What attempts made that did not commit is deleted by who finishes the message, and nobody sweeps.
    RegisteredOnly,
    /// A sweep deletes what no document names, without keeping those away who loaded the document before.
    SweepWithoutFence,
}

impl Broken {
    /// Whether a write over a version that is gone may succeed.
    pub(super) const fn is_about_versions(self) -> bool {
        matches!(self, Self::NoCondition | Self::CreateReplaces | Self::BlindCleanUp | Self::VersionIsHash)
    }
}

/// A receiver with one thing changed.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The change, in words.
    pub says: &'static str,
    /// What must fall; nothing, where the change is harmless.
    pub breaks: Option<&'static str>,
    /// The changed receiver.
    pub receiver: Receiver,
}

use Step::{
    Acknowledge, ActivateTokens, Blank, Check, Commit, Consume, CreateTokens, Handle, Load, Publish, Remember, Remove,
    Stage, Unstage,
};

impl Change {
    /// Each of them.
    pub fn all() -> Vec<Self> {
        [Self::in_document(), Self::known_ids(), Self::staged(), Self::tokens()].concat()
    }

    fn in_document() -> Vec<Self> {
        let of = |steps| Receiver { protocol: Protocol::of(steps), bounds: Bounds::TWO_MESSAGES, broken: None };
        let with =
            |broken| Receiver { protocol: Protocol::IN_DOCUMENT, bounds: Bounds::TWO_MESSAGES, broken: Some(broken) };
        vec![
            Self::breaking(
                "in the document: acknowledged before the commit",
                ACKNOWLEDGED,
                of(&[Load, Handle, Acknowledge, Commit, Publish, Blank]),
            ),
            Self::breaking(
                "in the document: published before the commit",
                OUTPUTS,
                of(&[Load, Handle, Publish, Commit, Blank, Acknowledge]),
            ),
            Self::breaking(
                "in the document: acknowledged before the outputs are sent",
                ACKNOWLEDGED,
                of(&[Load, Handle, Commit, Acknowledge, Publish, Blank]),
            ),
            Self::breaking(
                "in the document: cleaned up before the outputs are sent",
                ACKNOWLEDGED,
                of(&[Load, Handle, Commit, Blank, Publish, Acknowledge]),
            ),
            Self::breaking("in the document: written without a condition", ONCE, with(Broken::NoCondition)),
            Self::breaking("in the document: the first write replaces", ONCE, with(Broken::CreateReplaces)),
            Self::breaking("in the document: cleaned up without a condition", STATE, with(Broken::BlindCleanUp)),
            Self::breaking(
                "in the document: new ids when outputs are sent again",
                OUTPUTS,
                with(Broken::FreshIdsOnResume),
            ),
        ]
    }

    fn known_ids() -> Vec<Self> {
        let of = |steps| Receiver { protocol: Protocol::of(steps), bounds: Bounds::MANY_REPEATS, broken: None };
        let with =
            |broken| Receiver { protocol: Protocol::KNOWN_IDS, bounds: Bounds::MANY_REPEATS, broken: Some(broken) };
        let chained = |broken| Receiver {
            bounds: Bounds { stages: 2, messages: 1, workers: 2, ..Bounds::TWO_MESSAGES },
            ..with(broken)
        };
        vec![
            Self::breaking(
                "known ids: checked before the load",
                ONCE,
                of(&[Check, Load, Handle, Commit, Publish, Remember, Remove, Acknowledge]),
            ),
            Self::breaking(
                "known ids: cleaned up before the id is known",
                ONCE,
                of(&[Load, Check, Handle, Commit, Publish, Remove, Remember, Acknowledge]),
            ),
            Self::breaking(
                "known ids: known before the outputs are sent",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, Commit, Remember, Remove, Publish, Acknowledge]),
            ),
            Self::breaking(
                "known ids: acknowledged before the commit",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, Acknowledge, Commit, Publish, Remember, Remove]),
            ),
            Self::breaking(
                "known ids: published before the commit",
                OUTPUTS,
                of(&[Load, Check, Handle, Publish, Commit, Remember, Remove, Acknowledge]),
            ),
            Self::breaking(
                "known ids: a repeat returns without a second look",
                LEFT_BEHIND,
                Receiver { protocol: Protocol::KNOWN_IDS.without_help(), ..of(&[]) },
            ),
            Self::breaking(
                "known ids: marked as sent before the entry goes",
                LEFT_BEHIND,
                of(&[Load, Check, Handle, Commit, Publish, Remember, Blank, Remove, Acknowledge]),
            ),
            Self::breaking("known ids: written without a condition", ONCE, with(Broken::NoCondition)),
            Self::breaking("known ids: the first write replaces", ONCE, with(Broken::CreateReplaces)),
            Self::breaking(
                "known ids: cleaned up without a condition",
                STATE,
                Receiver { bounds: Bounds::TWO_MESSAGES, ..with(Broken::BlindCleanUp) },
            ),
            Self::breaking("known ids: the check is behind", ONCE, with(Broken::StaleCheck)),
            Self::breaking("known ids: an id expires", ONCE, with(Broken::KnownIdExpires)),
            Self::breaking("known ids: a filter is believed", ACKNOWLEDGED, with(Broken::FilterIsBelieved)),
            Self::breaking(
                "known ids: two receivers share their ids",
                ACKNOWLEDGED,
                chained(Broken::IdsWithoutReceiver),
            ),
            Self::breaking("known ids: the version is a hash", ONCE, with(Broken::VersionIsHash)),
            Self::breaking("known ids: new ids when outputs are sent again", OUTPUTS, with(Broken::FreshIdsOnResume)),
        ]
    }

    fn staged() -> Vec<Self> {
        let of = |steps| Receiver { protocol: Protocol::of(steps), bounds: Bounds::SWEPT, broken: None };
        let with = |broken| Receiver { protocol: Protocol::STAGED, bounds: Bounds::SWEPT, broken: Some(broken) };
        vec![
            Self::breaking(
                "staged: checked before the load",
                ONCE,
                of(&[Check, Load, Handle, Stage, Commit, Publish, Remember, Unstage, Remove, Acknowledge]),
            ),
            Self::breaking(
                "staged: deleted before the outputs are sent",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, Stage, Commit, Unstage, Publish, Remember, Remove, Acknowledge]),
            ),
            Self::breaking(
                "staged: deleted behind the entry",
                LEFT_BEHIND,
                of(&[Load, Check, Handle, Stage, Commit, Publish, Remember, Remove, Unstage, Acknowledge]),
            ),
            Self::breaking(
                "staged: never deleted",
                LEFT_BEHIND,
                of(&[Load, Check, Handle, Stage, Commit, Publish, Remember, Remove, Acknowledge]),
            ),
            Self::harmless(
                "staged: deleted before the id is known",
                of(&[Load, Check, Handle, Stage, Commit, Publish, Unstage, Remember, Remove, Acknowledge]),
            ),
            Self::harmless(
                "staged: moved under the message before they are sent, over what is there",
                with(Broken::MovedOver),
            ),
            Self::harmless("staged: moved under the message, and kept under the attempt", with(Broken::MovedAndKept)),
            Self::breaking(
                "staged: what is unfinished goes with the next commit",
                ONCE,
                with(Broken::UnfinishedIsReplaced),
            ),
            Self::breaking("staged: stored under the message", OUTPUTS, with(Broken::StagedByMessage)),
            Self::breaking("staged: an unknown commit is undone", ACKNOWLEDGED, with(Broken::CompensateUnknown)),
            Self::breaking("staged: swept without a fence", ACKNOWLEDGED, with(Broken::SweepWithoutFence)),
            Self::breaking("staged: written without a condition", ONCE, with(Broken::NoCondition)),
            Self::breaking("staged: the check is behind", ONCE, with(Broken::StaleCheck)),
        ]
    }

    fn tokens() -> Vec<Self> {
        let of = |steps| Receiver { protocol: Protocol::of(steps), bounds: Bounds::CHAIN, broken: None };
        let with = |broken| Receiver { protocol: Protocol::TOKENS, bounds: Bounds::CHAIN, broken: Some(broken) };
        vec![
            Self::breaking(
                "tokens: checked before the load",
                ONCE,
                of(&[Check, Load, Handle, CreateTokens, Commit, ActivateTokens, Publish, Consume, Remove, Acknowledge]),
            ),
            Self::breaking(
                "tokens: cleaned up before the token is gone",
                ONCE,
                of(&[Load, Check, Handle, CreateTokens, Commit, ActivateTokens, Publish, Remove, Consume, Acknowledge]),
            ),
            Self::breaking(
                "tokens: the token goes before the commit",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, Consume, CreateTokens, Commit, ActivateTokens, Publish, Remove, Acknowledge]),
            ),
            Self::breaking(
                "tokens: the token goes before the outputs are sent",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, CreateTokens, Commit, Consume, Remove, ActivateTokens, Publish, Acknowledge]),
            ),
            Self::breaking(
                "tokens: the outputs are sent before their tokens are made",
                ACKNOWLEDGED,
                of(&[Load, Check, Handle, Commit, Publish, CreateTokens, ActivateTokens, Consume, Remove, Acknowledge]),
            ),
            Self::breaking(
                "tokens: tokens are not in the document before they are used",
                ONCE,
                of(&[Load, Check, Handle, Commit, CreateTokens, ActivateTokens, Publish, Consume, Remove, Acknowledge]),
            ),
            Self::breaking(
                "tokens: a retry makes the same token again",
                ONCE,
                Receiver {
                    broken: Some(Broken::TokenOfTheMessage),
                    ..of(&[
                        Load,
                        Check,
                        Handle,
                        Commit,
                        CreateTokens,
                        ActivateTokens,
                        Publish,
                        Consume,
                        Remove,
                        Acknowledge,
                    ])
                },
            ),
            Self::breaking(
                "tokens: a repeat returns without a second look",
                LEFT_BEHIND,
                Receiver { protocol: Protocol::TOKENS.without_help(), ..of(&[]) },
            ),
            Self::harmless(
                "tokens: the id is known as well",
                of(&[
                    Load,
                    Check,
                    Handle,
                    CreateTokens,
                    Commit,
                    ActivateTokens,
                    Publish,
                    Remember,
                    Consume,
                    Remove,
                    Acknowledge,
                ]),
            ),
            Self::breaking("tokens: valid as soon as they are made", LEFT_BEHIND, with(Broken::TokensMadeValid)),
            Self::breaking("tokens: making one valid makes it", TOKENS, with(Broken::ActivateCreates)),
            Self::breaking("tokens: one in use expires", ACKNOWLEDGED, with(Broken::TokenExpires)),
            Self::breaking("tokens: the check is behind", ONCE, with(Broken::StaleCheck)),
            Self::breaking("tokens: swept without a fence", ACKNOWLEDGED, with(Broken::SweepWithoutFence)),
            Self::breaking(
                "tokens: lost attempts' tokens are deleted by who finishes the message, and by nobody else",
                LEFT_BEHIND,
                Receiver { bounds: Bounds { sweeps: 0, ..Bounds::CHAIN }, ..with(Broken::RegisteredOnly) },
            ),
        ]
    }

    const fn breaking(says: &'static str, promise: &'static str, receiver: Receiver) -> Self {
        Self { says, breaks: Some(promise), receiver }
    }

    const fn harmless(says: &'static str, receiver: Receiver) -> Self {
        Self { says, breaks: None, receiver }
    }
}
