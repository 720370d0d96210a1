//! What is written to be measured: messages that tell their own number.

use bytes::Bytes;
use postrider_core::Message;

/// Bytes of the number that every payload begins with.
pub const NUMBER: usize = 8;

/// Messages of one measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// How many; their numbers are 0 to this.
    pub messages: u64,
    /// How many keys they have; `key-0` to this.
    pub keys: u32,
    /// Bytes of each payload, at least [`NUMBER`].
    pub payload: usize,
    /// How many hands write at once: each has keys of its own, so that the numbers of a key ascend.
    pub writers: u32,
    /// Their topic.
    pub topic: String,
}

impl Load {
    /// The key of a message: uniform over the keys of its writer, which is the number's rest by the writers.
    pub fn key_of(&self, number: u64) -> u32 {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let writers = u64::from(self.writers.max(1));
        let each = (u64::from(self.keys) / writers).max(1);
        u32::try_from((mixed >> 33) % each * writers + number % writers).unwrap_or(0)
    }

    /// One message.
    pub fn message(&self, number: u64) -> Message {
        Message::new(self.topic.as_str(), self.body(number)).key(key_name(self.key_of(number)))
    }

    fn body(&self, number: u64) -> Bytes {
        let mut body = vec![b'a'; self.payload.max(NUMBER)];
        body[..NUMBER].copy_from_slice(&number.to_be_bytes());
        Bytes::from(body)
    }
}

/// What a key is called.
pub fn key_name(key: u32) -> String {
    format!("key-{key}")
}

/// The number of a message, by its payload; none when it is not one of ours.
pub fn number_of(payload: &[u8]) -> Option<u64> {
    payload.first_chunk::<NUMBER>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The number of a key, by its name; none when it is not one of ours.
pub fn key_of(name: &str) -> Option<u32> {
    name.strip_prefix("key-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_its_number_and_its_key() {
        let load = Load { messages: 10, keys: 4, payload: 20, writers: 2, topic: "bench.orders".into() };
        for number in 0..10 {
            let message = load.message(number);
            message.validate().unwrap();
            assert_eq!(message.payload.len(), 20);
            assert_eq!(number_of(&message.payload), Some(number));
            assert_eq!(message.key.as_ref().and_then(|key| key_of(key.as_str())), Some(load.key_of(number)));
        }
        assert_eq!((number_of(b"short"), key_of("other")), (None, None));
    }

    #[test]
    fn keys_are_spread() {
        let load = Load { messages: 100_000, keys: 100, payload: 8, writers: 1, topic: "t".into() };
        let mut counts = [0_u32; 100];
        (0..load.messages).for_each(|number| counts[load.key_of(number) as usize] += 1);
        assert!(counts.iter().all(|count| (700..1_300).contains(count)), "{counts:?}");
    }
}
