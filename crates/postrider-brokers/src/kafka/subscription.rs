//! What a consumer takes from kafka.

use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result, Subscription};

use crate::config::SubscriptionConfig;

pub(crate) fn subscribe(config: &SubscriptionConfig) -> Result<Arc<dyn Subscription>> {
    Err(Error::new(ErrorKind::Config, config.consumer.clone()))
}
