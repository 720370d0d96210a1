//! What every driver has of the inbox, written once.

use std::time::Duration;

use postrider::{Advance, Forgotten, InboxError, Message, MessageId, Seen, Sequence};
use uuid::Uuid;

use crate::cases::End;
use crate::keys::{Asked, Reply};

/// What an application asks its inbox in one transaction.
#[derive(Clone)]
pub enum Question {
    Seen(&'static str, MessageId),
    SeenBy(&'static str, &'static str, MessageId),
    Issue(&'static str, MessageId),
    Take(&'static str, MessageId),
    Next(u64),
    Rising(u64),
    Refuse(Message),
    Forget(Duration),
    Key(Asked),
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Seen(Seen),
    By(Advance),
    Refused,
    Issued,
    Forgotten(Forgotten),
    Key(Reply),
}

pub type Answers = Vec<Result<Told, InboxError>>;

/// A driver under test: one transaction that asks each of these in turn.
pub trait Receiver {
    async fn receive(&self, questions: Vec<Question>, end: End) -> Answers;
}

/// Asks one question; `await` behind it for an asynchronous driver.
macro_rules! told {
    ($tx:expr, $question:expr $(, $await:tt)?) => {{
        use crate::inbox::{Question, Told};
        let inbox = postrider::Inbox::new();
        match $question {
            Question::Seen(consumer, id) => inbox.first_seen($tx, consumer, id)$(.$await)?.map(Told::Seen),
            Question::SeenBy(tenant, consumer, id) => {
                inbox.tenant(tenant).first_seen($tx, consumer, id)$(.$await)?.map(Told::Seen)
            }
            Question::Issue(consumer, id) => inbox.issue_token($tx, consumer, id)$(.$await)?.map(|()| Told::Issued),
            Question::Take(consumer, id) => inbox.take_token($tx, consumer, id)$(.$await)?.map(Told::Seen),
            Question::Next(sequence) => inbox.advance($tx, "billing", "orders", 3, sequence)$(.$await)?.map(Told::By),
            Question::Rising(sequence) => {
                inbox.advance_rising($tx, "billing", "log", 0, sequence)$(.$await)?.map(Told::By)
            }
            Question::Refuse(message) => {
                inbox.refuse($tx, "billing", message, "too old")$(.$await)?.map(|()| Told::Refused)
            }
            Question::Forget(keep) => inbox.forget($tx, keep)$(.$await)?.map(Told::Forgotten),
            Question::Key(asked) => crate::keys::replied!($tx, asked $(, $await)?).map(Told::Key),
        }
    }};
}

/// What an asynchronous transaction answers when it is asked each of these in turn; then it ends.
macro_rules! received {
    ($tx:ident, $asked:expr, $questions:ident, $end:ident) => {{
        let mut answers = Vec::new();
        for question in $questions {
            answers.push(crate::inbox::told!($asked, question, await));
        }
        match $end {
            crate::cases::End::Commit => $tx.commit().await.unwrap(),
            crate::cases::End::Rollback => $tx.rollback().await.unwrap(),
        }
        answers
    }};
}

/// Runs every case against a driver; `$fresh` makes one with an empty inbox.
macro_rules! every_inbox_case {
    ($fresh:expr; $($case:ident),* $(,)?) => { $(
        #[tokio::test]
        async fn $case() {
            crate::inbox::$case(&$fresh.await).await;
        }
    )* };
    ($fresh:expr) => { crate::inbox::every_inbox_case! { $fresh;
        a_message_is_first_once_and_a_repeat_ends_no_transaction,
        a_claim_that_is_rolled_back_leaves_nothing,
        consumers_and_tenants_see_every_message_once_each,
        an_id_without_a_time_is_recorded_too,
        what_is_kept_is_remembered_and_what_is_older_is_refused,
        nothing_is_too_old_that_nobody_forgot,
        what_is_kept_for_ever_is_never_forgotten,
        a_token_is_taken_once_and_is_back_when_that_is_rolled_back,
        a_token_counts_for_its_consumer_and_its_message,
        a_token_whose_sender_rolls_back_was_never_issued,
        a_repeat_the_next_and_a_gap_of_a_source_are_told_apart,
        a_source_may_leave_numbers_out,
        a_place_that_is_rolled_back_was_not_reached,
        a_refused_message_is_kept_and_a_second_time_counted,
        a_name_that_breaks_a_limit_is_refused_and_its_transaction_goes_on,
    } };
}
pub(crate) use {every_inbox_case, received, told};

const FIRST: Told = Told::Seen(Seen::First);
const REPEAT: Told = Told::Seen(Seen::Repeat);
const NEXT: Told = Told::By(Advance::Next);
const BEFORE: Told = Told::By(Advance::Repeat);

async fn told_by(driver: &impl Receiver, questions: Vec<Question>, end: End) -> Vec<Told> {
    driver.receive(questions, end).await.into_iter().map(Result::unwrap).collect()
}

/// An id of UUIDv7 that was made at a second of 1970.
fn made_at(second: u64) -> MessageId {
    MessageId(Uuid::from_u128((u128::from(second * 1_000) << 80) | (7 << 76) | (2 << 62) | 5))
}

pub async fn a_message_is_first_once_and_a_repeat_ends_no_transaction(driver: &impl Receiver) {
    let id = MessageId::fresh();
    let twice = vec![Question::Seen("billing", id), Question::Seen("billing", id)];
    assert_eq!(told_by(driver, twice, End::Commit).await, [FIRST, REPEAT]);
    let again = vec![Question::Seen("billing", id), Question::Seen("billing", MessageId::fresh()), Question::Next(1)];
    assert_eq!(told_by(driver, again, End::Commit).await, [REPEAT, FIRST, NEXT]);
}

pub async fn a_claim_that_is_rolled_back_leaves_nothing(driver: &impl Receiver) {
    let id = MessageId::fresh();
    for end in [End::Rollback, End::Rollback, End::Commit] {
        assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], end).await, [FIRST]);
    }
    assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], End::Commit).await, [REPEAT]);
}

