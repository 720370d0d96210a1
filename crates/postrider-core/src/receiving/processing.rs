//! One delivery on its way through a protocol.

use super::document::{Document, Entry, Kinds, Outputs};
use super::protocol::{OnRepeat, Protocol, Step};

/// One delivery of a message, on its way through the steps of a protocol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Processing<K: Kinds> {
    protocol: Protocol,
    id: K::Id,
    token: Option<K::Token>,
    /// The step that is carried out.
    at: usize,
    /// The document as it was loaded, or as it was written since.
    document: Document<K>,
    /// Its version; none where there is no document yet.
    version: Option<K::Version>,
    /// The message that is handled or finished: this one, or an earlier one that was left unfinished.
    work: Option<Entry<K>>,
    /// The state that the handler left.
    state: Option<K::State>,
    /// The check said that the message was handled before.
    is_known: bool,
    ends: Disposition,
}

/// What the driver is to do next. Each variant takes what came of it, and answers with the next effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<K: Kinds> {
    /// Read the document.
    Load(Loading<K>),
    /// Ask whether the message was handled.
    Check(Checking<K>),
    /// Run the handler.
    Handle(Handling<K>),
    /// Make tokens for the outputs.
    CreateTokens(Creating<K>),
    /// Write the document at the loaded version.
    Write(Writing<K>),
    /// Send the outputs.
    Publish(Publishing<K>),
    /// Record something, once or more often to the same end.
    Mark(Marking<K>),
    /// Nothing: the delivery is over.
    End(Disposition),
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The message had its effect now.
    Applied,
    /// It had its effect at an earlier delivery, whose outputs were sent now.
    Resumed,
    /// It was handled before. Nothing was to do.
    Repeat,
    /// Deliver it again; nothing of what happened is undone.
    Retry(Lapse),
    /// The handler failed, and nothing happened. It is for the consumer to count how often.
    Failed,
    /// What the handler made is larger than the store takes, and nothing happened.
    TooLarge {
        /// The most bytes that the store takes.
        limit: u64,
        /// How many they would be.
        actual: u64,
    },
}

/// Why a delivery must come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lapse {
    /// Somebody else wrote the document in between.
    Conflict,
    /// A store or the broker is away, or asks for patience. This step was certainly not done.
    Away,
    /// The answer was lost: the step may have been done, or be done later.
    Unknown,
    /// The token of the message is not valid yet.
    TokenPending,
}

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Known {
    /// The message was not handled; its token is valid.
    New,
    /// It was handled; its token is gone.
    Handled,
    /// Its token is not valid yet.
    Pending,
}

impl<K: Kinds> Processing<K> {
    /// Begins with a delivery of the message `id`, which came with `token` where tokens are used.
    pub fn begin(protocol: Protocol, id: K::Id, token: Option<K::Token>) -> Effect<K> {
        let processing = Self {
            protocol,
            id,
            token,
            at: 0,
            document: Document::new(),
            version: None,
            work: None,
            state: None,
            is_known: false,
            ends: Disposition::Applied,
        };
        processing.run()
    }

    /// The message that is handled or finished now.
    fn work_id(&self) -> &K::Id {
        self.work.as_ref().map_or(&self.id, |entry| &entry.id)
    }

    fn next(mut self) -> Effect<K> {
        self.at += 1;
        self.run()
    }

    /// The effect of the step at which the delivery is.
    fn run(self) -> Effect<K> {
        let is_for_another = self.work.as_ref().is_some_and(|entry| entry.id != self.id);
        let Some(step) = self.protocol.steps.get(self.at) else {
            return if is_for_another { self.look() } else { Effect::End(self.ends) };
        };
        match (step, &self.work) {
            (Step::Load, _) => Effect::Load(Loading(self)),
            (Step::Check, _) => Effect::Check(Checking(self)),
            (Step::Handle, _) => Effect::Handle(Handling(self)),
            (Step::Acknowledge, _) if is_for_another => self.next(),
            (Step::Acknowledge, _) => Effect::Mark(Marking { mark: Mark::Acknowledge, processing: self }),
            // Every other step is about what was handled, which every protocol has by then.
            (_, None) => Effect::End(Disposition::Failed),
            (Step::CreateTokens, Some(entry)) if entry.tokens.is_some() => self.next(),
            (Step::CreateTokens, Some(_)) => Effect::CreateTokens(Creating(self)),
            (Step::Commit, Some(entry)) => {
                let document = Document { state: self.state.clone(), entries: self.document.entries.clone() };
                let document = document.with(entry.clone());
                Effect::Write(Writing { document, processing: self })
            }
            (Step::Stage, Some(entry)) => match entry.outputs.clone() {
                Outputs::ToSend(outputs) => {
                    let mark = Mark::Stage { attempt: entry.attempt.clone(), outputs };
                    Effect::Mark(Marking { mark, processing: self })
                }
                Outputs::Staged | Outputs::Sent => self.next(),
            },
            (Step::Unstage, Some(entry)) => {
                let mark = Mark::Unstage(entry.attempt.clone());
                Effect::Mark(Marking { mark, processing: self })
            }
            (Step::ActivateTokens, Some(entry)) => {
                let mark = Mark::Activate(entry.tokens.clone().unwrap_or_default());
                Effect::Mark(Marking { mark, processing: self })
            }
            (Step::Publish | Step::Blank, Some(entry)) if entry.outputs == Outputs::Sent => self.next(),
            (Step::Publish, Some(_)) => Effect::Publish(Publishing(self)),
            (Step::Remember, Some(entry)) => {
                let mark = Mark::Remember(entry.id.clone());
                Effect::Mark(Marking { mark, processing: self })
            }
            (Step::Consume, Some(entry)) => match entry.token.clone() {
                Some(token) => Effect::Mark(Marking { mark: Mark::Consume(token), processing: self }),
                None => self.next(),
            },
            (Step::Blank, Some(entry)) => {
                let entry = Entry { outputs: Outputs::Sent, ..entry.clone() };
                Effect::Write(Writing { document: self.document.clone().with(entry), processing: self })
            }
            (Step::Remove, Some(entry)) => {
                Effect::Write(Writing { document: self.document.clone().without(&entry.id), processing: self })
            }
        }
    }

