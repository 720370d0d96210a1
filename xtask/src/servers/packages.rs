//! What the examples in other languages import, and servers that are such packages: brought from each language's registry
//! by its own client, as its lock file says, into a cache folder. `crates/postrider-testkit/src/servers/packages.rs` looks there.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Result;

/// The packages of one language.
struct Packages {
    language: &'static str,
    /// Files that the client reads, and their text.
    files: &'static [(&'static str, &'static str)],
    /// What is run, one after the other.
    commands: &'static [Step],
    /// The text of what names them exactly.
    lock: &'static str,
}

/// One call of a registry's client.
struct Step {
    /// Where below the packages' folder.
    within: &'static str,
    program: &'static str,
    words: &'static [&'static str],
}

const PIP_INSTALL: &[&str] = &[
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--target",
    "packages",
    "-r",
    "requirements.txt",
];
const NPM_CI: &[&str] = &["ci", "--ignore-scripts", "--no-audit", "--no-fund"];

const PYTHON: Packages = Packages {
    language: "python",
    files: &[("requirements.txt", include_str!("../../../examples/mysql-kafka/python/requirements.txt"))],
    commands: &[Step { within: "", program: "python3", words: PIP_INSTALL }],
    lock: include_str!("../../../examples/mysql-kafka/python/requirements.txt"),
};

const NODE: Packages = Packages {
    language: "node",
    files: &[
        ("package.json", include_str!("../../../examples/mysql-kafka/node/package.json")),
        ("package-lock.json", include_str!("../../../examples/mysql-kafka/node/package-lock.json")),
    ],
    commands: &[Step { within: "", program: "npm", words: NPM_CI }],
    lock: include_str!("../../../examples/mysql-kafka/node/package-lock.json"),
};

const JAVA: Packages = Packages {
    language: "java",
    files: &[("pom.xml", include_str!("../../../examples/mysql-kafka/java/pom.xml"))],
    commands: &[Step {
        within: "",
        program: "mvn",
        words: &["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
    }],
    lock: include_str!("../../../examples/mysql-kafka/java/pom.xml"),
};

const GO: Packages = Packages {
    language: "go",
    files: &[
        ("orders/go.mod", include_str!("../../../examples/mysql-kafka/go/go.mod")),
        ("orders/go.sum", include_str!("../../../examples/mysql-kafka/go/go.sum")),
        ("import/go.mod", include_str!("../../../examples/from-go-outbox/go.mod")),
        ("import/go.sum", include_str!("../../../examples/from-go-outbox/go.sum")),
    ],
    commands: &[
        Step { within: "orders", program: "go", words: &["mod", "download"] },
        Step { within: "import", program: "go", words: &["mod", "download"] },
    ],
    lock: concat!(
        include_str!("../../../examples/mysql-kafka/go/go.sum"),
        include_str!("../../../examples/from-go-outbox/go.sum")
    ),
};

/// A server that keeps what it acknowledged when it is killed, which Debian's does not.
const NATS: Packages = Packages {
    language: "nats",
    files: &[
        ("go.mod", include_str!("../../../crates/postrider-testkit/src/servers/nats/go.mod")),
        ("go.sum", include_str!("../../../crates/postrider-testkit/src/servers/nats/go.sum")),
    ],
    commands: &[Step {
        within: "",
        program: "go",
        words: &["build", "-o", "nats-server", "github.com/nats-io/nats-server/v2"],
    }],
    lock: include_str!("../../../crates/postrider-testkit/src/servers/nats/go.sum"),
};

const MOTO: Packages = Packages {
    language: "moto",
    files: &[("requirements.txt", include_str!("../../../crates/postrider-testkit/src/servers/moto/requirements.txt"))],
    // Debian's own, which the server is run by.
    commands: &[Step { within: "", program: "/usr/bin/python3", words: PIP_INSTALL }],
    lock: include_str!("../../../crates/postrider-testkit/src/servers/moto/requirements.txt"),
};

const AZURITE: Packages = Packages {
    language: "azurite",
    files: &[
        ("package.json", include_str!("../../../crates/postrider-testkit/src/servers/azurite/package.json")),
        ("package-lock.json", include_str!("../../../crates/postrider-testkit/src/servers/azurite/package-lock.json")),
    ],
    commands: &[Step { within: "", program: "npm", words: NPM_CI }],
    lock: include_str!("../../../crates/postrider-testkit/src/servers/azurite/package-lock.json"),
};

pub fn python() -> Option<PathBuf> {
    PYTHON.found()
}

pub fn node() -> Option<PathBuf> {
    NODE.found()
}

pub fn java() -> Option<PathBuf> {
    JAVA.found()
}

pub fn go() -> Option<PathBuf> {
    GO.found()
}

pub fn nats() -> Option<PathBuf> {
    NATS.found()
}

pub fn bring_nats() -> Result<()> {
    NATS.bring()
}

pub fn moto() -> Option<PathBuf> {
    MOTO.found()
}

pub fn bring_moto() -> Result<()> {
    MOTO.bring()
}

pub fn azurite() -> Option<PathBuf> {
    AZURITE.found()
}

pub fn bring_azurite() -> Result<()> {
    AZURITE.bring()
}

pub fn bring_python() -> Result<()> {
    PYTHON.bring()
}

pub fn bring_node() -> Result<()> {
    NODE.bring()
}

pub fn bring_java() -> Result<()> {
    JAVA.bring()
}

pub fn bring_go() -> Result<()> {
    GO.bring()
}

impl Packages {
    fn found(&self) -> Option<PathBuf> {
        let mut folders = super::caches().map(|cache| cache.join("packages").join(self.language));
        let brought = |folder: &PathBuf| fs::read_to_string(folder.join("lock")).is_ok_and(|lock| lock == self.lock);
        folders.find(brought)
    }

    fn bring(&self) -> Result<()> {
        let cache = super::cache()?.join("packages");
        let (folder, work) = (cache.join(self.language), cache.join(format!("{}-being-fetched", self.language)));
        let _ = fs::remove_dir_all(&work);
        for (name, text) in self.files {
            let file = work.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&work))?;
            fs::write(file, text)?;
        }
        for Step { within, program, words } in self.commands {
            let line = format!("{program} {}", words.join(" "));
            println!("{line}");
            let mut command = Command::new(program);
            command.args(*words).current_dir(work.join(within)).stdin(Stdio::null());
            // Go's alone; a cache that cannot be removed again would be in the way of the next one.
            command.env("GOMODCACHE", work.join("mod")).env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local");
            let status = command.status().map_err(|error| format!("{program}: {error}"))?;
            if !status.success() {
                return Err(format!("{line}: {status}").into());
            }
        }
        fs::write(work.join("lock"), self.lock)?;
        // Whole or not at all: a run that is killed leaves nothing that looks like the packages.
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&work, &folder)?;
        Ok(())
    }
}
