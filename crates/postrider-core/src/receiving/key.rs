//! Requests with an idempotency key: one effect, and one answer, however often the request is sent.
//!
//! The answer is stored in the write that has the effect. The lease keeps two servers from doing the same work at once
//! and nothing more: a server whose lease has ended while it works is kept from its effect by the epoch, which is asked for
//! in that same write. <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>

use std::time::Duration;

use crate::message::Timestamp;

/// What tells two requests with the same key apart: a hash of what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// The fencing number of the one who works on a key: one more at each beginning of the same request.
///
/// Its first is nobody's else, so that who worked on the key before it was forgotten cannot answer what it stands for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What is stored of a key. `A` is the answer, as it is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRecord<A> {
    /// What was asked for.
    pub fingerprint: Fingerprint,
    /// Who works on it, or did.
    pub epoch: Epoch,
    /// Until when nobody else begins.
    pub leased_until: Timestamp,
    /// The answer, once the request had its effect.
    pub answer: Option<A>,
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Begun<A> {
    /// Work on it, under this epoch.
    Started(Epoch),
    /// It had its effect: send this answer again.
    Replay(A),
    /// Somebody works on it.
    InProgress {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
}

/// Decides what to do with a request by what is stored of its key.
///
/// Another request comes before everything else, so that nobody waits for, or gets, the answer to a question that was not
/// asked. `first` is the epoch of a key of which nothing is known.
pub fn begin<A>(known: Option<KeyRecord<A>>, fingerprint: Fingerprint, now: Timestamp, first: Epoch) -> Begun<A> {
    match known {
        None => Begun::Started(first),
        Some(record) if record.fingerprint != fingerprint => Begun::Mismatch,
        Some(KeyRecord { answer: Some(answer), .. }) => Begun::Replay(answer),
        Some(record) if now < record.leased_until => Begun::InProgress { retry_after: record.leased_until.since(now) },
        Some(record) => Begun::Started(Epoch(record.epoch.0 + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Fingerprint = Fingerprint([7; 32]);
    const OTHER: Fingerprint = Fingerprint([8; 32]);

    fn known(answer: Option<&'static str>) -> Option<KeyRecord<&'static str>> {
        Some(KeyRecord { fingerprint: ASKED, epoch: Epoch(3), leased_until: Timestamp(1_000_000), answer })
    }

    #[test]
    fn a_key_is_begun_once_at_a_time_and_answered_the_same_for_ever() {
        assert_eq!(begin::<&str>(None, ASKED, Timestamp(0), Epoch(9)), Begun::Started(Epoch(9)));
        let begin = |known, fingerprint, now| begin(known, fingerprint, now, Epoch(9));
        let half = Begun::InProgress { retry_after: Duration::from_millis(500) };
        assert_eq!(begin(known(None), ASKED, Timestamp(500_000)), half);
        assert_eq!(begin(known(None), ASKED, Timestamp(1_000_000)), Begun::Started(Epoch(4)));
        for now in [0, 2_000_000] {
            assert_eq!(begin(known(Some("done")), ASKED, Timestamp(now)), Begun::Replay("done"));
        }
    }

    #[test]
    fn another_request_is_told_so_whatever_became_of_the_first() {
        for (answer, now) in [(None, 0), (None, 2_000_000), (Some("done"), 0)] {
            assert_eq!(begin(known(answer), OTHER, Timestamp(now), Epoch(9)), Begun::Mismatch);
        }
    }
}
