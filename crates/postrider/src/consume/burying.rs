//! What becomes a dead letter.

use postrider_core::{Message, Place};
use uuid::Uuid;

use super::taken::{Content, Taken};

/// The topic of what is no message.
const UNREADABLE: &str = "unreadable";
/// The header that says where it lay.
const PLACE_HEADER: &str = "dead-letter-place";
/// The namespace of the ids of what is no message.
const PLACES: Uuid = Uuid::from_u128(0x2a77_9d0c_5f0e_4c1b_8f0d_6b9d_31e4_57a2);

/// What is put with the dead letters of what was taken.
pub(super) fn letter(taken: &Taken) -> Message {
    match &taken.content {
        Content::Delivery(delivery) => delivery.message.clone(),
        Content::Unreadable(_, payload) => unreadable(&taken.place, payload),
    }
}

/// What is no message, as one that can be kept: its bytes, and where it lay. It has the same id whenever it is put there.
fn unreadable(place: &Place, payload: &bytes::Bytes) -> Message {
    let shown: String = place.as_str().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Message::new(UNREADABLE, payload.clone())
        .id(Uuid::new_v5(&PLACES, place.as_str().as_bytes()))
        .header(PLACE_HEADER, shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_becomes_one_with_its_bytes_and_where_it_lay() {
        let place = Place::new("orders[3]@17\n");
        let (message, again) = (unreadable(&place, &"\u{1}".into()), unreadable(&place, &"\u{1}".into()));
        message.validate().unwrap();
        assert_eq!(message.headers.get("dead-letter-place"), Some("orders[3]@17?"));
        assert_eq!((&message.payload[..], message.id), (&b"\x01"[..], again.id));
        assert_ne!(message.id, unreadable(&Place::new("orders[3]@18"), &"\u{1}".into()).id);
    }
}
