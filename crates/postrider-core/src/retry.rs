//! When to try again, and when to give up.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How many charged attempts a message gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// Dead after this many.
    AtMost(u32),
    /// Never dead by attempts.
    Unlimited,
}

/// What becomes of a message whose time has passed before it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExpire {
    /// It becomes a dead letter of reason `expired`.
    #[default]
    Dead,
    /// It is removed and counted; nothing else is left of it.
    Drop,
}

/// The retry policy of a topic.
///
/// The n-th retry waits a random time between zero and `initial * multiplier^(n-1)`, capped at `maximum` ("full
/// jitter"), but never less than a tenth of it, so that a retry is never immediate. No input overflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The first interval; default 1 s.
    pub initial: Duration,
    /// The longest interval; default 5 min.
    pub maximum: Duration,
    /// What the interval grows by; default 2, at least 1.
    pub multiplier: f64,
    /// How many charged attempts before the message is dead; default 10.
    pub attempts: Attempts,
    /// How long after it was written a message is over, whatever held it up; none, the default, for never.
    pub max_age: Option<Duration>,
    /// What becomes of a message that is over, by this policy or by its own `expires_at`; dead by default.
    pub on_expire: OnExpire,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            maximum: Duration::from_secs(300),
            multiplier: 2.0,
            attempts: Attempts::AtMost(10),
            max_age: None,
            on_expire: OnExpire::Dead,
        }
    }
}

impl RetryPolicy {
    /// How long to wait before the next try, after `failures` of them (1 or more).
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let ceiling = self.ceiling(failures);
        ceiling.mul_f64(jitter.fraction().max(0.1))
    }

    /// The interval before jitter, after `failures` failures.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let multiplier = if self.multiplier.is_finite() { self.multiplier.max(1.0) } else { 1.0 };
        let seconds = self.initial.as_secs_f64() * multiplier.powi(exponent);
        let cap = self.maximum.as_secs_f64();
        Duration::from_secs_f64(if seconds.is_finite() { seconds.min(cap) } else { cap })
    }

    /// Whether `attempts` charged attempts are all there are.
    pub fn exhausted(&self, attempts: u32) -> bool {
        match self.attempts {
            Attempts::AtMost(most) => attempts >= most,
            Attempts::Unlimited => false,
        }
    }

    /// This policy with what a message changes in it.
    pub fn with(&self, change: &RetryOverride) -> Self {
        let millis = |value: Option<u64>, default| value.map_or(default, Duration::from_millis);
        Self {
            initial: millis(change.initial_ms, self.initial),
            maximum: millis(change.maximum_ms, self.maximum),
            multiplier: change.multiplier.unwrap_or(self.multiplier),
            attempts: match change.max_attempts {
                Some(0) => Attempts::Unlimited,
                Some(most) => Attempts::AtMost(most),
                None => self.attempts,
            },
            max_age: match change.max_age_ms {
                Some(0) => None,
                Some(most) => Some(Duration::from_millis(most)),
                None => self.max_age,
            },
            on_expire: self.on_expire,
        }
    }
}

/// What one message changes in the policy of its topic: the JSON object of the `retry` column.
///
/// ```
/// # use postrider_core::RetryOverride;
/// let change = RetryOverride::from_json(r#"{"max_attempts": 3, "initial_ms": 50}"#).unwrap();
/// assert_eq!(change.max_attempts, Some(3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryOverride {
    /// The first interval in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_ms: Option<u64>,
    /// The longest interval in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_ms: Option<u64>,
    /// What the interval grows by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    /// Charged attempts before the message is dead; 0 means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Milliseconds after which the message is over, counted from when it was written; 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
}

impl RetryOverride {
    /// Reads the JSON object of the `retry` column.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("retry: {error}"))
    }

    /// Writes the JSON object of the `retry` column.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Which topics a rule is for: words joined by dots, `*` for one word, `#` at the end for any number of them.
