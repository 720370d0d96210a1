//! What a test sees of metrics and of the log while something runs on its thread.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// The metrics that `work` touches, by name and labels, with their values; of a histogram, how often it was recorded.
pub(crate) fn measured(work: impl FnOnce()) -> BTreeMap<String, f64> {
    let recorder = Measures::default();
    metrics::with_local_recorder(&recorder, work);
    let cells = recorder.0.lock().unwrap();
    cells.iter().map(|(name, cell)| (name.clone(), f64::from_bits(cell.0.load(Ordering::Relaxed)))).collect()
}

/// The lines that `work` logs: the level, then each field with its value.
pub(crate) fn logged(work: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let kept = Arc::clone(&lines.0);
    tracing::subscriber::with_default(lines, work);
    std::mem::take(&mut kept.lock().unwrap())
}

/// A floating point number, by its bits.
#[derive(Debug, Default)]
struct Cell(AtomicU64);

impl Cell {
    fn change(&self, change: impl Fn(f64) -> f64) {
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        self.0.store(change(value).to_bits(), Ordering::Relaxed);
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.change(|before| before + f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, value: u64) {
        self.change(|_| f64::from(u32::try_from(value).unwrap()));
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.change(|before| before + value);
    }

    fn decrement(&self, value: f64) {
        self.change(|before| before - value);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

impl HistogramFn for Cell {
    fn record(&self, _: f64) {
        self.change(|before| before + 1.0);
    }
}

#[derive(Debug, Default)]
struct Measures(Mutex<BTreeMap<String, Arc<Cell>>>);

impl Measures {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            write!(name, " {}={}", label.key(), label.value()).unwrap();
        }
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }
}

impl Recorder for Measures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

#[derive(Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
