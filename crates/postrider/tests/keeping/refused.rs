//! What was refused is looked at by a person, and discarded.

use std::time::Duration;

use postrider::{Message, MessageId};
use postrider_core::{Operator, RefusedFilter, RefusedGroup, RefusedView};

use crate::applications::Application;
use crate::{DAY, HOUR, made, on_every_database};

on_every_database!(what_was_refused_is_shown_as_it_came, what_was_refused_is_found_by_each_condition_and_discarded);

async fn all(operator: &mut dyn Operator, filter: &RefusedFilter) -> Vec<RefusedView> {
    operator.refused(filter, 100).await.unwrap()
}

async fn what_was_refused_is_shown_as_it_came(app: &mut impl Application) {
    let mut message = Message::new("orders.placed", b"\x00\xff".to_vec()).key("ä 7").header("a", "ö");
    message.id = made(2 * DAY);
    message.content_type = Some("application/octet-stream".to_owned());
    app.refuse("billing", message.clone()).await;
    app.refuse("billing", message.clone()).await;
    let found = all(&mut *app.operator().await, &RefusedFilter::default()).await;
    assert_eq!(found.len(), 1);
    let found = &found[0];
    let (consumer, reason) = (found.consumer.as_str(), found.reason.as_str());
    assert_eq!((consumer, reason, found.times), ("billing", "too old", 2));
    assert_eq!(
        (found.message.id, &found.message.topic, &found.message.key),
        (message.id, &message.topic, &message.key)
    );
    assert_eq!(found.message.content_type, message.content_type);
    assert_eq!((&found.message.headers, &found.message.payload), (&message.headers, &message.payload));
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = since.as_micros().abs_diff(u128::try_from(found.refused_at.0).unwrap());
    assert!(age < HOUR.as_micros(), "{}", found.refused_at.0);
}

async fn what_was_refused_is_found_by_each_condition_and_discarded(app: &mut impl Application) {
    let ids: Vec<MessageId> = (1..=5).rev().map(|n| made(n * HOUR)).collect();
    for (place, id) in ids.iter().enumerate() {
        let mut message = Message::new(["orders.placed", "orders.paid"][place % 2], "x");
        message.id = *id;
        app.refuse(["billing", "mail"][usize::from(place > 2)], message).await;
    }
    let mut operator = app.operator().await;
    let any = RefusedFilter::default;
    let mail = RefusedFilter { consumer: Some("mail".to_owned()), ..any() };
    let paid = RefusedFilter { topic: Some("orders.paid".to_owned()), ..any() };
    let cases = [
        (any(), ids.clone()),
        (RefusedFilter { ids: vec![ids[3], ids[0]], ..any() }, vec![ids[0], ids[3]]),
        (mail.clone(), ids[3..].to_vec()),
        (paid.clone(), vec![ids[1], ids[3]]),
        (RefusedFilter { consumer: Some("mail".to_owned()), ..paid }, vec![ids[3]]),
        (RefusedFilter { older_than: Some(HOUR), ..any() }, vec![]),
        (RefusedFilter { older_than: Some(Duration::ZERO), ..any() }, ids.clone()),
    ];
    for (filter, expected) in cases {
        let found: Vec<_> = all(&mut *operator, &filter).await.iter().map(|view| view.message.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        let groups = operator.refused_groups(&filter).await.unwrap();
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), expected.len() as u64, "{filter:?}");
    }
    let groups = operator.refused_groups(&any()).await.unwrap();
    let expected = [("billing", "too old", 3), ("mail", "too old", 2)];
    let seen = |group: &RefusedGroup| (group.consumer.clone(), group.reason.clone(), group.count);
    let expected = expected.map(|(consumer, reason, count)| (consumer.to_owned(), reason.to_owned(), count));
    assert_eq!(groups.iter().map(seen).collect::<Vec<_>>(), expected);
    assert_eq!(operator.discard_refused(&mail, 1).await.unwrap(), [ids[3]]);
    assert_eq!(operator.discard_refused(&mail, 10).await.unwrap(), [ids[4]]);
    assert!(operator.discard_refused(&mail, 10).await.unwrap().is_empty());
    assert_eq!(all(&mut *operator, &any()).await.len(), 3);
}