    /// Decides by the document: first what an earlier attempt left unfinished, in the order of the commits, so that
    /// outputs leave in that order; then this message.
    fn look(mut self) -> Effect<K> {
        if let Some(entry) = self.document.unfinished() {
            self.ends = if entry.id == self.id { Disposition::Resumed } else { Disposition::Applied };
            self.work = Some(entry.clone());
            self.at = self.protocol.place(Step::Commit).map_or(0, |commit| commit + 1);
            return self.run();
        }
        self.work = None;
        if self.is_known || self.document.entry(&self.id).is_some() {
            self.ends = Disposition::Repeat;
            return self.acknowledge();
        }
        self.at = self.protocol.place(Step::Load).map_or(0, |load| load + 1);
        self.run()
    }

    fn acknowledge(mut self) -> Effect<K> {
        self.at = self.protocol.place(Step::Acknowledge).unwrap_or(self.protocol.steps.len());
        self.run()
    }
}

/// Read the document, not older than any write that was answered before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loading<K: Kinds>(Processing<K>);

impl<K: Kinds> Loading<K> {
    /// The message of the delivery.
    pub const fn id(&self) -> &K::Id {
        &self.0.id
    }

    /// There is a document, at this version.
    pub fn found(mut self, document: Document<K>, version: K::Version) -> Effect<K> {
        self.0.document = document;
        self.0.version = Some(version);
        self.0.look()
    }

    /// There is none yet.
    pub fn absent(mut self) -> Effect<K> {
        self.0.document = Document::new();
        self.0.version = None;
        self.0.look()
    }

    /// It could not be read.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        Effect::End(Disposition::Retry(lapse))
    }
}

/// Ask whether the message was handled, of a store that has every record that was answered before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checking<K: Kinds>(Processing<K>);

impl<K: Kinds> Checking<K> {
    /// The message.
    pub const fn id(&self) -> &K::Id {
        &self.0.id
    }

    /// The token it came with.
    pub const fn token(&self) -> Option<&K::Token> {
        self.0.token.as_ref()
    }

    /// What is known.
    pub fn answered(mut self, known: Known) -> Effect<K> {
        match known {
            Known::New => self.0.next(),
            Known::Pending => self.lapsed(Lapse::TokenPending),
            Known::Handled if self.0.protocol.on_repeat == OnRepeat::Return => {
                self.0.ends = Disposition::Repeat;
                self.0.acknowledge()
            }
            Known::Handled => {
                self.0.is_known = true;
                Effect::Load(Loading(self.0))
            }
        }
    }

    /// It could not be asked.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        Effect::End(Disposition::Retry(lapse))
    }
}

/// Run the handler. It may run more often than once; one of its results is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Handling<K: Kinds>(Processing<K>);

impl<K: Kinds> Handling<K> {
    /// The message.
    pub const fn id(&self) -> &K::Id {
        &self.0.id
    }

    /// The state it finds.
    pub const fn state(&self) -> Option<&K::State> {
        self.0.document.state.as_ref()
    }

    /// It left this state, and wants this sent.
    pub fn handled(mut self, attempt: K::Attempt, state: K::State, outputs: K::Outputs) -> Effect<K> {
        let (id, token) = (self.0.id.clone(), self.0.token.clone());
        self.0.work = Some(Entry { id, attempt, token, outputs: Outputs::ToSend(outputs), tokens: None });
        self.0.state = Some(state);
        self.0.next()
    }

    /// It left this state, and wants nothing sent: `outputs` is how none are written. Where the id stays in the document,
    /// the commit is the last write.
    pub fn handled_without_outputs(self, attempt: K::Attempt, state: K::State, outputs: K::Outputs) -> Effect<K> {
        let is_over_with_commit = self.0.protocol.place(Step::Blank).is_some();
        match self.handled(attempt, state, outputs) {
            Effect::Write(mut writing) if is_over_with_commit => {
                if let Some(entry) = &mut writing.processing.work {
                    entry.outputs = Outputs::Sent;
                    writing.document = writing.document.with(entry.clone());
                }
                Effect::Write(writing)
            }
            effect => effect,
        }
    }

