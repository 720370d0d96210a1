//! Requests with an idempotency key: servers that work on the same request, leases that end while they do, answers that
//! are lost.
//!
//! What to do with a request is the core's [`begin`]. A lease may end at any time after it was taken: nothing here is
//! safe only because a lease is long.

use std::collections::BTreeSet;

use postrider_core::Timestamp;
use postrider_core::receiving::{Begun, Epoch, Fingerprint, KeyRecord, begin};
use stateright::{Model, Property};

use crate::checked::{Checked, check};

/// A request with a key has its effect at most once.
pub const ONCE: &str = "one effect";
/// Whoever asks the same gets the same answer, and an answer is that of an effect.
pub const SAME_ANSWER: &str = "one answer";
/// Whoever asks something else gets no answer to what others asked.
pub const OWN_ANSWER: &str = "no answer to another question";

const BEFORE: Timestamp = Timestamp(0);
const LEASED_UNTIL: Timestamp = Timestamp(1);

/// Servers, and what may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// Servers.
    pub servers: usize,
    /// Requests with the one key, in all.
    pub requests: u8,
    /// Servers that die, and answers of the store that are lost.
    pub losses: u8,
    /// The rule that is broken, if one is.
    pub broken: Option<BrokenKeys>,
}

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BrokenKeys {
    /// The answer is stored behind the effect.
    EffectThenAnswer,
    /// A key is given up when an error is met, whatever became of the effect.
    ReleaseOnError,
    /// The write of the effect does not ask who works on the key.
    NoEpoch,
    /// The key is looked at before what was asked for is.
    AnswerBeforeFingerprint,
    /// The write of the effect asks that there is no answer yet, and not who works on the key: harmless, two servers work
    /// where one would do.
    AnswerForEpoch,
    /// The same, with the answer in the document that has the effect, and a key is given up when an error is met: harmless,
    /// what is given up is the lease and not the answer.
    ReleaseBesideAnswer,
}

/// What a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    /// The question that it answers.
    pub question: u8,
    /// Who had the effect.
    pub by: Epoch,
}

impl BrokenKeys {
    /// The broken rule, in words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::EffectThenAnswer => "keys: the answer is stored behind the effect",
            Self::ReleaseOnError => "keys: given up when an error is met, whatever became of the effect",
            Self::NoEpoch => "keys: the effect does not ask who works on the key",
            Self::AnswerBeforeFingerprint => "keys: the answer is looked at before the question",
            Self::AnswerForEpoch => "keys: the effect asks that there is no answer yet, and not who works on the key",
            Self::ReleaseBesideAnswer => {
                "keys: given up when an error is met, with the answer in the effect's document"
            }
        }
    }

    /// Each of them, with what must fall; nothing, where it is harmless.
    pub const ALL: [(Self, Option<&'static str>); 6] = [
        (Self::EffectThenAnswer, Some(ONCE)),
        (Self::ReleaseOnError, Some(ONCE)),
        (Self::NoEpoch, Some(ONCE)),
        (Self::AnswerBeforeFingerprint, Some(OWN_ANSWER)),
        (Self::AnswerForEpoch, None),
        (Self::ReleaseBesideAnswer, None),
    ];
}

/// What a server is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Server {
    /// It waits for a request.
    Idle,
    /// It looks at the key, for this question.
    Asked(u8),
    /// It has worked on the request, and is about to commit.
    Working(u8, Epoch),
    /// It has had the effect and is about to store the answer: only where that rule is broken.
    Storing(u8, Epoch),
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeysState {
    record: Option<KeyRecord<Answer>>,
    /// The lease has ended.
    lapsed: bool,
    servers: Vec<Server>,
    /// Commits whose senders do not wait for an answer any more.
    late: Vec<(u8, Epoch)>,
    effects: u8,
    /// Which question got which answer.
    replies: BTreeSet<(u8, Answer)>,
    requests: u8,
    losses: u8,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeysAction {
    /// A request is sent: this question.
    Ask(usize, u8),
    /// A server does what it is at.
    Step(usize),
    /// A server dies.
    Crash(usize),
    /// A commit is sent, and its sender does not hear of it.
    Lose(usize),
    /// Such a commit is carried out.
    Arrive(usize),
    /// It never is.
    Vanish(usize),
    /// The lease ends.
    Lapse,
}

impl Model for Keys {
    type State = KeysState;
    type Action = KeysAction;

    fn init_states(&self) -> Vec<KeysState> {
        vec![KeysState {
            record: None,
            lapsed: false,
            servers: vec![Server::Idle; self.servers],
            late: Vec::new(),
            effects: 0,
            replies: BTreeSet::new(),
            requests: 0,
            losses: 0,
        }]
    }

    fn actions(&self, state: &KeysState, actions: &mut Vec<KeysAction>) {
        for (place, server) in state.servers.iter().enumerate() {
            match server {
                Server::Idle if state.requests < self.requests => {
                    actions.extend([KeysAction::Ask(place, 0), KeysAction::Ask(place, 1)]);
                }
                Server::Idle => {}
                _ => {
                    actions.push(KeysAction::Step(place));
                    if state.losses < self.losses {
                        actions.push(KeysAction::Crash(place));
                        if matches!(server, Server::Working(..)) {
                            actions.push(KeysAction::Lose(place));
                        }
                    }
                }
            }
        }
        for place in 0..state.late.len() {
            actions.extend([KeysAction::Arrive(place), KeysAction::Vanish(place)]);
        }
        if state.record.is_some() && !state.lapsed {
            actions.push(KeysAction::Lapse);
        }
    }

    fn next_state(&self, state: &KeysState, action: KeysAction) -> Option<KeysState> {
        let mut next = state.clone();
        match action {
            KeysAction::Ask(place, question) => {
                next.requests += 1;
                next.servers[place] = Server::Asked(question);
            }
            KeysAction::Step(place) => next.servers[place] = self.step(&mut next, state.servers[place]),
            KeysAction::Crash(place) => {
                next.losses += 1;
                next.servers[place] = Server::Idle;
            }
            KeysAction::Lose(place) => {
                next.losses += 1;
                if let Server::Working(question, epoch) = state.servers[place] {
                    next.late.push((question, epoch));
                    match self.broken {
                        Some(BrokenKeys::ReleaseOnError) => next.record = None,
                        Some(BrokenKeys::ReleaseBesideAnswer) => {
                            next.record = next.record.filter(|it| it.answer.is_some())
                        }
                        _ => {}
                    }
                }
                next.servers[place] = Server::Idle;
            }
            KeysAction::Arrive(place) => {
                let (question, epoch) = next.late.remove(place);
                self.commit(&mut next, question, epoch);
            }
            KeysAction::Vanish(place) => {
                next.late.remove(place);
            }
            KeysAction::Lapse => next.lapsed = true,
        }
        next.servers.sort_unstable();
        next.late.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_: &Self, state: &KeysState| state.effects <= 1),
            Property::always(SAME_ANSWER, |_, state: &KeysState| {
                let mut answers = state.replies.iter().map(|(_, answer)| answer);
                answers.next().is_none_or(|first| state.effects > 0 && answers.all(|other| other == first))
            }),
            Property::always(OWN_ANSWER, |_, state: &KeysState| {
                state.replies.iter().all(|(question, answer)| *question == answer.question)
            }),
            Property::sometimes("an answer is sent again", |_, state: &KeysState| {
                state.effects == 1 && state.requests > 1 && !state.replies.is_empty()
            }),
            Property::sometimes("a key is taken over", |_, state: &KeysState| {
                state.record.as_ref().is_some_and(|record| record.epoch > Epoch(1) && record.answer.is_some())
            }),
        ]
    }
}

