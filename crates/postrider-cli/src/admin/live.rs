//! What the admin address looks at: the running relay, once there is one, and the metrics.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::report::Report;
use crate::failure::{Failure, Outcome};

/// How often histograms are folded, so that they do not grow between scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Where a report comes from.
type Source = Box<dyn Fn() -> Report + Send + Sync>;

/// The state of this process.
pub(crate) struct Live {
    name: String,
    because: Mutex<Option<String>>,
    source: Mutex<Option<Source>>,
    metrics: PrometheusHandle,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Live {
    /// Installs the metrics recorder; once per process.
    pub(crate) fn start(name: &str) -> Outcome<Self> {
        let metrics = PrometheusBuilder::new()
            .set_buckets(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|error| Failure::usage(format!("cannot keep metrics: {error}"), "report this as a defect"))?;
        let upkeep = metrics.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        Ok(Self { name: name.to_owned(), because: Mutex::default(), source: Mutex::default(), metrics })
    }

    /// Says why there is no relay yet.
    pub(crate) fn waiting(&self, because: String) {
        *self.because.lock().unwrap_or_else(PoisonError::into_inner) = Some(because);
    }

    /// From now on the relay itself is asked.
    pub(crate) fn relaying(&self, source: impl Fn() -> Report + Send + Sync + 'static) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(source));
    }

    /// The state now.
    pub(crate) fn report(&self) -> Report {
        match &*self.source.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(source) => source(),
            None => {
                let because = self.because.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Report::starting(&self.name, because)
            }
        }
    }

    /// The metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.render()
    }
}
