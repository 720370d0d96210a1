//! How much is measured: in full, quickly, or a miniature that only shows that the measuring works.

use std::path::PathBuf;
use std::time::Duration;

use postrider_bench::figure::number;
use postrider_bench::load::Load;

/// The parts, in the order in which they run.
pub const PARTS: [&str; 9] =
    ["drain", "latency", "transactions", "cost", "memory", "scaling", "held", "mysql-kafka", "receiving"];
/// The topic of everything.
pub const TOPIC: &str = "bench.orders";

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Measure, keep the reports, and make the page of all that are kept.
    Measure,
    /// Only make the page.
    Page,
}

/// Sizes, lengths and what is wanted.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is to be done.
    pub purpose: Purpose,
    /// How the command calls these sizes; nothing for the full ones.
    pub name: &'static str,
    /// Runs of each figure.
    pub runs: usize,
    /// Messages of a drained backlog.
    pub backlog: u64,
    /// Messages of a backlog of one hot key, where its broker takes one message of a key at a time.
    pub hot_backlog: u64,
    /// Seconds of a steady run, its warm-up included.
    pub steady: Duration,
    /// Rates of the steady runs.
    pub rates: Vec<u32>,
    /// Bytes of the payloads of the steady runs.
    pub payloads: Vec<usize>,
    /// Backlogs at which the relay's memory is measured.
    pub backlogs: Vec<u64>,
    /// Numbers of relays.
    pub relays: Vec<usize>,
    /// How long a transaction is held open.
    pub held: Duration,
    /// Only these parts; all when empty.
    pub only: Vec<String>,
    /// The built `postrider`, for what is measured of a process of its own.
    pub postrider: Option<PathBuf>,
    /// The folder of the reports: a JSON and a picture for each part.
    pub out: Option<PathBuf>,
    /// The page that is made of them.
    pub page: Option<PathBuf>,
    /// Lines about the build, for the page.
    pub build: Vec<String>,
}

impl Plan {
    /// What the words of the command ask for; a sentence when they cannot be understood.
    pub fn of(words: &[String]) -> Result<Self, String> {
        let quick = words.iter().any(|word| word == "--quick");
        let tiny = words.iter().any(|word| word == "--miniature");
        let mut plan = match (quick, tiny) {
            (_, true) => Self::miniature(),
            (true, false) => Self::quick(),
            (false, false) => Self::full(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--bench" | "--quick" | "--miniature" => {}
                "--only" => plan.only = value()?.split(',').map(str::to_owned).collect(),
                "--runs" => plan.runs = value()?.parse().map_err(|_| "--runs needs a number".to_owned())?,
                "--backlog" => plan.backlog = value()?.parse().map_err(|_| "--backlog needs a number".to_owned())?,
                "--held" => {
                    let seconds = value()?.parse().map_err(|_| "--held needs seconds".to_owned())?;
                    plan.held = Duration::from_secs(seconds);
                }
                "--postrider" => plan.postrider = Some(PathBuf::from(value()?)),
                "--out" => plan.out = Some(PathBuf::from(value()?)),
                "--page" => plan.page = Some(PathBuf::from(value()?)),
                "--only-page" => plan.purpose = Purpose::Page,
                "--build" => plan.build.push(value()?),
                other => return Err(format!("there is no {other}")),
            }
        }
        match plan.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
            Some(part) => Err(format!("there is no part {part:?}; the parts are {}", PARTS.join(", "))),
            None => Ok(plan),
        }
    }

    fn full() -> Self {
        Self {
            purpose: Purpose::Measure,
            name: "",
            runs: 5,
            backlog: 500_000,
            hot_backlog: 50_000,
            steady: Duration::from_secs(22),
            rates: vec![100, 1_000, 5_000],
            payloads: vec![200, 4_000],
            backlogs: vec![10_000, 1_000_000, 10_000_000],
            relays: vec![1, 2, 4],
            held: Duration::from_secs(600),
            only: Vec::new(),
            postrider: None,
            out: None,
            page: None,
            build: Vec::new(),
        }
    }

    fn quick() -> Self {
        Self {
            name: " --quick",
            runs: 3,
            backlog: 200_000,
            hot_backlog: 20_000,
            steady: Duration::from_secs(8),
            rates: vec![100, 1_000],
            payloads: vec![200],
            backlogs: vec![10_000, 1_000_000],
            relays: vec![1, 2],
            held: Duration::from_secs(45),
            ..Self::full()
        }
    }

    fn miniature() -> Self {
        Self {
            name: " --miniature",
            runs: 1,
            backlog: 5_000,
            hot_backlog: 500,
            steady: Duration::from_secs(3),
            rates: vec![200],
            payloads: vec![200],
            backlogs: vec![5_000],
            relays: vec![1],
            held: Duration::from_secs(4),
            ..Self::full()
        }
    }

    /// Whether a part is wanted.
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }

    /// The sizes in a sentence.
    pub fn sizes(&self) -> String {
        #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let backlog = number(self.backlog as f64);
        format!("Backlogs of {backlog}, steady runs of {} s.", self.steady.as_secs())
    }

    /// The command that measures a part like this again.
    pub fn command(&self, part: &str) -> String {
        let usual = match self.name {
            " --quick" => Self::quick(),
            " --miniature" => Self::miniature(),
            _ => Self::full(),
        };
        let mut command = format!("cargo xtask bench{} --only {part}", self.name);
        if self.runs != usual.runs {
            command.push_str(&format!(" --runs {}", self.runs));
        }
        if self.backlog != usual.backlog {
            command.push_str(&format!(" --backlog {}", self.backlog));
        }
        if self.held != usual.held {
            command.push_str(&format!(" --held {}", self.held.as_secs()));
        }
        command
    }

    /// A backlog of messages of 200 bytes.
    pub fn load(&self, messages: u64, keys: u32) -> Load {
        Load { messages, keys, payload: 200, writers: 1, topic: TOPIC.into() }
    }
}
