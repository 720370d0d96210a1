//! What can happen next, and what becomes of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use postrider_core::receiving::{
    Disposition, Document, Effect, Known, Lapse, Leftover, Mark, Marking, Outputs, Processing, Publishing, Step, Sweep,
    SweepEffect, Swept, Writing,
};

use super::broken::Broken;
use super::state::{Held, Id, MOVED, Small, State, Stored, Token, Validity, Worker};
use super::{Bounds, Receiver};

/// Deliveries of the run that must finish everything: more than there are messages, one after the other.
const QUIET_ROUNDS: usize = 4;
/// Steps of one delivery, and more.
const QUIET_STEPS: usize = 60;

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// A message is delivered to a worker that has nothing to do.
    Deliver(usize, Held),
    /// A worker's request is carried out and answered.
    Step(usize),
    /// A check is answered wrongly: only where that rule is broken.
    Lie(usize, Known),
    /// A worker dies before its request leaves.
    Crash(usize),
    /// A worker dies, or gives up waiting, while its request is on its way.
    Lose(usize),
    /// Such a request is carried out.
    Arrive(usize),
    /// Such a request never gets there.
    Vanish(usize),
    /// A look at something that an attempt may have left begins.
    Sweep(Leftover<Small>),
    /// It goes on.
    SweepOn,
    /// A known id is forgotten: only where that rule is broken.
    Forget(Id),
    /// A valid token is dropped: only where that rule is broken.
    Expire(Token),
}

impl Receiver {
    /// Whether handlers change the state.
    pub(super) fn counts(&self) -> bool {
        self.broken != Some(Broken::VersionIsHash)
    }

    /// The state before anything happens.
    pub(super) fn first(&self) -> State {
        let mut state = State::new(self.bounds);
        if self.broken == Some(Broken::VersionIsHash) {
            // A document that is there already, so that a clean-up brings back what was loaded.
            for entity in &mut state.entities {
                let document = Document { state: Some([0, 0]), entries: Vec::new() };
                entity.version = hash(&document);
                entity.document = Some(document);
            }
        }
        state
    }

    pub(super) fn has(&self, step: Step) -> bool {
        self.protocol.steps().contains(&step)
    }

