//! Signatures by the Standard Webhooks specification.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use postrider_core::Secret;
use sha2::Sha256;

/// The most keys that sign a request: each makes its header longer by 47 bytes.
pub(super) const MOST_KEYS: usize = 4;

/// The keys that sign: one, or while it is replaced the new one and then the old one.
#[derive(Clone)]
pub(super) struct Signer {
    keys: Vec<Hmac<Sha256>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} keys)", self.keys.len())
    }
}

impl Signer {
    /// Reads one to four secrets parted by white space, the newest first, none of them twice: `whsec_` and base64 of 24 to
    /// 64 bytes.
    pub(super) fn parse(secrets: &Secret) -> Option<Self> {
        let words: Vec<&str> = secrets.reveal().split_whitespace().collect();
        let is_twice = words.iter().enumerate().any(|(place, word)| words[..place].contains(word));
        if is_twice || !(1..=MOST_KEYS).contains(&words.len()) {
            return None;
        }
        words.into_iter().map(key).collect::<Option<Vec<_>>>().map(|keys| Self { keys })
    }

    /// How many keys sign.
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The value of `webhook-signature`: `v1,` and base64 of the HMAC-SHA256 of `id.timestamp.body`, once per key.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let signatures = self.keys.iter().map(|key| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Option<Hmac<Sha256>> {
    let bytes = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    if !(24..=64).contains(&bytes.len()) {
        return None;
    }
    Hmac::new_from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_example_is_signed_as_published() {
        let signer = Signer::parse(&Secret::new(SECRET)).unwrap();
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_keys_make_two_signatures() {
        let other = format!("whsec_{}", STANDARD.encode([7; 32]));
        let signer = Signer::parse(&Secret::new(format!("{SECRET}\n{other}"))).unwrap();
        let signature = signer.sign("id", 1, b"body");
        let one = Signer::parse(&Secret::new(SECRET)).unwrap().sign("id", 1, b"body");
        let two = Signer::parse(&Secret::new(other)).unwrap().sign("id", 1, b"body");
        assert_eq!(signature, format!("{one} {two}"));
    }

    #[test]
    fn a_secret_of_another_form_is_refused() {
        let twice = format!("{SECRET} {SECRET}");
        let key = |byte: u8| format!("whsec_{}", STANDARD.encode([byte; 32]));
        let five = [1, 2, 3, 4, 5].map(key).join(" ");
        assert_eq!(Signer::parse(&Secret::new([1, 2, 3, 4].map(key).join("\n"))).unwrap().keys(), MOST_KEYS);
        for bad in [&*twice, &*five, "", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!", "whsec_c2hvcnQ="] {
            assert!(Signer::parse(&Secret::new(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", Signer::parse(&Secret::new(SECRET)).unwrap()), "Signer(1 keys)");
    }
}
