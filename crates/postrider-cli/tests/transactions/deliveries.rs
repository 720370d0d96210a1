//! The broker's file, followed while it grows.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Seen {
    order: Vec<(String, String)>,
    payloads: HashSet<String>,
}

/// What was delivered so far.
pub struct Deliveries {
    seen: Arc<Mutex<Seen>>,
    grown: watch::Receiver<usize>,
}

impl Deliveries {
    pub fn follow(file: PathBuf) -> Self {
        let (tell, grown) = watch::channel(0);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut offset = 0;
            while !tell.is_closed() {
                let count = take_in(&file, &mut offset, &shared);
                tell.send_if_modified(|known| std::mem::replace(known, count) != count);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { seen, grown }
    }

    pub fn has(&self, payload: &str) -> bool {
        self.seen.lock().unwrap().payloads.contains(payload)
    }

    pub async fn wait_for(&self, payload: &str) {
        self.wait(payload, |seen| seen.payloads.contains(payload)).await;
    }

    pub async fn wait_for_count(&self, prefix: &str, count: usize) {
        self.wait(prefix, |seen| seen.payloads.iter().filter(|payload| payload.starts_with(prefix)).count() >= count)
            .await;
    }

    async fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let mut grown = self.grown.clone();
        let met = async {
            loop {
                grown.borrow_and_update();
                if holds(&self.seen.lock().unwrap()) {
                    return;
                }
                grown.changed().await.unwrap();
            }
        };
        assert!(tokio::time::timeout(PATIENCE, met).await.is_ok(), "{what:?} was not delivered");
    }

    pub fn repeats(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.order.len() - seen.payloads.len()
    }

    /// The numbers behind the prefix rise within each key.
    pub fn numbers_rise_by_key(&self, prefix: &str) {
        let seen = self.seen.lock().unwrap();
        let mut last: HashMap<&str, u64> = HashMap::new();
        for (key, payload) in &seen.order {
            if let Some(number) = payload.strip_prefix(prefix).map(|text| text.parse::<u64>().unwrap()) {
                let before = last.insert(key, number);
                assert!(before < Some(number), "{payload} of key {key} came after {before:?}");
            }
        }
    }
}

fn take_in(file: &PathBuf, offset: &mut u64, seen: &Mutex<Seen>) -> usize {
    let mut count = seen.lock().unwrap().order.len();
    let Ok(open) = std::fs::File::open(file) else { return count };
    let mut reader = BufReader::new(open);
    reader.seek(SeekFrom::Start(*offset)).unwrap();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        *offset += u64::try_from(line.len()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let mut seen = seen.lock().unwrap();
        seen.payloads.insert(text("payload"));
        seen.order.push((text("key"), text("payload")));
        count = seen.order.len();
        line.clear();
    }
    count
}
