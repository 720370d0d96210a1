//! The receiver's side of Standard Webhooks: the secret, and whether a signature is right.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use uuid::Uuid;

/// Verifies `webhook-signature`.
#[derive(Debug, Clone)]
pub(super) struct Verifier {
    key: [u8; 32],
}

impl Verifier {
    /// A fresh key.
    pub(super) fn fresh() -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Self { key }
    }

    /// The key as the `secret` of an HTTP broker.
    pub(super) fn secret(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.key))
    }

    /// Whether one of the signatures is that of this id, timestamp and body.
    pub(super) fn verifies(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let read = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let signed = format!("{}.{}.", read("webhook-id"), read("webhook-timestamp"));
        let signatures = read("webhook-signature").split(' ').filter_map(|one| one.strip_prefix("v1,"));
        signatures.filter_map(|one| STANDARD.decode(one).ok()).any(|one| {
            let Ok(mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return false };
            mac.chain_update(&signed).chain_update(body).verify_slice(&one).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_verifies_and_one_byte_more_does_not() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mut padded = [0; 32];
        // HMAC pads its key with zeros, so the key of 24 bytes is one of 32.
        padded[..key.len()].copy_from_slice(&key);
        let verifier = Verifier { key: padded };
        assert!(verifier.verifies(&headers, br#"{"test": 2432232314}"#));
        assert!(!verifier.verifies(&headers, br#"{"test": 2432232314} "#));
        assert!(!Verifier::fresh().verifies(&headers, br#"{"test": 2432232314}"#));
    }
}
