//! The walk of this example's README, block by block, on private servers; and what arrived, read back by kcat and KafkaJS.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "../../../crates/postrider-cli/tests/readme/blocks.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod blocks;
#[allow(dead_code, reason = "these tests use a part of it")]
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use blocks::Use;
use postrider_testkit::command::{command, relay_beside};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::KafkaServer;
use postrider_testkit::servers::mariadb::Mariadb;
use postrider_testkit::servers::packages::packages;
use postrider_testkit::servers::process::{ServerError, find, free_port};
use programs::{example, go_variables, java_packages, node_packages, php};
use serde_json::{Value, json};
use tempfile::TempDir;

const WHAT: &str = "the example on MySQL and Kafka";
const README: &str = include_str!("../README.md");
/// Printed between what one block prints and the next.
const END: &str = "=== the end of a block ===";
/// How long the whole walk may take.
const LIMIT: Duration = Duration::from_secs(480);

/// Who writes, and the first number of each.
const WRITERS: [(&str, i64); 6] = [("", 1), ("-py", 100), ("-js", 200), ("-php", 300), ("-java", 400), ("-go", 500)];

/// A reader's machine: the servers, and a folder with the example and the programs.
struct Machine {
    folder: TempDir,
    variables: Vec<(String, String)>,
    kafka: KafkaServer,
    _mariadb: Mariadb,
}

impl Machine {
    /// The error says what is missing, beside the relay's program.
    async fn with_everything(postrider: &Path) -> Result<Self, ServerError> {
        for (program, package) in
            [("kcat", "kcat"), ("curl", "curl"), ("node", "nodejs"), ("javac", "default-jdk-headless")]
        {
            find(program, &[], package)?;
        }
        php("orders.php")?;
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("examples/mysql-kafka");
        copied(example(), &here);
        symlink(node_packages()?, here.join("node/node_modules")).unwrap();
        symlink(java_packages()?, here.join("java/lib")).unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let [orders, billing] = [env!("CARGO_BIN_EXE_mysql-kafka-orders"), env!("CARGO_BIN_EXE_mysql-kafka-billing")];
        for (program, name) in [
            (postrider, "postrider"),
            (Path::new(orders), "mysql-kafka-orders"),
            (Path::new(billing), "mysql-kafka-billing"),
        ] {
            symlink(program, bin.join(name)).unwrap();
        }
        let python = packages("python", include_str!("../python/requirements.txt"))?;
        let mariadb = Mariadb::start().await?;
        let kafka = KafkaServer::start().await?;
        let database = mariadb.create_database().await?;
        let (store, billing) = (mariadb.url_for(&database), format!("127.0.0.1:{}", free_port()?));
        let orders = format!("127.0.0.1:{}", free_port()?);
        let admin = format!("127.0.0.1:{}", free_port()?);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut variables = vec![
            ("PATH", format!("{}:{path}:/usr/local/go/bin", bin.display())),
            ("PYTHONPATH", python.join("packages").display().to_string()),
            ("DATABASE_URL", store.clone()),
            ("KAFKA", kafka.address()),
            ("ORDERS", orders),
            ("BILLING", billing.clone()),
            ("POSTRIDER_OUTBOX__STORE", store),
            ("POSTRIDER_BROKER__INVENTORY__URL", format!("kafka://{}", kafka.address())),
            ("POSTRIDER_BROKER__BILLING__URL", format!("http://{billing}/invoices")),
            ("POSTRIDER_ADMIN__LISTEN", admin),
            ("LC_ALL", "C.UTF-8".to_owned()),
        ];
        variables.extend(go_variables()?);
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(Self { folder, variables, kafka, _mariadb: mariadb })
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = command(program);
        command.args(arguments).current_dir(self.folder.path()).envs(self.variables.iter().cloned());
        command
    }

    /// Runs a script in one shell, which ends what it started; what each block printed.
    async fn walk(&self, texts: &[&str]) -> Vec<String> {
        let mut script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n".to_owned();
        for text in texts {
            script.push_str(&format!("{text}\necho '{END}'\n"));
        }
        std::fs::write(self.folder.path().join("walk.sh"), script).unwrap();
        let (out, err) = (self.folder.path().join("out"), self.folder.path().join("err"));
        let mut bash = self.command("bash", &["-euo", "pipefail", "walk.sh"]);
        bash.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
        let group = Group(bash.process_group(0).spawn().unwrap());
        let ended = group.ended().await;
        let (out, err) = (std::fs::read_to_string(out).unwrap(), std::fs::read_to_string(err).unwrap());
        assert!(ended, "the walk did not end well:\n{out}\n{err}");
        println!("{out}");
        out.split(&format!("{END}\n")).map(str::to_owned).collect()
    }
}

