//! Blame: whether a failure is the message's own.
//!
//! This is the only place that decides it, and it decides by evidence: what else the destination did meanwhile.

use crate::error::ErrorKind;

/// What the relay knows about a destination at the moment it judges a failure there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Nothing was accepted there since this message's previous failure; or this is its first.
    NothingAccepted,
    /// Another message was accepted there after this one had already failed once.
    OthersAccepted,
    /// The last 16 distinct messages judged there were all rejected.
    EverythingRejected,
    /// The attempt never left this process: it says nothing about the message.
    NeverSent,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Judgement {
    /// The message's own fault: one attempt is counted.
    Charged,
    /// The destination's fault, or not known whose: no attempt is counted, the message is tried again.
    Excused,
    /// The destination's fault as a whole: it pauses, nothing is counted.
    Pause,
    /// The relay may not decide anything any more.
    StandDown,
}

/// Judges one failure.
///
/// | kind | nothing accepted | others accepted | everything rejected | never sent |
/// |---|---|---|---|---|
/// | `Rejected` | charged | charged | pause | excused |
/// | `Unavailable`, `Throttled`, `Config`, `Unknown` | excused | charged | excused | excused |
/// | `Fenced` | stand down | stand down | stand down | stand down |
///
/// "Others accepted" needs an acceptance *after this message had failed before*: acceptances that overlap a message's
/// first failure are no evidence, because a connection that breaks in the middle of a batch has always just accepted
/// its neighbours (`docs/adr/0001-evidence-after-the-first-failure.md`).
pub fn judge(kind: ErrorKind, evidence: Evidence) -> Judgement {
    match (kind, evidence) {
        (ErrorKind::Fenced, _) => Judgement::StandDown,
        (_, Evidence::NeverSent) => Judgement::Excused,
        (ErrorKind::Rejected, Evidence::EverythingRejected) => Judgement::Pause,
        (ErrorKind::Rejected, Evidence::NothingAccepted | Evidence::OthersAccepted) => Judgement::Charged,
        (
            ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Config | ErrorKind::Unknown,
            Evidence::OthersAccepted,
        ) => Judgement::Charged,
        (
            ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Config | ErrorKind::Unknown,
            Evidence::NothingAccepted | Evidence::EverythingRejected,
        ) => Judgement::Excused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        use ErrorKind as K;
        use Evidence as E;
        use Judgement as J;
        let table = [
            (K::Rejected, [J::Charged, J::Charged, J::Pause, J::Excused]),
            (K::Unavailable, [J::Excused, J::Charged, J::Excused, J::Excused]),
            (K::Throttled, [J::Excused, J::Charged, J::Excused, J::Excused]),
            (K::Config, [J::Excused, J::Charged, J::Excused, J::Excused]),
            (K::Unknown, [J::Excused, J::Charged, J::Excused, J::Excused]),
            (K::Fenced, [J::StandDown; 4]),
        ];
        for (kind, row) in table {
            let evidence = [E::NothingAccepted, E::OthersAccepted, E::EverythingRejected, E::NeverSent];
            for (evidence, expected) in evidence.into_iter().zip(row) {
                assert_eq!(judge(kind, evidence), expected, "{kind} with {evidence:?}");
            }
        }
    }
}
