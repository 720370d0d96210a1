//! Placeholder.
pub(crate) fn open(config: &crate::BrokerConfig) -> postrider_core::Result<std::sync::Arc<dyn postrider_core::Broker>> {
    crate::options::Options::new(config).finish()?;
    Err(postrider_core::Error::new(postrider_core::ErrorKind::Config, "not built yet"))
}
