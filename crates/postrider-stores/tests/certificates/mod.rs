//! An authority and a certificate for `localhost`, made by the `openssl` program.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use postrider_testkit::servers::process::{Folder, own};

/// What `openssl ca` wants to know: no other part of it signs for days that are over.
const CONFIG: &str = "[ca]\ndefault_ca = authority\n[authority]\ndatabase = index\nserial = serial\nnew_certs_dir = .\n\
    default_md = sha256\npolicy = names\n[names]\ncommonName = supplied\n";

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    Now,
    InTheYear2020,
}

/// Makes `ca.pem`, `leaf.pem` and `leaf.key` in the folder.
pub fn certificates(folder: &Folder, valid: Valid) {
    for (name, text) in [
        ("leaf.ext", "subjectAltName = DNS:localhost\nbasicConstraints = CA:FALSE\n"),
        ("ca.cnf", CONFIG),
        ("index", ""),
        ("serial", "01\n"),
    ] {
        folder.write(name, text).unwrap();
    }
    let run = |arguments: &str| {
        let done = Command::new("openssl").args(arguments.split(' ')).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    run("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority");
    run("req -newkey rsa:2048 -nodes -keyout leaf.key -out leaf.csr -subj /CN=localhost");
    let dates = match valid {
        Valid::Now => "-days 2",
        Valid::InTheYear2020 => "-startdate 20200101000000Z -enddate 20210101000000Z",
    };
    run(&format!(
        "ca -batch -config ca.cnf -cert ca.pem -keyfile ca.key -in leaf.csr -out leaf.pem -notext -extfile leaf.ext {dates}"
    ));
    for name in ["leaf.key", "leaf.pem"] {
        let path = folder.path().join(name);
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        own(&path).unwrap();
    }
}
