//! What a take that was dropped had asked for.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Incoming, Subscription};

use crate::scene::{PATIENCE, Scene, over, payloads, take, taken};

/// Drops a take while its request waits at the server, and publishes what the request brings then, at least the first of it:
/// it is here, and nobody has taken it.
async fn bring(scene: &Scene, from: &Arc<dyn Subscription>, most: usize, brought: &[&str]) {
    let stream = scene.context.get_stream("ORDERS").await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "no request was there when it was published");
        let waiting = {
            let from = Arc::clone(from);
            tokio::spawn(async move { from.take(NonZeroUsize::new(most).unwrap()).await.map(|taken| taken.len()) })
        };
        while stream.consumer_info("invoices").await.is_ok_and(|info| info.num_waiting == 0) && !waiting.is_finished() {
        }
        waiting.abort();
        scene.publish(brought).await;
        let soon = Instant::now() + Duration::from_secs(1);
        while Instant::now() < soon {
            if stream.consumer_info("invoices").await.unwrap().num_ack_pending > 0 {
                return;
            }
        }
        // The request was over before: once more.
        stream.purge().await.unwrap();
    }
}

/// A message that one has, nobody takes, and another one gets when its time is over: the two, and what the other one got.
async fn with_another_one(scene: &Scene) -> (Arc<dyn Subscription>, Arc<dyn Subscription>, Vec<Incoming>) {
    let (from, other) = (scene.subscribe(), scene.subscribe());
    assert!(take(&from, 10).await.unwrap().is_empty());
    bring(scene, &from, 1, &["1"]).await;
    let elsewhere = taken(&other, 1).await;
    assert_eq!((payloads(&elsewhere).as_slice(), elsewhere[0].deliveries), (&["1".to_owned()][..], Some(2)));
    (from, other, elsewhere)
}

#[tokio::test]
async fn it_comes_to_the_next_one_at_once_and_in_order() {
    let scene = Scene::start().await;
    let from = scene.subscribe();
    assert!(take(&from, 10).await.unwrap().is_empty());
    bring(&scene, &from, 3, &["1", "2", "3", "4", "5"]).await;
    let (mut came, until) = (Vec::new(), Instant::now() + PATIENCE);
    for most in [1, 1, 10].into_iter().cycle() {
        if came.len() == 5 {
            break;
        }
        assert!(Instant::now() < until, "{came:?} came");
        let taken = take(&from, most).await.unwrap();
        assert!(taken.len() <= most);
        assert!(taken.iter().all(|incoming| incoming.deliveries == Some(1)), "it came a second time: {taken:?}");
        came.extend(payloads(&taken));
        over(taken).await;
    }
    assert_eq!(came, ["1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn what_is_another_ones_by_now_is_not_given_here_too() {
    let scene = Scene::start().await;
    let (from, _other, elsewhere) = with_another_one(&scene).await;
    assert!(take(&from, 10).await.unwrap().is_empty(), "it was given although another one has it");
    over(elsewhere).await;
    scene.publish(&["2"]).await;
    assert_eq!(payloads(&taken(&from, 1).await), ["2"]);
}

#[tokio::test]
async fn close_gives_it_back_at_once() {
    let scene = Scene::start().await;
    let (from, other) = (scene.subscribe(), scene.subscribe());
    assert!(take(&from, 10).await.unwrap().is_empty());
    bring(&scene, &from, 1, &["1"]).await;
    let began = Instant::now();
    from.close().await;
    let came = taken(&other, 1).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it came when its time was over");
    assert_eq!((payloads(&came).as_slice(), came[0].deliveries), (&["1".to_owned()][..], Some(2)));
    over(came).await;
}

#[tokio::test]
async fn close_says_nothing_about_what_is_another_ones_by_now() {
    let scene = Scene::start().await;
    let (from, other, elsewhere) = with_another_one(&scene).await;
    from.close().await;
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        assert!(take(&other, 10).await.unwrap().is_empty(), "it came although another one has it");
    }
    over(elsewhere).await;
}
