//! sqlx and mysql_async on a real MariaDB.

use mysql_async::{Pool, TxOpts};
use postrider::testing::enqueued;
use postrider::{Message, Outbox};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::mariadb::shared;
use sqlx::MySqlPool;

use crate::{messages, says_what_to_do};

#[tokio::test]
async fn what_both_drivers_wrote_to_mariadb_is_read_back_before_the_commit_too() {
    let Some(server) = installed("what is read back from MariaDB", shared().await) else { return };
    let url = server.url_for(&server.create_database().await.unwrap());
    let outbox = Outbox::new().prefix("shop_").unwrap();
    let pool = MySqlPool::connect(&url).await.unwrap();
    let other = Pool::from_url(&url).unwrap();
    says_what_to_do(enqueued(&outbox, &pool).await);
    says_what_to_do(enqueued(&outbox, &other).await);
    outbox.migrate(&pool).await.unwrap();

    let messages = messages();
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue_all(&mut tx, messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, &mut *tx).await.unwrap(), messages);
    assert!(enqueued(&outbox, &other).await.unwrap().is_empty(), "it is not committed");
    tx.commit().await.unwrap();

    let more = vec![Message::new("b", "more")];
    let both = [messages.clone(), more.clone()].concat();
    let mut connection = other.get_conn().await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    outbox.enqueue_all(&mut tx, more).await.unwrap();
    assert_eq!(enqueued(&outbox, &mut tx).await.unwrap(), both);
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), messages, "it is not committed");
    tx.commit().await.unwrap();
    assert_eq!(enqueued(&outbox, &mut connection).await.unwrap(), both);
    assert_eq!(enqueued(&outbox, &other).await.unwrap(), both);
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), both);
}