    /// It failed, was cancelled, or panicked.
    pub fn failed(self) -> Effect<K> {
        Effect::End(Disposition::Failed)
    }
}

/// Make a token for every output, with ids that nobody used before, not yet valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Creating<K: Kinds>(Processing<K>);

impl<K: Kinds> Creating<K> {
    /// The message whose outputs they are for: what a sweep asks for before it deletes one of them.
    pub fn id(&self) -> &K::Id {
        self.0.work_id()
    }

    /// The entry of that message, with its outputs.
    pub const fn entry(&self) -> Option<&Entry<K>> {
        self.0.work.as_ref()
    }

    /// These were made.
    pub fn created(mut self, tokens: Vec<K::Token>) -> Effect<K> {
        if let Some(entry) = &mut self.0.work {
            entry.tokens = Some(tokens);
        }
        self.0.next()
    }

    /// They were not, or it is not known which.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        Effect::End(Disposition::Retry(lapse))
    }
}

/// Write the document, if it is still at the version that was loaded, and as a new version in any case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writing<K: Kinds> {
    document: Document<K>,
    processing: Processing<K>,
}

impl<K: Kinds> Writing<K> {
    /// What to write.
    pub const fn document(&self) -> &Document<K> {
        &self.document
    }

    /// The version that must be there; none when there must be no document.
    pub const fn over(&self) -> Option<&K::Version> {
        self.processing.version.as_ref()
    }

    /// The message that is handled or finished.
    pub fn id(&self) -> &K::Id {
        self.processing.work_id()
    }

    /// The step, for logs and for the model.
    pub fn step(&self) -> Option<Step> {
        self.processing.protocol.steps.get(self.processing.at).copied()
    }

    /// The same, where the entry of the message has this attempt: where ids go by age, the age of one whose outputs were sent
    /// begins then.
    #[must_use]
    pub fn at(mut self, attempt: K::Attempt) -> Self {
        let id = self.id().clone();
        self.document
            .entries
            .iter_mut()
            .filter(|entry| entry.id == id)
            .for_each(|entry| entry.attempt = attempt.clone());
        self
    }

    /// It is written, as this version.
    pub fn written(mut self, version: K::Version) -> Effect<K> {
        self.processing.document = self.document;
        self.processing.version = Some(version);
        self.processing.next()
    }

    /// It is larger than the store takes. Nothing was written.
    pub fn too_large(self, limit: u64, actual: u64) -> Effect<K> {
        Effect::End(Disposition::TooLarge { limit, actual })
    }

    /// It is not written, or it is not known. The next delivery looks at the document and goes on from there.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        Effect::End(Disposition::Retry(lapse))
    }
}

/// Send the outputs, each with the id that it had at every attempt before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Publishing<K: Kinds>(Processing<K>);

impl<K: Kinds> Publishing<K> {
    /// The message that they come from.
    pub fn id(&self) -> &K::Id {
        self.0.work_id()
    }

    /// What to send, or that it is stored beside the document, with the run of the handler that it comes from and the
    /// tokens, if there are any.
    pub fn entry(&self) -> Option<&Entry<K>> {
        self.0.work.as_ref()
    }

    /// The broker took responsibility for all of them.
    pub fn sent(self) -> Effect<K> {
        self.0.next()
    }

    /// Some of them were not sent, or it is not known.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        Effect::End(Disposition::Retry(lapse))
    }
}

/// Record something that is the same when it is recorded twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marking<K: Kinds> {
    mark: Mark<K>,
    processing: Processing<K>,
}

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mark<K: Kinds> {
    /// These tokens are valid, those of them that exist. One that does not exist was used already.
    Activate(Vec<K::Token>),
    /// These outputs, under this attempt.
    Stage {
        /// The run of the handler that made them.
        attempt: K::Attempt,
        /// The outputs.
        outputs: K::Outputs,
    },
    /// What was stored under this attempt is gone.
    Unstage(K::Attempt),
    /// The message was handled. Every check from now on says so.
    Remember(K::Id),
    /// This token is gone for ever.
    Consume(K::Token),
    /// The broker need not deliver the message again.
    Acknowledge,
}

impl<K: Kinds> Marking<K> {
    /// The message of the delivery.
    pub const fn id(&self) -> &K::Id {
        &self.processing.id
    }

    /// What to record.
    pub const fn mark(&self) -> &Mark<K> {
        &self.mark
    }

    /// It is recorded, for everybody.
    pub fn done(mut self) -> Effect<K> {
        if let (Mark::Stage { .. }, Some(entry)) = (&self.mark, &mut self.processing.work) {
            entry.outputs = Outputs::Staged;
        }
        self.processing.next()
    }

    /// It is not, or it is not known. An acknowledgement that is lost changes nothing: the message comes again and is a
    /// repeat.
    pub fn lapsed(self, lapse: Lapse) -> Effect<K> {
        match self.mark {
            Mark::Acknowledge => self.processing.next(),
            _ => Effect::End(Disposition::Retry(lapse)),
        }
    }
}