///
/// ```
/// # use postrider_core::TopicPattern;
/// let pattern = TopicPattern::parse("orders.*").unwrap();
/// assert!(pattern.matches("orders.placed"));
/// assert!(!pattern.matches("orders.placed.late"));
/// assert!(TopicPattern::parse("orders.#").unwrap().matches("orders.placed.late"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern(Vec<String>);

impl TopicPattern {
    /// The pattern of every topic.
    pub fn every() -> Self {
        Self(vec!["#".to_owned()])
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, when a word is empty or a wildcard stands where it may not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text.split('.').map(str::to_owned).collect();
        for (place, word) in words.iter().enumerate() {
            let last = place + 1 == words.len();
            if word.is_empty() {
                return Err(format!("{text:?} has an empty word; expected words joined by single dots"));
            }
            if word == "#" && !last {
                return Err(format!("{text:?}: '#' may stand only at the end"));
            }
            if word.len() > 1 && word.contains(['*', '#']) {
                return Err(format!("{text:?}: '*' and '#' stand for whole words only"));
            }
        }
        Ok(Self(words))
    }

    /// Whether a topic matches.
    pub fn matches(&self, topic: &str) -> bool {
        let mut words = topic.split('.');
        for pattern in &self.0 {
            if pattern == "#" {
                return true;
            }
            match (pattern.as_str(), words.next()) {
                (_, None) => return false,
                ("*", Some(_)) => {}
                (pattern, Some(word)) if pattern == word => {}
                (_, Some(_)) => return false,
            }
        }
        words.next().is_none()
    }

