//! What is handled long after its id was made: where records are deleted one by one, it counts when they were made.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::{Forgotten, InboxError, MessageId, Seen};
use postrider_testkit::servers::mariadb;
use uuid::Uuid;

use crate::applications::{Application, Mysql};
use crate::forgetting::first;
use crate::{HOUR, made, on_those_that_delete};

const KEPT: Duration = Duration::from_secs(22 * 3_600);

on_those_that_delete!(
    what_is_handled_late_is_a_repeat_until_its_time_is_over,
    what_is_handled_late_keeps_nothing_else_from_being_forgotten,
);

/// Rounds until one says that there is no more; what went in each.
async fn rounds(app: &impl Application, limit: u32) -> Vec<u64> {
    let mut operator = app.operator().await;
    let mut all = Vec::new();
    loop {
        let Forgotten { records, more, .. } = operator.forget(KEPT, limit).await.unwrap();
        all.push(records);
        assert!(records <= u64::from(limit) && all.len() < 100, "{all:?}");
        if !more {
            return all;
        }
    }
}

async fn is_too_old(app: &mut impl Application, consumer: &str, id: MessageId) -> bool {
    matches!(app.first_seen(consumer, id).await, Err(InboxError::TooOld))
}

/// Its acknowledgement is lost, and it comes again behind a round that forgets the time of its id.
async fn what_is_handled_late_is_a_repeat_until_its_time_is_over(app: &mut impl Application) {
    let (late, other) = (made(23 * HOUR), made(23 * HOUR));
    first(app, "billing", &[late]).await;
    for aged in [Duration::ZERO, 20 * HOUR] {
        app.age("billing", aged).await;
        assert_eq!(rounds(app, 10).await, [0]);
        assert_eq!(app.first_seen("billing", late).await.unwrap(), Seen::Repeat, "{aged:?}");
        // Of these nothing is recorded: they may be forgotten.
        assert!(is_too_old(app, "mail", late).await && is_too_old(app, "billing", other).await);
    }
    app.age("billing", 3 * HOUR).await;
    assert_eq!(rounds(app, 10).await, [1]);
    assert!(is_too_old(app, "billing", late).await);
}

/// There are more of them than one round looks at, before, between and behind what is to go.
async fn what_is_handled_late_keeps_nothing_else_from_being_forgotten(app: &mut impl Application) {
    let minutes = |minute: u32| made(30 * HOUR - minute * Duration::from_secs(60));
    let (late, old): (Vec<_>, Vec<_>) = (0..120).partition(|minute| minute % 60 < 40);
    let (late, old): (Vec<_>, Vec<_>) =
        (late.into_iter().map(minutes).collect(), old.into_iter().map(minutes).collect());
    first(app, "billing", &late).await;
    first(app, "long ago", &old).await;
    app.age("long ago", 40 * HOUR).await;
    assert_eq!(rounds(app, 10).await.iter().sum::<u64>(), 40);
    assert_eq!(rounds(app, 10).await.iter().sum::<u64>(), 0);
    for id in late {
        assert_eq!(app.first_seen("billing", id).await.unwrap(), Seen::Repeat, "{id}");
    }
    assert!(is_too_old(app, "long ago", old[0]).await && is_too_old(app, "long ago", old[39]).await);
}

/// As the procedure tells it that every other language calls.
#[tokio::test]
async fn on_mysql_the_procedure_tells_a_repeat_of_what_was_handled_late() {
    let mut app = Mysql::fresh().await;
    let late = made(23 * HOUR);
    assert_eq!(called(&mut app.connection, late).await.unwrap(), 1);
    assert_eq!(rounds(&app, 10).await, [0]);
    assert_eq!(called(&mut app.connection, late).await.unwrap(), 0);
    let refused = called(&mut app.connection, made(23 * HOUR)).await.unwrap_err();
    assert!(refused.to_string().contains("postrider: the message is too old"), "{refused}");
}

/// A user with no more rights than docs/sql.md asks for.
#[tokio::test]
async fn on_mysql_the_documented_rights_are_enough_to_be_told_a_late_repeat() {
    let mut app = Mysql::fresh().await;
    let (server, user) = (mariadb::shared().await.unwrap(), format!("r{}", &Uuid::new_v4().simple().to_string()[..12]));
    let database = app.url.rsplit_once('/').unwrap().1.to_owned();
    for statement in [
        format!("create user '{user}'@'%' identified by 'secret'"),
        format!("grant execute on procedure postrider_first_seen to '{user}'@'%'"),
        format!("grant select, insert on postrider_inbox to '{user}'@'%'"),
        format!("grant insert on postrider_inbox_foreign to '{user}'@'%'"),
        format!("grant select, update on postrider_inbox_span to '{user}'@'%'"),
    ] {
        app.connection.query_drop(statement).await.unwrap();
    }
    let mut receiver = Conn::from_url(server.url_as(&user, "secret", &database)).await.unwrap();
    let late = made(23 * HOUR);
    assert_eq!(called(&mut receiver, late).await.unwrap(), 1);
    assert_eq!(rounds(&app, 10).await, [0]);
    assert_eq!(called(&mut receiver, late).await.unwrap(), 0);
    assert_eq!(app.first_seen("billing", late).await.unwrap(), Seen::Repeat);
}

async fn called(connection: &mut Conn, id: MessageId) -> mysql_async::Result<i64> {
    connection.query_drop(format!("call postrider_first_seen('billing', '{id}', @first)")).await?;
    Ok(connection.query_first("select @first").await?.unwrap())
}
