//! What a consumer is not built with.

use std::time::Duration;

use postrider::consume::{Consumer, ConsumerBuilder, Order};
use postrider::{Attempts, Delivery, ErrorKind, RetryPolicy};

use crate::queue::Queue;

type Handler = fn(Delivery) -> std::future::Ready<Result<(), String>>;

fn builder() -> ConsumerBuilder<Handler> {
    Consumer::builder(Queue::new(), (|_| std::future::ready(Ok(()))) as Handler)
}

#[test]
fn a_setting_out_of_its_range_is_refused_with_its_name_and_the_range() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let retry = RetryPolicy::default();
    for (builder, what, range) in [
        (builder().concurrency(0), "concurrency is 0", "1 to 1024"),
        (builder().concurrency(1_025), "concurrency is 1025", "1 to 1024"),
        (builder().window(15), "window is 15", "16 to 10000"),
        (builder().window(10_001), "window is 10001", "16 to 10000"),
        (builder().handler_timeout(Duration::ZERO), "handler_timeout is 0ns", "1ms to 86400s"),
        (builder().handler_timeout(hours(25)), "handler_timeout is 90000s", "1ms to 86400s"),
        (builder().grace(hours(2)), "grace is 7200s", "0ns to 3600s"),
        (builder().retry(RetryPolicy { maximum: hours(25), ..retry }), "retry.maximum is 90000s", "1ms to 86400s"),
        (builder().retry(RetryPolicy { initial: hours(1), ..retry }), "retry.initial is 3600s", "1ms to 300s"),
        (builder().retry(RetryPolicy { initial: Duration::ZERO, ..retry }), "retry.initial is 0ns", "1ms to 300s"),
        (builder().retry(RetryPolicy { multiplier: 0.5, ..retry }), "retry.multiplier is 0.5", "1.0 to 1000.0"),
        (builder().retry(RetryPolicy { multiplier: f64::NAN, ..retry }), "retry.multiplier is NaN", "1.0 to 1000.0"),
        (builder().retry(RetryPolicy { attempts: Attempts::AtMost(0), ..retry }), "retry.attempts is 0", "1 to"),
        (builder().retry(RetryPolicy { max_age: Some(hours(1)), ..retry }), "retry.max_age", "leave it out"),
    ] {
        let error = builder.build().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(text.contains(what) && text.contains(range), "{text}");
    }
}

#[test]
fn an_order_that_the_broker_does_not_keep_is_refused_with_what_to_do() {
    let error = builder().order(Order::Part).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("queue hands the messages") && error.to_string().contains("Order::Key"),
        "{error}"
    );
    let handler: Handler = |_| std::future::ready(Ok(()));
    Consumer::builder(Queue::in_parts(), handler).order(Order::Part).build().unwrap();
}

#[test]
fn a_setting_at_the_ends_of_its_range_is_taken() {
    let day = Duration::from_secs(86_400);
    let longest = RetryPolicy { initial: day, maximum: day, attempts: Attempts::Unlimited, ..RetryPolicy::default() };
    let most = builder().concurrency(1_024).window(10_000).handler_timeout(day).grace(day / 24).retry(longest);
    most.build().unwrap();
    let shortest = Duration::from_millis(1);
    let shortest = RetryPolicy { initial: shortest, maximum: shortest, multiplier: 1.0, ..RetryPolicy::default() };
    let least = builder().concurrency(1).window(1).handler_timeout(Duration::from_millis(1)).grace(Duration::ZERO);
    least.retry(shortest).build().unwrap();
}

#[test]
fn what_is_shown_of_it_has_its_settings() {
    let shown = format!("{:?} {:?}", builder(), builder().build().unwrap());
    assert!(shown.contains("concurrency: 16") && shown.contains("window: 256"), "{shown}");
}
