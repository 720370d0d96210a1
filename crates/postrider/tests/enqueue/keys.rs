//! What every driver has of the keys of requests, written once.

use std::time::{Duration, Instant};

use postrider::{Begun, Epoch, Fingerprint, Forgotten, IdempotencyKeys, InboxError, ScopedKey, StoredAnswer};

use crate::cases::End;
use crate::inbox::{Question, Receiver, Told};

/// What an application asks of its keys.
#[derive(Clone)]
pub enum Asked {
    Begin(ScopedKey, Fingerprint, Duration),
    /// With a first epoch of the library's, and a lease that is over at once.
    BeginAnew(ScopedKey),
    Answer(ScopedKey, Epoch, StoredAnswer),
    Release(ScopedKey, Epoch),
    ForgetKey(ScopedKey),
    Forget(Duration),
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Begun(Begun<StoredAnswer>),
    Answered(StoredAnswer),
    Released,
    Forgot(u64),
    Forgotten(Forgotten),
}

/// Asks one question; `await` behind it for an asynchronous driver.
macro_rules! replied {
    ($tx:expr, $asked:expr $(, $await:tt)?) => {{
        use crate::keys::{Asked, Reply};
        let keys = crate::keys::counting().largest_answer(crate::keys::LARGEST);
        match $asked {
            Asked::Begin(key, fingerprint, lease) => {
                keys.begin($tx, &key, fingerprint, lease)$(.$await)?.map(Reply::Begun)
            }
            Asked::BeginAnew(key) => {
                let keys = postrider::IdempotencyKeys::new();
                keys.begin($tx, &key, crate::keys::ASKED, std::time::Duration::ZERO)$(.$await)?.map(Reply::Begun)
            }
            Asked::Answer(key, epoch, answer) => keys.answer($tx, &key, epoch, answer)$(.$await)?.map(Reply::Answered),
            Asked::Release(key, epoch) => keys.release($tx, &key, epoch)$(.$await)?.map(|()| Reply::Released),
            Asked::ForgetKey(key) => keys.forget_key($tx, &key)$(.$await)?.map(Reply::Forgot),
            Asked::Forget(keep) => keys.forget($tx, keep)$(.$await)?.map(Reply::Forgotten),
        }
    }};
}

/// Runs every case against a driver; `$fresh` makes one with empty tables.
macro_rules! every_key_case {
    ($fresh:expr; $($case:ident),* $(,)?) => { $(
        #[tokio::test]
        async fn $case() {
            crate::keys::$case(&$fresh.await).await;
        }
    )* };
    ($fresh:expr) => { crate::keys::every_key_case! { $fresh;
        a_request_begins_once_and_the_next_ones_are_told_that_it_is_worked_on,
        an_answered_request_gets_the_same_answer_again,
        an_answer_may_be_empty,
        another_request_with_the_key_is_told_so_whatever_became_of_the_first,
        a_request_whose_server_died_begins_again_when_its_lease_has_ended,
        who_was_taken_over_cannot_answer,
        an_answer_that_is_rolled_back_was_not_given,
        a_released_key_begins_again_at_once,
        callers_and_operations_do_not_share_keys,
        a_forgotten_key_stands_for_another_request,
        who_worked_on_a_key_before_it_was_forgotten_cannot_answer,
        what_is_kept_is_not_forgotten_and_what_is_older_is,
        an_answer_that_breaks_a_limit_is_refused_and_its_transaction_goes_on,
    } };
}
pub(crate) use {every_key_case, replied};

pub const LARGEST: usize = 100_000;
const MINUTE: Duration = Duration::from_secs(60);
pub const ASKED: Fingerprint = Fingerprint([7; 32]);
pub const OTHER: Fingerprint = Fingerprint([0xff; 32]);

/// Keys whose epochs begin at 1.
pub fn counting() -> IdempotencyKeys {
    IdempotencyKeys::new().first_epoch(Epoch(1))
}

