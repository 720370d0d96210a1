//! Names that are no settings.

use super::keys::{self, KEYS};
use super::layers::Origin;
use super::nearest::nearest;
use crate::failure::Failure;
use crate::redact;

/// What to say about a name that is no setting: the nearest one that is.
pub(super) fn unknown(path: &str, origin: &Origin) -> Failure {
    let (what, wrong) = match origin {
        Origin::Variable(name) => (format!("the variable {name} is no setting"), name.clone()),
        Origin::File(file) => (format!("{}: {path} is no setting", file.display()), keys::shape(path)),
        Origin::Default | Origin::Flag(_) => (format!("{path} is no setting"), keys::shape(path)),
    };
    let variables: Vec<String> =
        KEYS.iter().filter(|key| !key.path.contains(['[', '*'])).map(|key| keys::variable_name(key.path)).collect();
    let suggestion = match origin {
        Origin::Variable(_) => nearest(&wrong, variables.iter().map(String::as_str)),
        _ => nearest(&wrong, KEYS.iter().map(|key| key.path)).or_else(|| same_name(&wrong)),
    };
    let next = match suggestion {
        Some(name) => format!("did you mean {name}?"),
        None => "`postrider config show` lists every setting".to_owned(),
    };
    Failure::usage(redact::address(&what), next)
}

/// A setting with the same last word in another section.
fn same_name(wrong: &str) -> Option<&'static str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    KEYS.iter().map(|key| key.path).find(|path| last(path) == last(wrong))
}
