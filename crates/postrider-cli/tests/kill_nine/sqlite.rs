//! The load on SQLite.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use postrider::{Message, Outbox as Enqueue};
use rusqlite::{Connection, TransactionBehavior};

use super::verdict::{Ledger, Written};
use super::{KEYS, Outbox, Random, Writer};

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
}

struct Table(Connection);

impl Outbox for Table {
    fn pending(&mut self) -> Vec<String> {
        let mut ids = self.0.prepare("select message_id from postrider_outbox").unwrap();
        let ids = ids.query_map((), |row| row.get(0)).unwrap();
        ids.collect::<Result<_, _>>().unwrap()
    }
}

fn write(path: &Path, stop: &AtomicBool) -> Ledger {
    let mut connection = connect(path);
    let (outbox, mut ledger, mut random) = (Enqueue::new(), Ledger::default(), Random(7));
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let mut written = Vec::new();
        for _ in 0..=random.below(20) {
            number += 1;
            let key = random.below(KEYS);
            let message = Message::new("orders.placed", number.to_string()).key(key);
            let id = outbox.enqueue(&tx, message).unwrap().to_string();
            written.push(Written { id, key });
        }
        if random.below(10) == 0 {
            tx.rollback().unwrap();
            ledger.rolled_back.extend(written.into_iter().map(|written| written.id));
        } else {
            tx.commit().unwrap();
            ledger.committed.extend(written);
        }
        std::thread::sleep(std::time::Duration::from_millis(random.below(6)));
    }
    ledger
}

#[test]
fn a_relay_over_sqlite_is_killed_again_and_again() {
    let (_guard, folder) = super::folder();
    let path: PathBuf = folder.join("shop.db");
    let store = format!("sqlite://{}", path.display());
    super::migrate(&store);
    let load = path.clone();
    let writer = Writer::start(move |stop| write(&load, stop));
    super::kill_again_and_again("sqlite", &store, &folder, Table(connect(&path)), writer);
}
