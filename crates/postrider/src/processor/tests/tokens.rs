//! What a token says of its message, and what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::receiving::Known;
use postrider_core::{Collection, DocumentStore};
use postrider_testkit::troubled_documents::Call;
use uuid::Uuid;

use super::places::Place;
use super::{Bench, NOON, ROUNDS, again, at, cases, held_up, until};
use crate::processor::entity::stamped;
use crate::processor::tokens::{Owner, Tokens};
use crate::token::Token;

const HOUR: Duration = Duration::from_secs(3_600);

cases![
    what_is_made_for_an_output_is_pending_until_it_is_activated,
    what_is_issued_is_valid_for_every_client_at_once_and_gone_for_every_client_at_once,
    activating_makes_nothing_and_brings_nothing_back,
    consuming_and_revoking_again_does_no_harm,
    of_those_that_activate_and_consume_at_once_the_consumption_stays,
    what_is_discarded_while_it_is_activated_is_valid_or_gone,
    what_is_made_valid_before_it_is_deleted_is_not_discarded,
    what_is_consumed_before_it_is_made_valid_stays_gone,
    what_a_batch_left_that_failed_is_pending_and_named,
    a_look_at_what_is_left_names_what_is_pending_and_old_and_of_this_consumer_only,
    what_is_outstanding_is_named_in_order_and_in_pages_until_it_is_gone,
];

fn both(bench: &Bench) -> [Tokens; 2] {
    bench.clients.each_ref().map(|client| on(bench, Arc::clone(client)))
}

fn on(bench: &Bench, client: Arc<dyn DocumentStore>) -> Tokens {
    Tokens::new(client).unwrap().collection(bench.collection("tokens"))
}

fn owner() -> Owner {
    Owner { consumer: "carts".into(), collection: "carts".into(), entity: "7".into(), message: Uuid::from_u128(7) }
}

/// A token that is made at noon.
fn fresh() -> Uuid {
    stamped(NOON)
}

async fn said(tokens: &Tokens, token: Uuid) -> Known {
    again(|| tokens.ask(token)).await
}

/// Makes one for an output, with another id for each attempt.
async fn pending(tokens: &Tokens, owner: &Owner) -> Uuid {
    let attempt = || async {
        let token = fresh();
        tokens.create(&[token], owner, NOON).await.map(|()| token)
    };
    again(attempt).await
}

async fn activate(tokens: &Tokens, made: &[Uuid]) {
    again(|| tokens.activate(made)).await;
}

async fn consume(tokens: &Tokens, token: Uuid) {
    again(|| tokens.consume(token)).await;
}

/// What a sweep of this consumer looks at, so long after noon.
async fn left(tokens: &Tokens, after: Duration) -> Vec<Uuid> {
    let entities = Collection::new("carts").unwrap();
    let found = again(|| tokens.left("carts", &entities, at(after), None, 100)).await;
    assert!(found.unreadable.is_empty(), "{found:?}");
    assert!(found.tokens.iter().all(|(_, found)| *found == owner()), "{found:?}");
    found.tokens.into_iter().map(|(token, _)| token).collect()
}

async fn what_is_made_for_an_output_is_pending_until_it_is_activated(bench: Bench) {
    let [one, two] = both(&bench);
    let token = pending(&one, &owner()).await;
    assert_eq!((said(&one, token).await, said(&two, token).await), (Known::Pending, Known::Pending));
    for _ in 0..2 {
        activate(&two, &[token]).await;
        assert_eq!((said(&one, token).await, said(&two, token).await), (Known::New, Known::New));
    }
}

async fn what_is_issued_is_valid_for_every_client_at_once_and_gone_for_every_client_at_once(bench: Bench) {
    let [one, two] = both(&bench);
    for _ in 0..ROUNDS {
        let token = again(|| one.issue()).await.0;
        assert_eq!((said(&two, token).await, said(&one, token).await), (Known::New, Known::New));
        consume(&two, token).await;
        assert_eq!((said(&one, token).await, said(&two, token).await), (Known::Handled, Known::Handled));
        let token = pending(&two, &owner()).await;
        assert_eq!(said(&one, token).await, Known::Pending);
        activate(&one, &[token]).await;
        assert_eq!((said(&two, token).await, said(&one, token).await), (Known::New, Known::New));
    }
}

async fn activating_makes_nothing_and_brings_nothing_back(bench: Bench) {
    let [one, two] = both(&bench);
    let (nobody, used) = (fresh(), pending(&one, &owner()).await);
    activate(&one, &[used]).await;
    consume(&two, used).await;
    for token in [nobody, used] {
        activate(&one, &[token]).await;
        assert_eq!((said(&one, token).await, said(&two, token).await), (Known::Handled, Known::Handled));
    }
    // One that does not exist keeps no other from being valid.
    let token = pending(&one, &owner()).await;
    activate(&two, &[nobody, token, used]).await;
    assert_eq!(said(&one, token).await, Known::New);
}

async fn consuming_and_revoking_again_does_no_harm(bench: Bench) {
    let [one, two] = both(&bench);
    let (used, revoked) = (again(|| one.issue()).await, pending(&one, &owner()).await);
    let other = again(|| one.issue()).await.0;
    for tokens in [&one, &two, &one] {
        consume(tokens, used.0).await;
        again(|| tokens.revoke(Token(revoked))).await;
        again(|| tokens.discard(revoked)).await;
    }
    let all = [said(&one, used.0).await, said(&two, revoked).await, said(&two, other).await];
    assert_eq!(all, [Known::Handled, Known::Handled, Known::New]);
}

