//! The outbox of one case, its receiver, and what is written into it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};
use postrider::{Message, Outbox};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::verdict::Committed;
use rusqlite::{Connection, TransactionBehavior};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

/// Transactions of one load; every fifth is rolled back.
const TRANSACTIONS: usize = 25;
const MESSAGES: usize = 4;
const KEYS: usize = 7;

/// The payload of the message that is refused once, so that there is something to try again and something behind it.
const REFUSED_ONCE: &str = "refused once";

/// Where one case takes place.
pub struct Place {
    folder: PathBuf,
    pub store: String,
    pub receiver: HttpReceiver,
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Place {
    /// A new folder, and a receiver of its own.
    pub fn new(runtime: &Runtime, folder: &Path, store: String) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let receiver = runtime.block_on(HttpReceiver::start()).unwrap();
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let (record, refused) = (Arc::clone(&accepted), AtomicBool::new(false));
        receiver.script(move |request, _| {
            if request.body == REFUSED_ONCE && !refused.swap(true, Ordering::SeqCst) {
                return Answer::Status(422);
            }
            record.lock().unwrap().push(request.header("webhook-id").unwrap_or_default().to_owned());
            Answer::Status(204)
        });
        Self { folder: folder.to_owned(), store, receiver, accepted }
    }

    /// Where a relay of this name logs.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// The ids that were accepted, in order.
    pub fn accepted(&self) -> Vec<String> {
        self.accepted.lock().unwrap().clone()
    }

    /// Commits some transactions, rolls others back, and says what was committed.
    pub fn write(&self) -> Vec<Committed> {
        if self.store.starts_with("sqlite") {
            return self.write_sqlite();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if self.store.starts_with("mysql") {
            return runtime.block_on(self.write_mariadb());
        }
        runtime.block_on(self.write_postgres())
    }

    fn write_sqlite(&self) -> Vec<Committed> {
        let mut connection = Connection::open(self.folder.join("shop.db")).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        let (outbox, mut committed) = (Outbox::new(), Vec::new());
        for number in 0..TRANSACTIONS {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            let written = (0..MESSAGES).map(|place| {
                let key = key(number, place);
                Committed {
                    id: outbox.enqueue(&tx, message(number * MESSAGES + place, &key)).unwrap().to_string(),
                    key,
                }
            });
            let written: Vec<_> = written.collect();
            if is_rolled_back(number) {
                tx.rollback().unwrap();
            } else {
                tx.commit().unwrap();
                committed.extend(written);
            }
        }
        committed
    }

    async fn write_postgres(&self) -> Vec<Committed> {
        let (mut client, connection) = tokio_postgres::connect(&self.store, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let (outbox, mut committed) = (Outbox::new(), Vec::new());
        for number in 0..TRANSACTIONS {
            let tx = client.transaction().await.unwrap();
            let keys: Vec<_> = (0..MESSAGES).map(|place| key(number, place)).collect();
            let messages: Vec<_> =
                keys.iter().enumerate().map(|(place, key)| message(number * MESSAGES + place, key)).collect();
            let ids = outbox.enqueue_all(&tx, messages).await.unwrap();
            if is_rolled_back(number) {
                tx.rollback().await.unwrap();
            } else {
                tx.commit().await.unwrap();
                committed.extend(ids.iter().zip(keys).map(|(id, key)| Committed { id: id.to_string(), key }));
            }
        }
        drop(client);
        connection.await.unwrap().unwrap();
        committed
    }

    /// By the procedure that any client of the database calls.
    async fn write_mariadb(&self) -> Vec<Committed> {
        let mut connection = Conn::new(Opts::from_url(&self.store).unwrap()).await.unwrap();
        let mut committed = Vec::new();
        for number in 0..TRANSACTIONS {
            connection.query_drop("start transaction").await.unwrap();
            let mut written = Vec::new();
            for place in 0..MESSAGES {
                let key = key(number, place);
                let message = message(number * MESSAGES + place, &key);
                let id = message.id.to_string();
                connection.exec_drop("set @id = ?", (id.as_str(),)).await.unwrap();
                let call = "call postrider_enqueue('orders.placed', ?, ?, null, null, null, null, null, @id)";
                connection.exec_drop(call, (key.as_str(), message.payload.to_vec())).await.unwrap();
                written.push(Committed { id, key });
            }
            if is_rolled_back(number) {
                connection.query_drop("rollback").await.unwrap();
            } else {
                connection.query_drop("commit").await.unwrap();
                committed.extend(written);
            }
        }
        connection.disconnect().await.unwrap();
        committed
    }
}

fn is_rolled_back(number: usize) -> bool {
    number.is_multiple_of(5)
}

fn key(number: usize, place: usize) -> String {
    format!("k{}", (number * MESSAGES + place) % KEYS)
}

fn message(number: usize, key: &str) -> Message {
    Message::new("orders.placed", if number == 9 { REFUSED_ONCE } else { "payload" }).key(key)
}