pub async fn consumers_and_tenants_see_every_message_once_each(driver: &impl Receiver) {
    let id = MessageId::fresh();
    let everybody = || {
        vec![
            Question::Seen("billing", id),
            Question::Seen("Billing", id),
            Question::Seen("mail 'ä' \\x", id),
            Question::SeenBy("acme", "billing", id),
            Question::SeenBy("umbrella", "billing", id),
        ]
    };
    assert_eq!(told_by(driver, everybody(), End::Commit).await, [FIRST; 5]);
    assert_eq!(told_by(driver, everybody(), End::Commit).await, [REPEAT; 5]);
}

pub async fn an_id_without_a_time_is_recorded_too(driver: &impl Receiver) {
    let ids = [Uuid::nil(), Uuid::max(), Uuid::from_u128(4 << 76 | 2 << 62)].map(MessageId);
    for expected in [FIRST, REPEAT] {
        let asked = ids.iter().map(|id| Question::Seen("billing", *id)).collect();
        assert_eq!(told_by(driver, asked, End::Commit).await, vec![expected; 3]);
    }
}

pub async fn what_is_kept_is_remembered_and_what_is_older_is_refused(driver: &impl Receiver) {
    let id = MessageId::fresh();
    assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], End::Commit).await, [FIRST]);
    let round = Question::Forget(Duration::from_secs(3_600));
    let forgotten = told_by(driver, vec![round], End::Commit).await;
    assert!(matches!(forgotten[..], [Told::Forgotten(Forgotten { records: 0, more: false, .. })]), "{forgotten:?}");
    assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], End::Commit).await, [REPEAT]);
    let old = driver.receive(vec![Question::Seen("billing", made_at(1_600_000_000))], End::Rollback).await;
    assert!(matches!(old[..], [Err(InboxError::TooOld)]), "{old:?}");
}

pub async fn nothing_is_too_old_that_nobody_forgot(driver: &impl Receiver) {
    for second in [1, 1_600_000_000] {
        let old = vec![Question::Seen("billing", made_at(second)); 2];
        assert_eq!(told_by(driver, old, End::Commit).await, [FIRST, REPEAT], "of {second}");
    }
}

/// Longer than clocks count back.
pub async fn what_is_kept_for_ever_is_never_forgotten(driver: &impl Receiver) {
    let id = MessageId::fresh();
    assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], End::Commit).await, [FIRST]);
    for keep in [Duration::from_secs(60 * 31_557_600), Duration::from_secs(100 * 31_557_600), Duration::MAX] {
        let forgotten = told_by(driver, vec![Question::Forget(keep)], End::Commit).await;
        assert!(matches!(forgotten[..], [Told::Forgotten(Forgotten { records: 0, .. })]), "{keep:?}: {forgotten:?}");
        assert_eq!(told_by(driver, vec![Question::Seen("billing", id)], End::Commit).await, [REPEAT], "{keep:?}");
        let fresh = vec![Question::Seen("billing", MessageId::fresh())];
        assert_eq!(told_by(driver, fresh, End::Commit).await, [FIRST], "{keep:?}");
    }
}