    /// Whether some topic matches both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.0.iter(), other.0.iter());
        loop {
            match (ours.next().map(String::as_str), theirs.next().map(String::as_str)) {
                (None, None) | (Some("#"), _) | (_, Some("#")) => return true,
                (Some("*"), Some(_)) | (Some(_), Some("*")) => {}
                (Some(our), Some(their)) if our == their => {}
                (Some(_), Some(_)) | (None, Some(_)) | (Some(_), None) => return false,
            }
        }
    }

    /// The only topic that matches, where there are no wildcards.
    pub fn only(&self) -> Option<String> {
        let is_plain = self.0.iter().all(|word| !matches!(word.as_str(), "*" | "#"));
        is_plain.then(|| self.to_string())
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Randomness as a parameter: a seeded generator (SplitMix64), enough for spreading retries.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// A generator that gives the same numbers for the same seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number of at least 0 and below 1.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let high = u32::try_from(z >> 32).unwrap_or(0);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_and_stops_at_the_maximum() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.ceiling(1), Duration::from_secs(1));
        assert_eq!(policy.ceiling(2), Duration::from_secs(2));
        assert_eq!(policy.ceiling(5), Duration::from_secs(16));
        assert_eq!(policy.ceiling(20), Duration::from_secs(300));
    }

    #[test]
    fn nothing_overflows() {
        let extremes = [0.0, 1.0, f64::MAX, f64::INFINITY, f64::NAN, -3.0];
        let mut jitter = Jitter::seeded(1);
        for multiplier in extremes {
            for failures in [0, 1, 2, 1_000, u32::MAX] {
                let policy = RetryPolicy { maximum: Duration::MAX, multiplier, ..RetryPolicy::default() };
                let policy =
                    RetryPolicy { maximum: policy.maximum.min(Duration::from_secs(u64::from(u32::MAX))), ..policy };
                let _ = policy.delay(failures, &mut jitter);
            }
        }
    }

    #[test]
    fn jitter_is_full_and_never_immediate() {
        let policy = RetryPolicy::default();
        let mut jitter = Jitter::seeded(7);
        let delays: Vec<_> = (0..1_000).map(|_| policy.delay(3, &mut jitter)).collect();
        assert!(delays.iter().all(|d| *d >= Duration::from_millis(400) && *d <= Duration::from_secs(4)));
        assert!(
            delays.iter().any(|d| *d < Duration::from_secs(1)) && delays.iter().any(|d| *d > Duration::from_secs(3))
        );
    }

    #[test]
    fn a_message_may_change_its_policy() {
        let change = RetryOverride { max_attempts: Some(0), initial_ms: Some(5), ..RetryOverride::default() };
        let policy = RetryPolicy::default().with(&change);
        assert_eq!(policy.attempts, Attempts::Unlimited);
        assert_eq!(policy.initial, Duration::from_millis(5));
        assert!(!policy.exhausted(u32::MAX));
        assert!(RetryPolicy::default().exhausted(10) && !RetryPolicy::default().exhausted(9));
    }

    #[test]
    fn unlimited_attempts_are_never_used_up_and_their_interval_stays_at_the_maximum() {
        let policy = RetryPolicy { attempts: Attempts::Unlimited, ..RetryPolicy::default() };
        for attempts in [0, 1, 10, 1_000, u32::MAX] {
            assert!(!policy.exhausted(attempts));
            assert!(policy.ceiling(attempts) <= policy.maximum);
        }
    }

    #[test]
    fn patterns() {
        assert!(TopicPattern::every().matches("a.b"));
        assert!(TopicPattern::parse("a.*.c").unwrap().matches("a.b.c"));
        assert!(!TopicPattern::parse("a.b").unwrap().matches("a"));
        for bad in ["", "a..b", "#.a", "a*", "a.b#"] {
            assert!(TopicPattern::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn two_patterns_overlap_where_a_topic_matches_both() {
        let pattern = |text: &str| TopicPattern::parse(text).unwrap();
        for (one, other, overlap) in [
            ("#", "orders", true),
            ("orders.#", "orders", true),
            ("orders.#", "*", true),
            ("orders.*", "*.placed", true),
            ("orders.placed", "orders.placed", true),
            ("a.*.c", "a.b.#", true),
            ("orders", "stock", false),
            ("orders", "orders.placed", false),
            ("orders.*", "orders", false),
            ("orders.*", "orders.a.b", false),
            ("orders.#", "stock.#", false),
        ] {
            assert_eq!(pattern(one).overlaps(&pattern(other)), overlap, "{one} {other}");
            assert_eq!(pattern(other).overlaps(&pattern(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn a_pattern_without_wildcards_is_of_one_topic() {
        let only = |text: &str| TopicPattern::parse(text).unwrap().only();
        assert_eq!(only("orders.placed").as_deref(), Some("orders.placed"));
        assert_eq!((only("orders.*"), only("#")), (None, None));
    }

    #[test]
    fn a_pattern_is_written_as_it_was_read() {
        for text in ["#", "orders.*", "a.b.#"] {
            assert_eq!(TopicPattern::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_a_message_changes_is_kept_as_json_with_nothing_else_in_it() {
        let change = RetryOverride { max_attempts: Some(3), ..RetryOverride::default() };
        assert_eq!(change.to_json(), r#"{"max_attempts":3}"#);
        assert_eq!(RetryOverride::from_json(&change.to_json()), Ok(change));
        assert!(RetryOverride::from_json(r#"{"attempts": 3}"#).unwrap_err().starts_with("retry: "));
    }

    #[test]
    fn jitter_is_splitmix64() {
        // The first outputs for this seed: 6457827717110365317, 3203168211198807973, 9817491932198370423.
        let mut jitter = Jitter::seeded(1_234_567);
        for high in [1_503_580_183_u32, 745_795_716, 2_285_812_965] {
            let expected = f64::from(high) / 4_294_967_296.0;
            assert!((jitter.fraction() - expected).abs() < f64::EPSILON);
        }
        let mut jitter = Jitter::seeded(0);
        let last = (0..=3).map(|_| jitter.fraction()).last().unwrap();
        assert!(
            (last - 4_169_906_344.0_f64 / 4_294_967_296.0).abs() < f64::EPSILON,
            "the last step exchanges bits and adds none"
        );
    }
}
