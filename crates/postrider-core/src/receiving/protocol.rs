//! The protocols, as lists of steps.

/// One step of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Read the document, as it is now. What an earlier attempt left unfinished is finished before anything else.
    Load,
    /// Ask the store of known ids, or of tokens, whether the message was handled.
    Check,
    /// Run the handler.
    Handle,
    /// Make a token for every output, not yet valid.
    CreateTokens,
    /// Store the outputs beside the document, under the attempt.
    Stage,
    /// Write the new state, and the outputs or where they are, and their tokens, if the document is as it was loaded. From
    /// here on the message is handled.
    Commit,
    /// Make the tokens of the outputs valid.
    ActivateTokens,
    /// Send the outputs.
    Publish,
    /// Write the id into the store of known ids.
    Remember,
    /// Delete the message's own token.
    Consume,
    /// Delete what was stored beside the document.
    Unstage,
    /// Write that the outputs are sent; the id stays in the document.
    Blank,
    /// Write the document without the entry.
    Remove,
    /// Tell the broker that it need not deliver the message again.
    Acknowledge,
}

/// What is done with a message that was handled before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnRepeat {
    /// Look at the document once more, and finish what an attempt that died left there.
    Help,
    /// Acknowledge. An attempt that died between the record and the clean-up leaves its entry for ever: the published
    /// listings do this.
    Return,
}

/// The order of the steps.
///
/// One of the constants; another order is for the model, which shows what it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    pub(super) steps: &'static [Step],
    pub(super) on_repeat: OnRepeat,
}

impl Protocol {
    /// Ids of handled messages stay in the document: one store and two writes a message. The document grows with its
    /// messages, so ids go by age.
    ///
    /// <https://exactly-once.github.io/posts/outbox/>
    pub const IN_DOCUMENT: Self =
        Self::of(&[Step::Load, Step::Handle, Step::Commit, Step::Publish, Step::Blank, Step::Acknowledge]);

    /// Ids of handled messages go to a store of their own: the document holds what is in flight and nothing else.
    ///
    /// The id is remembered, for every reader, before the entry goes.
    /// The post behind <https://exactly-once.github.io/posts/outbox/>, with the check behind the load and a second look.
    pub const KNOWN_IDS: Self = Self::of(&[
        Step::Load,
        Step::Check,
        Step::Handle,
        Step::Commit,
        Step::Publish,
        Step::Remember,
        Step::Remove,
        Step::Acknowledge,
    ]);

    /// As [`KNOWN_IDS`](Self::KNOWN_IDS), with the outputs beside the document: for documents that would become too large.
    ///
    /// They are stored under the attempt, never under the message: of two attempts that overlap one commits, and what is
    /// sent is what that one made. What the other left is for the sweep.
    pub const STAGED: Self = Self::of(&[
        Step::Load,
        Step::Check,
        Step::Handle,
        Step::Stage,
        Step::Commit,
        Step::Publish,
        Step::Remember,
        Step::Unstage,
        Step::Remove,
        Step::Acknowledge,
    ]);

    /// A message may be processed only while its token exists: nothing is kept of what is over.
    ///
    /// The tokens of the outputs are made before the commit, which writes them into the document, and become valid behind
    /// it, before the outputs are sent. What an attempt made that did not commit is for the sweep.
    pub const TOKENS: Self = Self::of(&[
        Step::Load,
        Step::Check,
        Step::Handle,
        Step::CreateTokens,
        Step::Commit,
        Step::ActivateTokens,
        Step::Publish,
        Step::Consume,
        Step::Remove,
        Step::Acknowledge,
    ]);

    /// A protocol of these steps, for the model.
    #[doc(hidden)]
    pub const fn of(steps: &'static [Step]) -> Self {
        Self { steps, on_repeat: OnRepeat::Help }
    }

    /// The same steps without a second look when the message was handled before, for the model.
    #[doc(hidden)]
    pub const fn without_help(self) -> Self {
        Self { on_repeat: OnRepeat::Return, ..self }
    }

    /// The steps.
    pub const fn steps(self) -> &'static [Step] {
        self.steps
    }

    /// Where a step stands.
    pub(super) fn place(self, step: Step) -> Option<usize> {
        self.steps.iter().position(|known| *known == step)
    }
}
