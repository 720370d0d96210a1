//! What the trace says of an action.

use crate::machine::*;

pub(super) fn brief(action: &Action) -> String {
    match action {
        Action::Read(read) => format!("read {:?} {:?} {:?}", read.ticket, read.wanted, read.room),
        Action::Publish(destination, flight, batch) => {
            let rows: Vec<_> = batch.iter().map(|outgoing| outgoing.message.id.0.as_u128()).collect();
            format!("publish {destination:?} {flight:?} {rows:?}")
        }
        Action::Settle(Settle { rows: batch, .. }) => {
            let rows: Vec<_> = batch.iter().map(|settlement| (settlement.row.0, &settlement.outcome)).collect();
            format!("settle {rows:?}")
        }
        Action::Check(destination) => format!("check {destination:?}"),
        Action::Release(lanes) => format!("release {lanes:?}"),
    }
}