    fn is_last(&self, stage: u8) -> bool {
        stage + 1 == self.bounds.stages
    }

    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        let Bounds { deliveries, losses, sweeps, .. } = self.bounds;
        for (place, worker) in state.workers.iter().enumerate() {
            match worker {
                // One that is idle stands for all.
                None if state.workers[..place].iter().any(Option::is_none) => {}
                None if state.deliveries < deliveries => {
                    // Messages are alike: what is delivered first is called the first one.
                    let held = (state.broker.iter()).filter(|held| {
                        held.id.stage < self.bounds.stages && (state.deliveries > 0 || held.id.message == 0)
                    });
                    actions.extend(held.map(|held| Action::Deliver(place, *held)));
                }
                None => {}
                Some(worker) => self.possible_at(place, worker, state.losses < losses, actions),
            }
        }
        for place in 0..state.late.len() {
            actions.extend([Action::Arrive(place), Action::Vanish(place)]);
        }
        match state.sweep {
            Some(_) => actions.push(Action::SweepOn),
            None if state.sweeps < sweeps => actions.extend(state.leftovers().map(Action::Sweep)),
            None => {}
        }
        match self.broken {
            Some(Broken::KnownIdExpires) => actions.extend(state.known.iter().map(|id| Action::Forget(*id))),
            Some(Broken::TokenExpires) => {
                let valid = state.tokens.iter().filter(|(_, validity)| **validity == Validity::Active);
                actions.extend(valid.map(|(token, _)| Action::Expire(*token)));
            }
            _ => {}
        }
    }

    fn possible_at(&self, place: usize, worker: &Worker, may_be_lost: bool, actions: &mut Vec<Action>) {
        actions.push(Action::Step(place));
        match (&worker.effect, self.broken) {
            (Effect::Check(_), Some(Broken::StaleCheck)) => actions.push(Action::Lie(place, Known::New)),
            (Effect::Check(_), Some(Broken::FilterIsBelieved)) => actions.push(Action::Lie(place, Known::Handled)),
            _ => {}
        }
        if may_be_lost {
            // One that has only read might as well not have come.
            if worker.has_acted {
                actions.push(Action::Crash(place));
            }
            if changes_something(&worker.effect) {
                actions.push(Action::Lose(place));
            }
        }
    }

    pub(super) fn take(&self, state: &mut State, action: Action) {
        match action {
            Action::Deliver(place, held) => {
                state.deliveries += 1;
                let token = held.token.filter(|_| self.has(Step::Consume));
                let effect = Processing::begin(self.protocol, held.id, token);
                let stage = held.id.stage;
                let mut worker = Worker { stage, run: None, version: None, has_acted: false, effect };
                // Nobody sees a delivery that has not read anything yet: it begins when it does.
                if matches!(worker.effect, Effect::Load(_)) {
                    worker = self.carry_out(state, worker);
                }
                state.workers[place] = self.unless_over(state, worker);
            }
            Action::Step(place) => {
                if let Some(worker) = state.workers[place].take() {
                    let worker = self.carry_out(state, worker);
                    state.workers[place] = self.unless_over(state, worker);
                }
            }
            Action::Lie(place, known) => {
                if let Some(worker) = state.workers[place].take() {
                    let effect = match worker.effect {
                        Effect::Check(check) => check.answered(known),
                        effect => effect,
                    };
                    state.workers[place] = self.unless_over(state, Worker { effect, ..worker });
                }
            }
            Action::Crash(place) => {
                state.losses += 1;
                state.workers[place] = None;
            }
            Action::Lose(place) => {
                state.losses += 1;
                if let Some(worker) = state.workers[place].take() {
                    let worker = self.handle(state, worker);
                    let is_commit =
                        matches!(&worker.effect, Effect::Write(write) if write.step() == Some(Step::Commit));
                    if let Some(run) =
                        worker.run.filter(|_| self.broken == Some(Broken::CompensateUnknown) && is_commit)
                    {
                        state.staged.remove(&run);
                    }
                    state.late.push(worker);
                }
            }
            Action::Arrive(place) => {
                let late = state.late.remove(place);
                self.carry_out(state, late);
            }
            Action::Vanish(place) => {
                state.late.remove(place);
            }
            Action::Sweep(leftover) => {
                state.sweeps += 1;
                state.sweep = Some(Sweep::begin(leftover));
            }
            Action::SweepOn => {
                if let Some(effect) = state.sweep.take() {
                    let effect = self.sweep_on(state, effect);
                    state.seen.swept |= effect == SweepEffect::End(Swept::Deleted);
                    state.sweep = Some(effect).filter(|effect| !matches!(effect, SweepEffect::End(_)));
                }
            }
            Action::Forget(id) => {
                state.known.remove(&id);
            }
            Action::Expire(token) => {
                state.tokens.insert(token, Validity::Gone);
            }
        }
    }

    /// The worker, unless its delivery is over.
    fn unless_over(&self, state: &mut State, worker: Worker) -> Option<Worker> {
        let Effect::End(disposition) = worker.effect else { return Some(worker) };
        state.deliveries -= u8::from(!worker.has_acted);
        match disposition {
            Disposition::Resumed => state.seen.resumed = true,
            Disposition::Repeat => state.seen.repeat = true,
            Disposition::Retry(Lapse::Conflict) => state.seen.conflict = true,
            _ => {}
        }
        None
    }

    /// The worker with the request behind its handler, where the handler is what is next.
    ///
    /// Nobody sees a handler run: it runs when its first request leaves, and the runs have their numbers in that order.
    fn handle(&self, state: &State, worker: Worker) -> Worker {
        let Effect::Handle(handle) = worker.effect else { return worker };
        let Id { message, .. } = *handle.id();
        let mut counted = handle.state().copied().unwrap_or_default();
        if self.counts() {
            counted[usize::from(message)] += 1;
        }
        let run = worker.run.unwrap_or_else(|| state.new_run());
        let effect = self.past_nothing(worker.stage, handle.handled(run, counted, message));
        Worker { run: Some(run), effect, ..worker }
    }

    /// Does what the worker asks for, and gives it as it is then.
    fn carry_out(&self, state: &mut State, worker: Worker) -> Worker {
        let Worker { stage, run, version, has_acted, effect } = self.handle(state, worker);
        let is_of_document = matches!(effect, Effect::Load(_) | Effect::Write(_));
        let acts = changes_something(&effect);
        let effect = match effect {
            Effect::Load(load) => {
                let entity = &state.entities[usize::from(stage)];
                match entity.document.clone() {
                    Some(document) if self.broken == Some(Broken::UnfinishedIsReplaced) => {
                        load.found(Document { entries: Vec::new(), ..document }, entity.version)
                    }
                    Some(document) => load.found(document, entity.version),
                    None => load.absent(),
                }
            }
            Effect::Check(check) => {
                let known = self.known(state, *check.id(), check.token().copied());
                check.answered(known)
            }
            Effect::CreateTokens(create) => {
                let message = create.id().message;
                let token = self.token(state, message);
                let made =
                    if self.broken == Some(Broken::TokensMadeValid) { Validity::Active } else { Validity::Pending };
                state.tokens.entry(token).or_insert(made);
                if self.broken == Some(Broken::TokenOfTheMessage) && state.validity(token) == Validity::Gone {
                    state.tokens.insert(token, made);
                }
                create.created(vec![token])
            }
            Effect::Write(write) => self.write(state, stage, write),
            Effect::Publish(publish) => self.publish(state, stage, run, publish),
            Effect::Mark(mark) => self.mark(state, mark),
            effect @ (Effect::Handle(_) | Effect::End(_)) => effect,
        };
        let effect = self.past_nothing(stage, effect);
        let version = if is_of_document { state.version(stage) } else { version };
        let is_refused = matches!(effect, Effect::End(Disposition::Retry(Lapse::Conflict)));
        let has_acted = has_acted || (acts && !is_refused);
        Worker { stage, run, version, has_acted, effect }
    }

    /// What is behind requests that ask for nothing: the last receiver's outputs have no tokens.
    fn past_nothing(&self, stage: u8, effect: Effect<Small>) -> Effect<Small> {
        match effect {
            Effect::CreateTokens(create) if self.is_last(stage) => self.past_nothing(stage, create.created(vec![])),
            Effect::Mark(mark) if matches!(mark.mark(), Mark::Activate(tokens) if tokens.is_empty()) => {
                self.past_nothing(stage, mark.done())
            }
            effect => effect,
        }
    }

    /// Carries out the writes over versions that are gone, at once: no version comes again, so they are refused whenever they
    /// arrive, and those that nobody waits for might as well not.
    pub(super) fn refuse(&self, state: &mut State) {
        if self.broken.is_some_and(Broken::is_about_versions) {
            return;
        }
        for place in 0..state.workers.len() {
            if let Some(worker) = state.workers[place].take_if(|worker| self.is_behind(&state.entities, worker)) {
                let worker = self.carry_out(state, worker);
                state.workers[place] = self.unless_over(state, worker);
            }
        }
        state.late.retain(|late| !self.is_behind(&state.entities, late));
    }

    /// Whether what it does next is a write over a version that is gone.
    fn is_behind(&self, entities: &[Stored], worker: &Worker) -> bool {
        let writes = match worker.effect {
            Effect::Write(_) => true,
            Effect::Handle(_) => match self.protocol.steps().iter().skip_while(|step| **step != Step::Handle).nth(1) {
                Some(Step::Commit) => true,
                Some(Step::CreateTokens) => self.is_last(worker.stage),
                _ => false,
            },
            _ => false,
        };
        writes && worker.version != entities[usize::from(worker.stage)].current()
    }

    fn token(&self, state: &State, message: u8) -> Token {
        match self.broken {
            Some(Broken::TokenOfTheMessage) => Token { number: 0, message },
            _ => state.new_token(message),
        }
    }

    /// Under what outputs are stored beside the document.
    fn staged_under(&self, attempt: u8, message: u8) -> u8 {
        if self.broken == Some(Broken::StagedByMessage) { message } else { attempt }
    }

    /// Whose outputs are stored beside the document for what was committed; none where nothing is stored any more.
    fn stored(&self, state: &mut State, attempt: u8, message: u8) -> Option<u8> {
        let under = self.staged_under(attempt, message);
        let made_by = match self.broken {
            Some(Broken::MovedOver) => state.staged.remove(&under),
            _ => state.staged.get(&under).copied(),
        };
        if !matches!(self.broken, Some(Broken::MovedOver | Broken::MovedAndKept)) {
            return made_by;
        }
        if let Some(made_by) = made_by {
            state.staged.insert(MOVED + message, made_by);
        }
        state.staged.get(&(MOVED + message)).copied()
    }

    fn scoped(&self, id: Id) -> Id {
        if self.broken == Some(Broken::IdsWithoutReceiver) { Id { stage: 0, ..id } } else { id }
    }

    fn known(&self, state: &State, id: Id, token: Option<Token>) -> Known {
        match token.map(|token| state.validity(token)) {
            Some(Validity::Active) => Known::New,
            Some(Validity::Pending) => Known::Pending,
            Some(Validity::Gone) => Known::Handled,
            None if state.known.contains(&self.scoped(id)) => Known::Handled,
            None => Known::New,
        }
    }

    fn write(&self, state: &mut State, stage: u8, write: Writing<Small>) -> Effect<Small> {
        let entity = &mut state.entities[usize::from(stage)];
        let current = entity.current();
        let is_blind = matches!(
            (self.broken, write.step(), write.over()),
            (Some(Broken::NoCondition), ..)
                | (Some(Broken::CreateReplaces), _, None)
                | (Some(Broken::BlindCleanUp), Some(Step::Blank | Step::Remove), _)
        );
        if !is_blind && write.over().copied() != current {
            return write.lapsed(Lapse::Conflict);
        }
        entity.version = match self.broken {
            Some(Broken::VersionIsHash) => hash(write.document()),
            _ => entity.version + 1,
        };
        entity.document = Some(write.document().clone());
        let version = entity.version;
        if let Some(entry) = write.document().entry(write.id()).filter(|_| write.step() == Some(Step::Commit)) {
            state.applied.entry(entry.id).or_default().push(entry.attempt);
        }
        write.written(version)
    }

    fn publish(&self, state: &mut State, stage: u8, run: Option<u8>, publish: Publishing<Small>) -> Effect<Small> {
        if let Some(entry) = publish.entry() {
            let id = Id { stage: stage + 1, message: publish.id().message };
            let made_by = match entry.outputs {
                Outputs::Staged => self.stored(state, entry.attempt, id.message),
                Outputs::ToSend(_) | Outputs::Sent => Some(entry.attempt),
            };
            // Nothing is stored any more: it was sent.
            let Some(made_by) = made_by else { return publish.sent() };
            let attempt = match self.broken {
                Some(Broken::FreshIdsOnResume) => run.unwrap_or_else(|| state.new_run()),
                _ => made_by,
            };
            let tokens = entry.tokens.iter().flatten().copied();
            // What is sent before its token is made carries the id of the token that is made for it next.
            let has_early = !self.is_last(stage) && self.has(Step::Consume);
            let token = tokens.last().or_else(|| has_early.then(|| self.token(state, id.message)));
            state.broker.insert(Held { id, token, attempt: Some(attempt) });
        }
        publish.sent()
    }

    fn sweep_on(&self, state: &mut State, effect: SweepEffect<Small>) -> SweepEffect<Small> {
        let entity = &mut state.entities[0];
        match effect {
            SweepEffect::Look(look) => match entity.document.clone() {
                Some(document) => look.found(document, entity.version),
                None => look.absent(),
            },
            SweepEffect::Fence(fence) if self.broken == Some(Broken::SweepWithoutFence) => fence.written(),
            SweepEffect::Fence(fence) => {
                let current = entity.current();
                if fence.over().copied() != current {
                    return fence.lapsed(Lapse::Conflict);
                }
                entity.version += 1;
                entity.document = Some(fence.document().clone());
                fence.written()
            }
            SweepEffect::Delete(delete) => {
                match delete.leftover() {
                    Leftover::Token(token) if state.validity(*token) == Validity::Pending => {
                        state.tokens.insert(*token, Validity::Gone);
                    }
                    Leftover::Token(_) => {}
                    Leftover::Staged(attempt) => {
                        state.staged.remove(attempt);
                    }
                }
                delete.done()
            }
            SweepEffect::End(swept) => SweepEffect::End(swept),
        }
    }

    fn mark(&self, state: &mut State, mark: Marking<Small>) -> Effect<Small> {
        match mark.mark() {
            Mark::Activate(tokens) => {
                for token in tokens {
                    let validity = state.validity(*token);
                    if validity == Validity::Pending || self.broken == Some(Broken::ActivateCreates) {
                        state.tokens.insert(*token, Validity::Active);
                    }
                }
            }
            Mark::Stage { attempt, .. } => {
                state.staged.insert(self.staged_under(*attempt, mark.id().message), *attempt);
            }
            Mark::Unstage(attempt) => {
                let under = self.staged_under(*attempt, mark.id().message);
                // What was moved is told by whose it is.
                state.staged.retain(|other, made_by| *other != under && (*other < MOVED || made_by != attempt));
            }
            Mark::Remember(id) => {
                state.known.insert(self.scoped(*id));
            }
            Mark::Consume(token) => {
                state.tokens.insert(*token, Validity::Gone);
                if self.broken == Some(Broken::RegisteredOnly) {
                    let made = state.tokens.iter_mut().filter(|(other, _)| other.message == token.message);
                    made.filter(|(_, validity)| **validity == Validity::Pending)
                        .for_each(|(_, validity)| *validity = Validity::Gone);
                }
            }
            Mark::Acknowledge => {
                state.acknowledged.insert(*mark.id());
            }
        }
        mark.done()
    }

    /// Whether everything is over and clean when from here on nothing goes wrong and every message that is not acknowledged
    /// is delivered again.
    pub(super) fn finishes(&self, mut state: State) -> bool {
        for _ in 0..QUIET_ROUNDS {
            let waiting = |held: &&Held| held.id.stage < self.bounds.stages && !state.acknowledged.contains(&held.id);
            let Some(held) = state.broker.iter().find(waiting).copied() else { break };
            self.take(&mut state, Action::Deliver(0, held));
            for _ in 0..QUIET_STEPS {
                self.take(&mut state, Action::Step(0));
            }
        }
        loop {
            let Some(leftover) = state.leftovers().next() else { break };
            self.take(&mut state, Action::Sweep(leftover));
            (0..3).for_each(|_| self.take(&mut state, Action::SweepOn));
            if !std::mem::take(&mut state.seen.swept) {
                return false;
            }
        }
        let handled = |held: &Held| held.id.stage >= self.bounds.stages || state.acknowledged.contains(&held.id);
        state.broker.iter().all(handled) && self.is_clean(&state)
    }
}

fn changes_something(effect: &Effect<Small>) -> bool {
    matches!(
        effect,
        Effect::Handle(_) | Effect::CreateTokens(_) | Effect::Write(_) | Effect::Publish(_) | Effect::Mark(_)
    )
}

pub(super) fn hash(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
