//! Signatures by the Standard Webhooks specification.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use postrider_core::Secret;
use sha2::Sha256;

/// The keys that sign: one, or two while they are being exchanged.
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
    /// Reads one or several secrets parted by white space: `whsec_` and base64 of 24 to 64 bytes.
    pub(super) fn parse(secrets: &Secret) -> Option<Self> {
        let keys: Option<Vec<_>> = secrets.reveal().split_whitespace().map(key).collect();
        keys.filter(|keys| !keys.is_empty()).map(|keys| Self { keys })
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
        for bad in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!", "whsec_c2hvcnQ="] {
            assert!(Signer::parse(&Secret::new(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", Signer::parse(&Secret::new(SECRET)).unwrap()), "Signer(1 keys)");
    }
}