impl Keys {
    /// Checks every history within the bounds, or until a promise falls: the one that is named, or any.
    pub fn check(self, until: Option<&'static str>) -> Checked<KeysAction> {
        check(self, until)
    }

    fn step(&self, state: &mut KeysState, server: Server) -> Server {
        match server {
            Server::Idle => Server::Idle,
            Server::Asked(question) => {
                let asked = Fingerprint([question; 32]);
                let now = if state.lapsed { LEASED_UNTIL } else { BEFORE };
                let known = state.record.clone();
                let begun = match (self.broken, &known) {
                    (Some(BrokenKeys::AnswerBeforeFingerprint), Some(record)) => {
                        begin(known.clone(), record.fingerprint, now, Epoch(1))
                    }
                    _ => begin(known, asked, now, Epoch(1)),
                };
                match begun {
                    Begun::Started(epoch) => {
                        let record = KeyRecord { fingerprint: asked, epoch, leased_until: LEASED_UNTIL, answer: None };
                        state.record = Some(record);
                        state.lapsed = false;
                        Server::Working(question, epoch)
                    }
                    Begun::Replay(answer) => {
                        state.replies.insert((question, answer));
                        Server::Idle
                    }
                    Begun::InProgress { .. } | Begun::Mismatch => Server::Idle,
                }
            }
            Server::Working(question, epoch) => {
                let is_committed = self.commit(state, question, epoch);
                match self.broken {
                    Some(BrokenKeys::EffectThenAnswer) => return Server::Storing(question, epoch),
                    _ if is_committed => {
                        state.replies.insert((question, Answer { question, by: epoch }));
                    }
                    _ => {}
                }
                Server::Idle
            }
            Server::Storing(question, epoch) => {
                if let Some(record) = state.record.as_mut().filter(|record| record.epoch == epoch) {
                    let answer = Answer { question, by: epoch };
                    record.answer = Some(answer);
                    state.replies.insert((question, answer));
                }
                Server::Idle
            }
        }
    }

    /// The effect, and the answer with it, if the key is still this server's.
    fn commit(&self, state: &mut KeysState, question: u8, epoch: Epoch) -> bool {
        let asks = !matches!(
            self.broken,
            Some(BrokenKeys::NoEpoch | BrokenKeys::EffectThenAnswer | BrokenKeys::ReleaseOnError)
        );
        let answer = Answer { question, by: epoch };
        if self.broken == Some(BrokenKeys::ReleaseBesideAnswer) {
            let has_none = state.record.as_ref().is_none_or(|record| record.answer.is_none());
            if has_none {
                let fingerprint = Fingerprint([question; 32]);
                state.record = Some(KeyRecord { fingerprint, epoch, leased_until: LEASED_UNTIL, answer: Some(answer) });
                state.effects += 1;
            }
            return has_none;
        }
        let is_own = |record: &&mut KeyRecord<Answer>| {
            let is_mine = record.epoch == epoch || self.broken == Some(BrokenKeys::AnswerForEpoch);
            is_mine && record.answer.is_none()
        };
        let own = state.record.as_mut().filter(is_own);
        if own.is_none() && asks {
            return false;
        }
        if let Some(record) = own.filter(|_| self.broken != Some(BrokenKeys::EffectThenAnswer)) {
            record.answer = Some(answer);
        }
        state.effects += 1;
        true
    }
}
