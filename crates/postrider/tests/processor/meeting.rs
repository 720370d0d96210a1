//! Two deliveries at once, in every order of their steps, and one that dies before any of its steps.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use postrider::{Delivery, Processed};

use crate::scene::{MODES, Scene};

/// How many steps of two deliveries are put in order; behind them both go on by themselves.
const STEPS: u32 = 12;

type Running<'a> = Pin<Box<dyn Future<Output = Processed> + 'a>>;

/// Goes one step, where it is not over.
fn step(running: &mut Option<Running<'_>>) -> Option<Processed> {
    let mut context = Context::from_waker(Waker::noop());
    let ready = running.as_mut()?.as_mut().poll(&mut context);
    match ready {
        std::task::Poll::Ready(processed) => {
            *running = None;
            Some(processed)
        }
        std::task::Poll::Pending => None,
    }
}

/// Delivers until it is over.
pub async fn deliver(scene: &Scene, delivery: &Delivery) {
    for _ in 0..50 {
        if scene.processor().process(delivery).await.is_over() {
            return;
        }
    }
    panic!("it is never over");
}

/// What holds once every message was delivered until it was over, and what was left behind is old enough for a sweep.
pub async fn settled(scene: &Scene, items: &[&str], case: &str) {
    if scene.makes_tokens() {
        scene.passes(Duration::from_secs(2 * 3_600));
        let _ = scene.processor().keep_up().await.unwrap();
    }
    let mut found = scene.items().await;
    found.sort_unstable();
    assert_eq!(found, items, "{case}");
    let sent: BTreeSet<String> = scene.sent().into_iter().collect();
    let named: Vec<&str> = sent.iter().filter_map(|text| text.split(' ').next()).collect();
    assert_eq!(named, items, "one output of each, that of the run that was kept: {sent:?}: {case}");
    let order = scene.items().await;
    for text in &sent {
        let (item, number) = text.split_once(" is number ").unwrap();
        assert_eq!(order[number.parse::<usize>().unwrap()], item, "{case}");
    }
    assert_eq!(scene.left().await, 0, "{case}");
    assert_eq!(scene.tokens_left().await, sent.len() * usize::from(scene.makes_tokens()), "{case}");
}

/// Both are the same message, or two of one entity.
#[tokio::test]
async fn two_deliveries_at_once_have_one_effect_for_each_message_in_every_order_of_their_steps() {
    for mode in MODES {
        for is_same in [true, false] {
            for order in 0..1_u32 << STEPS {
                let scene = Scene::new(mode);
                let one = scene.delivery("book").await;
                let two = if is_same { one.clone() } else { scene.delivery("pen").await };
                let (left, right) = (scene.gated(), scene.gated());
                let mut running: [Option<Running<'_>>; 2] =
                    [Some(Box::pin(left.process(&one))), Some(Box::pin(right.process(&two)))];
                for turn in 0..STEPS {
                    let _ = step(&mut running[usize::from(order >> turn & 1 == 1)]);
                }
                // Whoever did not come to its end dies here.
                drop(running);
                deliver(&scene, &one).await;
                deliver(&scene, &two).await;
                let items: &[&str] = if is_same { &["book"] } else { &["book", "pen"] };
                settled(&scene, items, &format!("{mode:?}, the same: {is_same}, order {order:b}")).await;
            }
        }
    }
}

/// It dies, and nothing of it is ever delivered again but by keeping up: what was committed is finished.
#[tokio::test]
async fn what_a_delivery_leaves_that_dies_before_any_step_is_finished_without_it_or_never_began() {
    for mode in MODES {
        let mut deaths = 0;
        for steps in 0.. {
            let scene = Scene::new(mode);
            let book = scene.delivery("book").await;
            let gated = scene.gated();
            let mut running: Option<Running<'_>> = Some(Box::pin(gated.process(&book)));
            for _ in 0..steps {
                let _ = step(&mut running);
            }
            let is_over = running.is_none();
            drop(running);
            scene.passes(Duration::from_secs(2 * 3_600));
            let kept = scene.processor().keep_up().await.unwrap();
            assert!(kept.stuck.is_empty(), "{kept:?}");
            let case = format!("{mode:?}, dead before step {steps}");
            let items = scene.items().await;
            assert_eq!(scene.sent().is_empty(), items.is_empty(), "{case}");
            assert_eq!(scene.left().await, 0, "{case}");
            // Its own token stays as long as the message may come, and that of its output until that is processed.
            let tokens = usize::from(scene.makes_tokens());
            assert_eq!(scene.tokens_left().await, tokens, "{case}");
            deliver(&scene, &book).await;
            settled(&scene, &["book"], &case).await;
            if is_over {
                break;
            }
            deaths += 1;
        }
        assert!(deaths >= 4, "{mode:?}: {deaths}");
    }
}

/// Where one delivery is told that a message was handled while another one is not done with it, it does what that one would.
#[tokio::test]
async fn a_repeat_finishes_what_it_finds_before_it_is_acknowledged() {
    for mode in MODES {
        for steps in 0..STEPS {
            let scene = Scene::new(mode);
            let book = scene.delivery("book").await;
            let gated = scene.gated();
            let mut running: Option<Running<'_>> = Some(Box::pin(gated.process(&book)));
            for _ in 0..steps {
                let _ = step(&mut running);
            }
            drop(running);
            let repeat = Arc::new(scene.processor());
            assert!(repeat.process(&book).await.is_over(), "{mode:?}");
            settled(&scene, &["book"], &format!("{mode:?}, after {steps} steps")).await;
        }
    }
}
