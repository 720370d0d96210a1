//! A message as it came from JetStream.

use async_nats::Message;
use postrider_core::{MessageId, Place, Wire};
use uuid::Uuid;

/// What our broker adds beside the headers that every broker adds.
const OURS: [&str; 2] = ["nats-msg-id", "nats-expected-stream"];

/// What the subject of an acknowledgement tells about its message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told<'a> {
    pub(super) stream: &'a str,
    pub(super) sequence: u64,
    /// The number that the consumer gave to this delivery.
    pub(super) delivery: u64,
    /// How often the message was delivered, this time included.
    pub(super) deliveries: u32,
    /// When it was stored, in nanoseconds, as text.
    pub(super) stored: &'a str,
}

impl<'a> Told<'a> {
    /// Reads the subject: seven words, or since 2.11 nine and more, of which the first two tell the domain and the account.
    pub(super) fn read(reply: &'a str) -> Option<Self> {
        let words: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let words = match words.len() {
            7 => words.as_slice(),
            9.. => words.get(2..)?,
            _ => return None,
        };
        let [stream, _consumer, deliveries, sequence, delivery, stored, ..] = *words else { return None };
        let deliveries = deliveries.parse::<u64>().ok()?.try_into().unwrap_or(u32::MAX);
        let (sequence, delivery) = (sequence.parse().ok()?, delivery.parse().ok()?);
        Some(Self { stream, sequence, delivery, deliveries, stored })
    }

    pub(super) fn place(&self) -> Place {
        Place::new(format!("{}/{}", self.stream, self.sequence))
    }
}

/// Reads a message, as its sender enqueued it or as another producer sent it.
///
/// # Errors
/// `Rejected` for what is no message.
pub(super) fn read(message: &Message, told: &Told<'_>) -> postrider_core::Result<postrider_core::Message> {
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if let Some(map) = &message.headers {
        headers.extend(map.iter().filter_map(|(name, values)| Some((name.as_ref(), values.first()?.as_str()))));
    }
    // The client keeps them in no order; every delivery of a message is to be like the other.
    headers.sort_unstable();
    let find =
        |wanted: &str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
    let is_ours = find("postrider-id").is_some();
    let id = if is_ours { None } else { find(OURS[0]).and_then(|text| Uuid::parse_str(text).ok()) };
    headers.retain(|(name, _)| {
        let dropped = if is_ours { &OURS[..] } else { &OURS[..usize::from(id.is_some())] };
        !dropped.iter().any(|dropped| name.eq_ignore_ascii_case(dropped))
    });
    let (payload, topic) = (Some(message.payload.clone()), message.subject.as_str());
    // A stream that was deleted and made again counts from one again.
    let read = Wire { headers, payload, topic, key: None, place: &told.place(), stored: Some(told.stored) }.read()?;
    Ok(postrider_core::Message { id: id.map_or(read.id, MessageId), ..read })
}

#[cfg(test)]
mod tests {
    use async_nats::HeaderMap;
    use postrider_core::ErrorKind;

    use super::*;

    const REPLY: &str = "$JS.ACK.ORDERS.invoices.2.17.40.1700000000000000001.3";

    fn message(headers: &[(&str, &str)]) -> Message {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        Message {
            subject: "shop.orders".into(),
            reply: Some(REPLY.into()),
            payload: "{}".into(),
            headers: Some(map),
            status: None,
            description: None,
            length: 0,
        }
    }

    fn reading(headers: &[(&str, &str)]) -> postrider_core::Result<postrider_core::Message> {
        read(&message(headers), &Told::read(REPLY).unwrap())
    }

    #[test]
    fn what_an_acknowledgement_tells_is_read_in_both_forms() {
        let told = Told { stream: "ORDERS", sequence: 17, delivery: 40, deliveries: 2, stored: "1700000000000000001" };
        for reply in [
            REPLY,
            "$JS.ACK.hub.acchash.ORDERS.invoices.2.17.40.1700000000000000001.3",
            "$JS.ACK._.acchash.ORDERS.invoices.2.17.40.1700000000000000001.3.random",
        ] {
            let read = Told::read(reply).unwrap();
            assert_eq!((&read, read.place().as_str()), (&told, "ORDERS/17"), "{reply}");
        }
        for bad in
            ["", "_INBOX.x", "$JS.ACK.a.b", "$JS.ACK.a.b.x.1.1.1.1", "$JS.ACK.a.b.1.x.1.1.1", "$JS.ACK.a.b.1.1.1.1.1.1"]
        {
            assert_eq!(Told::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_what_our_own_broker_added_is_left_out() {
        let id = "0193e0a4-7d5e-7cc3-b3ae-4d2a5e5f7a10";
        let ours = reading(&[
            ("postrider-id", id),
            ("Nats-Msg-Id", id),
            ("Nats-Expected-Stream", "ORDERS"),
            ("Nats-Stream-Source", "OTHER 7"),
            ("b", "2"),
            ("a", "1"),
        ])
        .unwrap();
        assert_eq!(ours.id.to_string(), id);
        let headers: Vec<_> = ours.headers.iter().collect();
        assert_eq!(headers, [("Nats-Stream-Source", "OTHER 7"), ("a", "1"), ("b", "2")]);
    }

    #[test]
    fn a_foreign_message_is_known_by_its_msg_id_where_that_is_a_uuid() {
        let id = "0193e0a4-7d5e-7cc3-b3ae-4d2a5e5f7a10";
        let named =
            reading(&[("Nats-Msg-Id", id), ("Nats-Expected-Stream", "ORDERS"), ("x", "first"), ("x", "2")]).unwrap();
        assert_eq!((named.id.to_string().as_str(), named.topic.as_str()), (id, "shop.orders"));
        let headers: Vec<_> = named.headers.iter().collect();
        assert_eq!(headers, [("Nats-Expected-Stream", "ORDERS"), ("x", "first")]);
        let other = reading(&[("Nats-Msg-Id", "order-7")]).unwrap();
        assert_eq!(other.headers.get("Nats-Msg-Id"), Some("order-7"));
        assert_eq!(other.id, reading(&[]).unwrap().id);
        // In a stream that was made again, another message lies at the same place.
        let later = REPLY.replace("1700000000000000001", "1800000000000000001");
        assert_ne!(other.id, read(&message(&[]), &Told::read(&later).unwrap()).unwrap().id);
    }

    #[test]
    fn what_is_no_message_is_rejected_with_where_it_lies() {
        for headers in [[("postrider-id", "7")], [("Content-Type", "no media type")]] {
            let error = reading(&headers).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(error.to_string().contains("ORDERS/17"), "{error}");
        }
    }
}