pub fn key() -> ScopedKey {
    ScopedKey::new("alice", "POST /orders", "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"").unwrap()
}

pub fn created(body: impl Into<Vec<u8>>) -> StoredAnswer {
    let headers = [("content-type", "application/json"), ("link", "</a>"), ("link", "</ä: b>"), ("etag", "")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    StoredAnswer { status: 201, headers, body: body.into() }
}

fn begin(key: ScopedKey, fingerprint: Fingerprint) -> Asked {
    Asked::Begin(key, fingerprint, MINUTE)
}

/// Begins with a lease that is over at once.
fn touch(key: ScopedKey) -> Asked {
    Asked::Begin(key, ASKED, Duration::ZERO)
}

fn started(epoch: u64) -> Reply {
    Reply::Begun(Begun::Started(Epoch(epoch)))
}

async fn ask(driver: &impl Receiver, asked: Asked, end: End) -> Result<Reply, InboxError> {
    let mut told = driver.receive(vec![Question::Key(asked)], end).await;
    match told.pop().unwrap()? {
        Told::Key(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

/// Asks in a transaction of its own.
async fn told(driver: &impl Receiver, asked: Asked) -> Reply {
    ask(driver, asked, End::Commit).await.unwrap()
}

async fn is_superseded(driver: &impl Receiver, epoch: u64) -> bool {
    let answer = Asked::Answer(key(), Epoch(epoch), created("another"));
    matches!(ask(driver, answer, End::Rollback).await, Err(InboxError::Superseded))
}

pub async fn a_request_begins_once_and_the_next_ones_are_told_that_it_is_worked_on(driver: &impl Receiver) {
    let twice = [begin(key(), ASKED), begin(key(), ASKED)].map(Question::Key).to_vec();
    let told_twice: Vec<_> = driver.receive(twice, End::Commit).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(told_twice[0], Told::Key(started(1)));
    for reply in [told_twice[1].clone(), Told::Key(told(driver, begin(key(), ASKED)).await)] {
        let Told::Key(Reply::Begun(Begun::InProgress { retry_after })) = reply else { panic!("{reply:?}") };
        assert!(retry_after <= MINUTE && retry_after > MINUTE / 2, "{retry_after:?}");
    }
}

pub async fn an_answered_request_gets_the_same_answer_again(driver: &impl Receiver) {
    let body: Vec<u8> = (0..=255).cycle().take(LARGEST - 200).collect();
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(1));
    let answer = Asked::Answer(key(), Epoch(1), created(body.clone()));
    assert_eq!(told(driver, answer).await, Reply::Answered(created(body.clone())));
    for _ in 0..2 {
        assert_eq!(told(driver, touch(key())).await, Reply::Begun(Begun::Replay(created(body.clone()))));
    }
    assert!(is_superseded(driver, 1).await, "a second answer");
}

pub async fn an_answer_may_be_empty(driver: &impl Receiver) {
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(1));
    let empty = StoredAnswer { status: 204, ..StoredAnswer::default() };
    assert_eq!(told(driver, Asked::Answer(key(), Epoch(1), empty.clone())).await, Reply::Answered(empty.clone()));
    assert_eq!(told(driver, begin(key(), ASKED)).await, Reply::Begun(Begun::Replay(empty)));
}

pub async fn another_request_with_the_key_is_told_so_whatever_became_of_the_first(driver: &impl Receiver) {
    let mismatch = Reply::Begun(Begun::Mismatch);
    assert_eq!(told(driver, touch(key())).await, started(1));
    assert_eq!(told(driver, begin(key(), OTHER)).await, mismatch);
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(2));
    assert_eq!(told(driver, begin(key(), OTHER)).await, mismatch);
    told(driver, Asked::Answer(key(), Epoch(2), created("done"))).await;
    assert_eq!(told(driver, begin(key(), OTHER)).await, mismatch);
}

pub async fn a_request_whose_server_died_begins_again_when_its_lease_has_ended(driver: &impl Receiver) {
    for epoch in 1..4 {
        assert_eq!(told(driver, touch(key())).await, started(epoch));
    }
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(4));
    assert!(matches!(told(driver, touch(key())).await, Reply::Begun(Begun::InProgress { .. })));
}

pub async fn who_was_taken_over_cannot_answer(driver: &impl Receiver) {
    assert!(is_superseded(driver, 1).await, "nobody began");
    assert_eq!(told(driver, touch(key())).await, started(1));
    assert_eq!(told(driver, touch(key())).await, started(2));
    assert!(is_superseded(driver, 1).await);
    // Its lease is over too, and nobody has taken it over.
    told(driver, Asked::Answer(key(), Epoch(2), created("done"))).await;
    assert!(is_superseded(driver, 1).await);
    assert_eq!(told(driver, touch(key())).await, Reply::Begun(Begun::Replay(created("done"))));
}

pub async fn an_answer_that_is_rolled_back_was_not_given(driver: &impl Receiver) {
    assert_eq!(told(driver, touch(key())).await, started(1));
    let answer = Asked::Answer(key(), Epoch(1), created("lost"));
    assert_eq!(ask(driver, answer, End::Rollback).await.unwrap(), Reply::Answered(created("lost")));
    assert_eq!(told(driver, touch(key())).await, started(2));
}

pub async fn a_released_key_begins_again_at_once(driver: &impl Receiver) {
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(1));
    told(driver, Asked::Release(key(), Epoch(1))).await;
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(2));
    told(driver, Asked::Release(key(), Epoch(1))).await;
    assert!(matches!(told(driver, touch(key())).await, Reply::Begun(Begun::InProgress { .. })), "it is another one's");
    told(driver, Asked::Answer(key(), Epoch(2), created("done"))).await;
    told(driver, Asked::Release(key(), Epoch(2))).await;
    assert_eq!(told(driver, touch(key())).await, Reply::Begun(Begun::Replay(created("done"))));
}