/// A shell and what it started, ended on drop.
struct Group(std::process::Child);

impl Group {
    /// Waits for its end; whether that was a good one, and in time.
    async fn ended(mut self) -> bool {
        let waiting = async {
            loop {
                if let Some(status) = self.0.try_wait().unwrap() {
                    return status.success();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.unwrap_or(false)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let kill = format!("kill -s KILL -- -{}", self.0.id());
        let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        let built = ["node_modules", "lib", "target"].iter().any(|built| name == *built);
        if kind.is_dir() && !built {
            copied(&entry.path(), &to.join(name));
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// A record of the topic, as kcat tells it.
#[derive(Debug)]
struct Record {
    key: String,
    order: Value,
    headers: BTreeMap<String, String>,
}

/// Everything that is in the topic, partition by partition in its order.
fn in_kafka(machine: &Machine) -> Vec<Record> {
    let (address, topic) = (machine.kafka.address(), "orders.placed");
    let read = ["-C", "-q", "-e", "-J", "-b", &address, "-t", topic, "-o", "beginning"];
    let ran = machine.command("kcat", &read).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let record = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let headers = line["headers"].as_array().unwrap().chunks(2).map(|pair| (text(&pair[0]), text(&pair[1])));
        let order = serde_json::from_str(line["payload"].as_str().unwrap()).unwrap();
        Record { key: text(&line["key"]), order, headers: headers.collect() }
    };
    String::from_utf8(ran.stdout).unwrap().lines().map(record).collect()
}

/// Each of the orders once, the two of a customer in their order, with the headers that were written and Postrider's.
fn is_whole(records: &[Record]) {
    let mut of_customer: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for record in records {
        let id = record.order["id"].as_i64().unwrap();
        assert_eq!(record.order["customer"], json!(record.key));
        assert_eq!(record.headers["correlation-id"], id.to_string());
        assert_eq!(record.headers["content-type"], "application/json");
        assert_eq!(record.headers["postrider-attempt"], "1", "a quiet run publishes once");
        of_customer.entry(record.key.clone()).or_default().push(id);
    }
    let mut expected = BTreeMap::new();
    for (suffix, first) in WRITERS {
        expected.insert(format!("ann{suffix}"), vec![first, first + 2]);
        expected.insert(format!("bob{suffix}"), vec![first + 1]);
    }
    assert_eq!(of_customer, expected);
    let ids: BTreeSet<&str> = records.iter().map(|record| record.headers["postrider-id"].as_str()).collect();
    assert_eq!(ids.len(), records.len());
}

/// The lines of inventory or billing: each order once.
fn numbers(lines: &str) -> Vec<i64> {
    let number = |line: &str| line.split_whitespace().nth(2)?.parse().ok();
    let mut numbers: Vec<i64> = lines.lines().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readme_does_what_it_says_and_strangers_read_every_message() {
    let postrider = match relay_beside(Path::new(env!("CARGO_BIN_EXE_mysql-kafka-orders")), &["mysql", "kafka", "http"])
    {
        Ok(postrider) => postrider,
        Err(unbuilt) => {
            println!("NOT RUN: {WHAT}: {unbuilt}");
            return;
        }
    };
    let Some(machine) = installed(WHAT, Machine::with_everything(&postrider).await) else { return };
    let blocks = blocks::of("README.md", README);
    let runs: Vec<&str> =
        blocks.iter().filter(|block| block.what_for() == Some(Use::Run)).map(|block| block.text.as_str()).collect();
    let said = machine.walk(&runs).await;
    let mut printed = said.iter();
    let mut last = "";
    for block in &blocks {
        match block.what_for() {
            Some(Use::Run) => last = printed.next().unwrap(),
            Some(Use::Output) => {
                blocks::printed(&block.text, last).unwrap_or_else(|error| panic!("{block}: {error}"));
            }
            Some(_) => {}
            None => panic!("{block}: mark the block as run, output or not-run; it is {:?}", block.language),
        }
    }
    is_whole(&in_kafka(&machine));
    let every: Vec<i64> = WRITERS.iter().flat_map(|&(_, first)| first..first + 3).collect();
    let [.., inventory, billing, _] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((numbers(inventory), numbers(billing)), (every.clone(), every));
}
