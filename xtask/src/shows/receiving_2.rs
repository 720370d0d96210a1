//! The model of the receiving side.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "receiving.2",
    says: "every history of the receiving side's protocols within bounds: states, invariants, broken rules caught, harmless \
           changes passed",
    steps: &[Step::Tests {
        does: "each protocol by the machines that services run, and each rule of them broken on purpose",
        package: "postrider-model",
        target: "receiving",
        filter: "",
    }],
};