async fn of_those_that_activate_and_consume_at_once_the_consumption_stays(bench: Bench) {
    let [one, two] = both(&bench);
    for _ in 0..ROUNDS {
        let token = pending(&one, &owner()).await;
        let all = [token];
        tokio::join!(activate(&one, &all), consume(&two, token), activate(&two, &all), consume(&one, token));
        assert_eq!((said(&one, token).await, said(&two, token).await), (Known::Handled, Known::Handled));
    }
}

async fn what_is_discarded_while_it_is_activated_is_valid_or_gone(bench: Bench) {
    let [one, two] = both(&bench);
    for _ in 0..ROUNDS {
        let token = pending(&one, &owner()).await;
        let all = [token];
        tokio::join!(activate(&one, &all), again(|| two.discard(token)));
        let found = said(&two, token).await;
        assert!(matches!(found, Known::New | Known::Handled), "{found:?}");
        // What is valid is not discarded any more.
        again(|| one.discard(token)).await;
        assert_eq!(said(&two, token).await, found);
    }
}

/// It was pending when it was looked at.
async fn what_is_made_valid_before_it_is_deleted_is_not_discarded(bench: Bench) {
    let [one, two] = both(&bench);
    let all = [pending(&one, &owner()).await];
    let sweep = |store| {
        let sweeper = on(&bench, store);
        async move { sweeper.discard(all[0]).await }
    };
    held_up(&bench.clients[1], |call| matches!(call, Call::Delete(_)), sweep, activate(&one, &all)).await;
    assert_eq!(said(&two, all[0]).await, Known::New);
    again(|| two.discard(all[0])).await;
    assert_eq!(said(&one, all[0]).await, Known::New);
}

/// It was there when it was looked at.
async fn what_is_consumed_before_it_is_made_valid_stays_gone(bench: Bench) {
    let [one, two] = both(&bench);
    let token = pending(&one, &owner()).await;
    let send = |store| {
        let sender = on(&bench, store);
        async move { sender.activate(&[token]).await }
    };
    held_up(&bench.clients[1], |call| matches!(call, Call::Replace(..)), send, consume(&one, token)).await;
    assert_eq!((said(&one, token).await, said(&two, token).await), (Known::Handled, Known::Handled));
}

async fn what_a_batch_left_that_failed_is_pending_and_named(bench: Bench) {
    let [one, two] = both(&bench);
    let (there, beside) = (pending(&one, &owner()).await, fresh());
    two.create(&[there, beside], &owner(), NOON).await.expect_err("a token was made that is there");
    // The next attempt has others.
    let next = [pending(&two, &owner()).await, pending(&two, &owner()).await];
    activate(&two, &next).await;
    assert_eq!(said(&one, there).await, Known::Pending);
    let sweep = || async {
        let named = left(&one, 2 * HOUR).await;
        assert!(!next.iter().any(|token| named.contains(token)), "{named:?}");
        for token in named {
            again(|| one.discard(token)).await;
        }
        (said(&two, there).await, said(&two, beside).await) == (Known::Handled, Known::Handled)
    };
    until(sweep).await;
    assert_eq!((said(&two, next[0]).await, said(&two, next[1]).await), (Known::New, Known::New));
}

async fn a_look_at_what_is_left_names_what_is_pending_and_old_and_of_this_consumer_only(bench: Bench) {
    let [one, two] = both(&bench);
    let mine = pending(&one, &owner()).await;
    let valid = pending(&one, &owner()).await;
    activate(&one, &[valid]).await;
    let issued = again(|| one.issue()).await.0;
    let theirs = pending(&one, &Owner { consumer: "totals".into(), ..owner() }).await;
    let elsewhere = pending(&one, &Owner { collection: "other-carts".into(), ..owner() }).await;
    let young = left(&two, HOUR - Duration::from_secs(1)).await;
    assert!(!young.contains(&mine), "{young:?}");
    let look = || async {
        let old = left(&two, HOUR).await;
        for token in [valid, issued, theirs, elsewhere] {
            assert!(!old.contains(&token), "{old:?}");
        }
        old.contains(&mine)
    };
    until(look).await;
}

async fn what_is_outstanding_is_named_in_order_and_in_pages_until_it_is_gone(bench: Bench) {
    let [one, two] = both(&bench);
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(again(|| one.issue()).await);
    }
    let are_named = |tokens: &[Token], named: &[Token]| tokens.iter().all(|token| named.contains(token));
    until(|| async { are_named(&made, &outstanding(&two).await) }).await;
    let (gone, rest) = made.split_at(2);
    consume(&one, gone[0].0).await;
    again(|| one.revoke(gone[1])).await;
    let look = || async {
        let named = outstanding(&two).await;
        are_named(rest, &named) && !gone.iter().any(|token| named.contains(token))
    };
    until(look).await;
}

/// All of them, two at a time.
async fn outstanding(tokens: &Tokens) -> Vec<Token> {
    let mut named: Vec<Token> = Vec::new();
    loop {
        let page = again(|| tokens.outstanding(named.last().copied(), 2)).await;
        assert!(page.iter().all(|token| named.last().is_none_or(|last| last < token)) && page.is_sorted(), "{page:?}");
        let is_last = page.len() < 2;
        named.extend(page);
        if is_last {
            return named;
        }
    }
}

#[tokio::test]
async fn a_store_whose_reads_are_behind_does_not_pass() {
    let case = "what_is_issued_is_valid_for_every_client_at_once_and_gone_for_every_client_at_once";
    super::is_caught("tokens", CASES, case).await;
}

async fn passes(place: &Place) {
    super::passes("tokens", CASES, place).await;
}

over_each_store!(passes);
