//! The load on PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};

use postrider::{Message, Outbox as Enqueue};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::shared;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::verdict::{Ledger, Written};
use super::{KEYS, Outbox, Random, Writer};

fn connect(runtime: &Runtime, url: &str) -> Client {
    let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).unwrap();
    runtime.spawn(connection);
    client
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

struct Table(Runtime, Client);

impl Outbox for Table {
    fn pending(&mut self) -> Vec<String> {
        let rows = self.0.block_on(self.1.query("select message_id::text from postrider_outbox", &[])).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// One writer whose transactions are ordered, so that the order per key is the order of the ledger.
async fn write(client: &mut Client, stop: &AtomicBool) -> Ledger {
    let (outbox, mut ledger, mut random) = (Enqueue::new(), Ledger::default(), Random(7));
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let tx = client.transaction().await.unwrap();
        let keys: Vec<u64> = (0..=random.below(100)).map(|_| random.below(KEYS)).collect();
        let messages = keys.iter().map(|key| {
            number += 1;
            Message::new("orders.placed", number.to_string()).key(key)
        });
        let ids = outbox.enqueue_all(&tx, messages.collect::<Vec<_>>()).await.unwrap();
        let written: Vec<_> = ids.iter().zip(keys).map(|(id, key)| Written { id: id.to_string(), key }).collect();
        if random.below(10) == 0 {
            tx.rollback().await.unwrap();
            ledger.rolled_back.extend(written.into_iter().map(|written| written.id));
        } else {
            tx.commit().await.unwrap();
            ledger.committed.extend(written);
        }
        tokio::time::sleep(std::time::Duration::from_millis(random.below(10))).await;
    }
    ledger
}

#[test]
fn a_relay_over_postgresql_is_killed_again_and_again() {
    let main = runtime();
    let Some(server) = installed("kill -9 over PostgreSQL", main.block_on(shared())) else { return };
    let (_guard, folder) = super::folder();
    let store = main.block_on(server.fresh_database()).unwrap();
    super::migrate(&store);
    let url = store.clone();
    let writer = Writer::start(move |stop| {
        let runtime = runtime();
        let mut client = connect(&runtime, &url);
        runtime.block_on(write(&mut client, stop))
    });
    let table = runtime();
    let client = connect(&table, &store);
    super::kill_again_and_again("postgres", &store, &folder, Table(table, client), writer);
}