pub async fn callers_and_operations_do_not_share_keys(driver: &impl Receiver) {
    let scopes =
        [("alice", "POST /orders"), ("Alice", "POST /orders"), ("alice", "POST /orders/7"), ("älice 'x' \\", "é")];
    let keys = || scopes.map(|(caller, operation)| ScopedKey::new(caller, operation, "k").unwrap());
    let upper = ScopedKey::new("alice", "POST /orders", "K").unwrap();
    for key in keys().into_iter().chain([upper]) {
        assert_eq!(told(driver, begin(key.clone(), OTHER)).await, started(1), "{key:?}");
    }
    let [first, second, ..] = keys();
    told(driver, Asked::Answer(first.clone(), Epoch(1), created("hers"))).await;
    assert!(matches!(told(driver, begin(second, OTHER)).await, Reply::Begun(Begun::InProgress { .. })));
    assert_eq!(told(driver, begin(first, OTHER)).await, Reply::Begun(Begun::Replay(created("hers"))));
}

pub async fn a_forgotten_key_stands_for_another_request(driver: &impl Receiver) {
    assert_eq!(told(driver, Asked::ForgetKey(key())).await, Reply::Forgot(0));
    assert_eq!(told(driver, touch(key())).await, started(1));
    assert_eq!(told(driver, Asked::ForgetKey(key())).await, Reply::Forgot(0), "somebody may work on it");
    told(driver, Asked::Answer(key(), Epoch(1), created("done"))).await;
    assert_eq!(told(driver, Asked::ForgetKey(key())).await, Reply::Forgot(1));
    assert_eq!(told(driver, begin(key(), OTHER)).await, started(1));
}

/// Two servers had it, the second one answered, and the client needs the answer no more.
pub async fn who_worked_on_a_key_before_it_was_forgotten_cannot_answer(driver: &impl Receiver) {
    let begun = async || match told(driver, Asked::BeginAnew(key())).await {
        Reply::Begun(Begun::Started(epoch)) => epoch,
        reply => panic!("{reply:?}"),
    };
    let (first, second) = (begun().await, begun().await);
    assert_eq!(second.0, first.0 + 1);
    told(driver, Asked::Answer(key(), second, created("done"))).await;
    assert_eq!(told(driver, Asked::ForgetKey(key())).await, Reply::Forgot(1));
    let third = begun().await;
    for gone in [first, second] {
        assert!(is_superseded(driver, gone.0).await, "{third:?} works on it");
    }
    assert_eq!(told(driver, Asked::Answer(key(), third, created("new"))).await, Reply::Answered(created("new")));
}

pub async fn what_is_kept_is_not_forgotten_and_what_is_older_is(driver: &impl Receiver) {
    let other = ScopedKey::new("alice", "POST /orders", "k").unwrap();
    assert_eq!(told(driver, touch(key())).await, started(1));
    told(driver, Asked::Answer(key(), Epoch(1), created("done"))).await;
    assert_eq!(told(driver, begin(other.clone(), ASKED)).await, started(1));
    for keep in [MINUTE, Duration::MAX] {
        assert_eq!(told(driver, Asked::Forget(keep)).await, Reply::Forgotten(Forgotten::default()));
    }
    let begun = Instant::now();
    loop {
        match told(driver, Asked::Forget(Duration::ZERO)).await {
            Reply::Forgotten(Forgotten { records: 1, more: false, .. }) => break,
            // The clock of the database is still where it was at the answer.
            reply => assert!(begun.elapsed() < MINUTE, "{reply:?}"),
        }
    }
    assert_eq!(told(driver, begin(key(), OTHER)).await, started(1));
    assert!(matches!(told(driver, touch(other)).await, Reply::Begun(Begun::InProgress { .. })), "it is leased");
}

pub async fn an_answer_that_breaks_a_limit_is_refused_and_its_transaction_goes_on(driver: &impl Receiver) {
    assert_eq!(told(driver, begin(key(), ASKED)).await, started(1));
    let mut bad = created("x");
    bad.headers.push(("x".to_owned(), "a\r\nset-cookie: b".to_owned()));
    let asked = [bad, created(vec![0; LARGEST]), created("fits")].map(|answer| Asked::Answer(key(), Epoch(1), answer));
    let told_all = driver.receive(asked.map(Question::Key).to_vec(), End::Commit).await;
    assert!(told_all[..2].iter().all(|told| matches!(told, Err(InboxError::Invalid(_)))), "{told_all:?}");
    assert_eq!(*told_all[2].as_ref().unwrap(), Told::Key(Reply::Answered(created("fits"))));
    assert_eq!(told(driver, begin(key(), ASKED)).await, Reply::Begun(Begun::Replay(created("fits"))));
    assert!(IdempotencyKeys::new().prefix("A").is_err());
}
