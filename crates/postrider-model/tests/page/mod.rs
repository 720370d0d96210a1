//! The sections of the pages about the models, made from the bounds and what was counted within them.

use std::path::Path;

const BEGIN: &str = "<!-- model: begin -->\n";
const END: &str = "<!-- model: end -->\n";

/// Compares the section of a page under `docs` with what was counted; with `WRITE_DOCS=1` it is written instead.
pub(super) fn holds(page: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "docs/{page} is behind the model: run this test with WRITE_DOCS=1");
}
