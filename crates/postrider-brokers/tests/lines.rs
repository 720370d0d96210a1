//! The stdout and file brokers pass the suite: both write lines of JSON.
#![cfg(all(feature = "stdout", feature = "file"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_brokers::file::FileBroker;
use postrider_brokers::stdout::StdoutBroker;
use postrider_core::{Broker, Destination, ErrorKind, Message, Published};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Exclusion, Received, message, outgoing, run};
use tempfile::TempDir;

/// Reads what a broker of lines wrote, demanding whole lines.
fn parse(text: &[u8]) -> Vec<Received> {
    assert!(text.is_empty() || text.ends_with(b"\n"), "a torn last line");
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            let headers = line["headers"].as_object().unwrap().iter();
            let payload = match line["payload"].as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => STANDARD.decode(line["payload_base64"].as_str().unwrap()).unwrap(),
            };
            Received {
                headers: headers.map(|(name, value)| (name.to_lowercase(), value.as_str().unwrap().into())).collect(),
                content_type: line["content_type"].as_str().map(str::to_owned),
                payload: payload.into(),
            }
        })
        .collect()
}

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Short writes, as a pipe makes them.
        let some = bytes.len().min(60_000);
        self.0.lock().unwrap().extend_from_slice(&bytes[..some]);
        Ok(some)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Place {
    Pipe(Pipe),
    File(PathBuf, #[expect(dead_code, reason = "the folder lives as long as the harness")] TempDir),
}

struct Harness {
    broker: Arc<dyn Broker>,
    place: Place,
}

impl Harness {
    fn stdout() -> Self {
        let pipe = Pipe::default();
        Self { broker: Arc::new(StdoutBroker::writing_to(pipe.clone())), place: Place::Pipe(pipe) }
    }

    fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        Self { broker: Arc::new(FileBroker::open(&path).unwrap()), place: Place::File(path, folder) }
    }
}

#[async_trait]
impl BrokerHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    fn destination(&self) -> Destination {
        Destination::new("orders.placed")
    }

    async fn received(&self) -> Vec<Received> {
        match &self.place {
            Place::Pipe(pipe) => parse(&pipe.0.lock().unwrap()),
            Place::File(path, _) => parse(&std::fs::read(path).unwrap()),
        }
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::None
    }

    fn oversize(&self) -> Message {
        message("")
    }

    async fn refused(&self, message: Message) -> Message {
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        (self.broker(), self.destination())
    }

    async fn stop(&self) {}

    async fn start(&self) {}

    fn exclusions(&self) -> &'static [Exclusion] {
        const LOCAL: &str = "there is no receiver that could be away: full disks and broken pipes have their own tests";
        const ALL: &str = "it refuses no message and has no destinations";
        &[
            Exclusion { case: "an_unreachable_broker_is_never_accepted_and_never_hangs", reason: LOCAL },
            Exclusion { case: "check_of_an_unreachable_broker_fails_with_what_to_do", reason: LOCAL },
            Exclusion { case: "it_goes_on_by_itself_when_the_receiver_is_back", reason: LOCAL },
            Exclusion { case: "a_message_that_is_too_large_is_rejected_alone", reason: ALL },
            Exclusion { case: "nothing_of_a_key_is_accepted_after_its_failure", reason: ALL },
            Exclusion { case: "publishing_to_a_missing_destination_is_a_config_error", reason: ALL },
            Exclusion { case: "check_finds_a_missing_destination", reason: ALL },
        ]
    }
}

#[tokio::test]
async fn the_stdout_broker_passes_the_suite() {
    run("stdout", || async { Harness::stdout() }).await.expect_success();
}

#[tokio::test]
async fn the_file_broker_passes_the_suite() {
    run("file", || async { Harness::file() }).await.expect_success();
}

#[tokio::test]
async fn a_reader_that_is_gone_is_a_config_error_in_clear_words() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let broker = StdoutBroker::writing_to(writer);
    match &broker.publish(&[outgoing(message("x"), &Destination::new("d"))]).await[..] {
        [Published::Failed(error)] => {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("broken pipe"), "{error}");
        }
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test]
async fn a_reader_that_stops_reading_holds_a_call_no_longer_than_its_deadline() {
    let (mut reader, writer) = io::pipe().unwrap();
    let deadline = Duration::from_millis(200);
    let broker = StdoutBroker::writing_to(writer).deadline(deadline);
    let more_than_a_pipe_holds = vec![b'x'; 1 << 20];
    for (payload, kind) in [(more_than_a_pipe_holds, ErrorKind::Unknown), (b"x".to_vec(), ErrorKind::Unavailable)] {
        let began = Instant::now();
        let batch = [outgoing(message(payload), &Destination::new("d"))];
        match &tokio::time::timeout(Duration::from_secs(10), broker.publish(&batch)).await.unwrap()[..] {
            [Published::Failed(error)] => assert_eq!(error.kind(), kind, "{error}"),
            other => panic!("expected a failure, found {other:?}"),
        }
        assert!(kind == ErrorKind::Unavailable || began.elapsed() >= deadline);
    }
    // The reader goes on, and so does the broker.
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map(|_| text)
    });
    let until = Instant::now() + Duration::from_secs(10);
    while !matches!(
        broker.publish(&[outgoing(message("last"), &Destination::new("d"))]).await[..],
        [Published::Accepted(_)]
    ) {
        assert!(Instant::now() < until, "never accepted again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(broker);
    assert_eq!(parse(&reading.join().unwrap().unwrap()).last().unwrap().payload, "last");
}
