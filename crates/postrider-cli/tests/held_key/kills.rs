//! A held key through `kill -9` and takeovers of the real binary.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::command::command;
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::shared;

const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = 3;

struct Scene {
    store: String,
    receiver: HttpReceiver,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn new(store: impl FnOnce(&std::path::Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let receiver = HttpReceiver::start().await.unwrap();
        receiver.script(|request, _| match request.body.starts_with(b"bad") {
            true => Answer::Status(422),
            false => Answer::Status(204),
        });
        let scene = Self { store: store(folder.path()), receiver, _folder: folder };
        scene.run(&["migrate"]);
        scene
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(env!("CARGO_BIN_EXE_postrider"));
        command.args(arguments).args(["--store", &self.store]).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let done = self.command(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn relay(&self) -> Relay {
        let fixed = ["relay", "--relay-lease", "1s", "--admin-listen", "127.0.0.1:0", "--retry-max-attempts", "1"];
        let mut command = self.command(&fixed);
        command.args(["--retry-on-dead", "hold", "--broker", &self.receiver.url()]);
        Relay(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn write(&self, key: &str, payload: &str) {
        self.run(&["enqueue", "orders.placed", "--key", key, "--payload", payload]);
    }

    fn accepted(&self) -> Vec<String> {
        let taken = self.receiver.requests().into_iter().filter(|request| !request.body.starts_with(b"bad"));
        taken.map(|request| String::from_utf8(request.body.to_vec()).unwrap()).collect()
    }

    fn status(&self) -> serde_json::Value {
        let said = self.command(&["status", "--json"]).output().unwrap();
        serde_json::from_slice(&said.stdout).unwrap_or_default()
    }
}

/// Killed at the end.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The key is held by the first relay; each that follows it after a `kill -9` is shown more of the key and of another
/// one, and the last two share the outbox.
fn stays_held(scene: &Scene) {
    scene.write("held", "bad");
    let mut relays = vec![scene.relay()];
    until("the key is held", || scene.status()["holding"]["value"] == 1);
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        scene.write("held", &format!("held {round}"));
        scene.write("free", &format!("free {round}"));
        expected.push(format!("free {round}"));
        until("the other key goes on", || scene.accepted() == expected);
        until("the key is set aside", || scene.status()["held_back"]["value"] == round + 1);
        relays.clear();
        relays.extend((0..=round / 2).map(|_| scene.relay()));
    }
    scene.receiver.script(|_, _| Answer::Status(204));
    let before = scene.receiver.requests().len();
    scene.run(&["dead", "replay", "--key", "held", "--yes"]);
    until("the key is through", || scene.receiver.requests().len() > before + ROUNDS);
    let bodies: Vec<_> = scene.receiver.requests()[before..].iter().map(|request| request.body.clone()).collect();
    assert_eq!(bodies, ["bad", "held 0", "held 1", "held 2"]);
    assert_eq!(scene.status()["holding"]["value"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_over_sqlite_stays_held_through_kills_and_takeovers() {
    let scene = Scene::new(|folder| format!("sqlite://{}", folder.join("shop.db").display())).await;
    tokio::task::spawn_blocking(move || stays_held(&scene)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_over_postgresql_stays_held_through_kills_and_takeovers() {
    let Some(server) = installed("a held key through kills over PostgreSQL", shared().await) else { return };
    let url = server.fresh_database().await.unwrap();
    let scene = Scene::new(|_| url).await;
    tokio::task::spawn_blocking(move || stays_held(&scene)).await.unwrap();
}