pub async fn a_token_is_taken_once_and_is_back_when_that_is_rolled_back(driver: &impl Receiver) {
    let id = MessageId::fresh();
    // Issued twice by its sender, it is one.
    let issue = vec![Question::Issue("billing", id), Question::Issue("billing", id)];
    assert_eq!(told_by(driver, issue, End::Commit).await, [Told::Issued, Told::Issued]);
    for end in [End::Rollback, End::Rollback, End::Commit] {
        let twice = vec![Question::Take("billing", id), Question::Take("billing", id)];
        assert_eq!(told_by(driver, twice, end).await, [FIRST, REPEAT]);
    }
    assert_eq!(told_by(driver, vec![Question::Take("billing", id)], End::Commit).await, [REPEAT]);
}

pub async fn a_token_counts_for_its_consumer_and_its_message(driver: &impl Receiver) {
    let (id, other) = (MessageId::fresh(), MessageId::fresh());
    told_by(driver, vec![Question::Issue("billing", id), Question::Issue("mail", id)], End::Commit).await;
    let asked = vec![
        Question::Take("billing", other),
        Question::Take("Billing", id),
        Question::Take("billing", id),
        Question::Take("mail", id),
        Question::Take("mail", id),
    ];
    assert_eq!(told_by(driver, asked, End::Commit).await, [REPEAT, REPEAT, FIRST, FIRST, REPEAT]);
}

pub async fn a_token_whose_sender_rolls_back_was_never_issued(driver: &impl Receiver) {
    let id = MessageId::fresh();
    told_by(driver, vec![Question::Issue("billing", id)], End::Rollback).await;
    assert_eq!(told_by(driver, vec![Question::Take("billing", id)], End::Commit).await, [REPEAT]);
}

pub async fn a_repeat_the_next_and_a_gap_of_a_source_are_told_apart(driver: &impl Receiver) {
    let asked = [7, 7, 6, 9, 8, 9, 7].map(Question::Next).to_vec();
    let gap = Told::By(Advance::Gap { first: Sequence(8) });
    let expected = [NEXT, BEFORE, BEFORE, gap, NEXT, NEXT, BEFORE];
    assert_eq!(told_by(driver, asked, End::Commit).await, expected);
    let asked = [9, 10, 12].map(Question::Next).to_vec();
    let gap = Told::By(Advance::Gap { first: Sequence(11) });
    assert_eq!(told_by(driver, asked, End::Commit).await, [BEFORE, NEXT, gap]);
}

pub async fn a_source_may_leave_numbers_out(driver: &impl Receiver) {
    let asked = [0, 1, 5, 5, 3, u64::MAX >> 1, 6].map(Question::Rising).to_vec();
    let expected = [NEXT, NEXT, NEXT, BEFORE, BEFORE, NEXT, BEFORE];
    assert_eq!(told_by(driver, asked, End::Commit).await, expected);
}

pub async fn a_place_that_is_rolled_back_was_not_reached(driver: &impl Receiver) {
    for end in [End::Rollback, End::Commit] {
        assert_eq!(told_by(driver, vec![Question::Next(4), Question::Next(5)], end).await, [NEXT; 2]);
    }
    assert_eq!(told_by(driver, vec![Question::Next(5), Question::Next(6)], End::Rollback).await, [BEFORE, NEXT]);
    assert_eq!(told_by(driver, vec![Question::Next(6)], End::Commit).await, [NEXT]);
}

pub async fn a_refused_message_is_kept_and_a_second_time_counted(driver: &impl Receiver) {
    let message = Message::new("orders.placed", b"\x00\xff".to_vec()).key("7").header("a", "ä");
    let plain = Message::new("t", "");
    for _ in 0..2 {
        let asked = vec![Question::Refuse(message.clone()), Question::Refuse(plain.clone())];
        assert_eq!(told_by(driver, asked, End::Commit).await, vec![Told::Refused; 2]);
    }
}

pub async fn a_name_that_breaks_a_limit_is_refused_and_its_transaction_goes_on(driver: &impl Receiver) {
    let id = MessageId::fresh();
    let bad = vec![
        Question::Seen("", id),
        Question::Seen("a@b", id),
        Question::SeenBy("acme ", "billing", id),
        Question::Next(u64::MAX),
        Question::Seen("billing", id),
    ];
    let answers = driver.receive(bad, End::Commit).await;
    assert!(answers[..4].iter().all(|answer| matches!(answer, Err(InboxError::Invalid(_)))), "{answers:?}");
    assert_eq!(*answers[4].as_ref().unwrap(), FIRST);
}
