//! A processor as a receiver.

use postrider_core::DeadReason;

use super::receiver::{Handled, Receiver};
use super::setback::Setback;
use crate::delivery::Delivery;
use crate::processor::{Handler, Processed, Processor};

impl<H: Handler + 'static> Receiver for Processor<H> {
    async fn receive(&self, delivery: &Delivery) -> Result<Handled, Setback> {
        judged(self.process(delivery).await)
    }
}

/// What a consumer makes of what a processor says.
fn judged(processed: Processed) -> Result<Handled, Setback> {
    let text = processed.to_string();
    match processed {
        Processed::Applied | Processed::Resumed => Ok(Handled::Now),
        Processed::Repeat => Ok(Handled::Before),
        Processed::Again { error: Some(error), .. } => Err(Setback::again(error)),
        Processed::Again { error: None, .. } => Err(Setback::again(text)),
        Processed::Failed(error) => Err(Setback::failed(error)),
        Processed::TooLarge { .. } => Err(Setback::give_up(text)),
        Processed::TooOld => Err(Setback::give_up_as(DeadReason::Expired, text)),
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::receiving::Lapse;
    use postrider_core::{Error, ErrorKind};

    use super::super::plan::End;
    use super::*;

    fn end(processed: Processed) -> End {
        judged(processed).unwrap_err().end()
    }

    #[test]
    fn what_is_over_is_over() {
        for (processed, handled) in [
            (Processed::Applied, Handled::Now),
            (Processed::Resumed, Handled::Now),
            (Processed::Repeat, Handled::Before),
        ] {
            assert_eq!(judged(processed).unwrap(), handled);
        }
    }

    #[test]
    fn what_is_to_come_again_is_not_counted_whatever_failed() {
        let away = Error::new(ErrorKind::Rejected, "an output is refused");
        assert!(matches!(end(Processed::Again { lapse: Lapse::Away, error: Some(away) }), End::Again));
        assert!(matches!(end(Processed::Again { lapse: Lapse::Conflict, error: None }), End::Again));
    }

    #[test]
    fn what_failed_is_counted_and_what_cannot_be_handled_is_given_up_with_its_reason() {
        assert!(matches!(end(Processed::Failed("no such item".into())), End::Failed(text) if text == "no such item"));
        let large = end(Processed::TooLarge { limit: 600, actual: 700 });
        assert!(matches!(large, End::GiveUp(DeadReason::Malformed, text) if text.contains("too large")));
        assert!(matches!(end(Processed::TooOld), End::GiveUp(DeadReason::Expired, text) if text.contains("too old")));
    }
}
