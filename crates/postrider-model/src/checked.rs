//! What a check of a model found.

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::steps::Action;

/// What a check found.
#[derive(Debug)]
pub struct Checked<A = Action> {
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// How long it took.
    pub took: Duration,
    /// The promises that fell, each with a history that shows it.
    pub fallen: Vec<(&'static str, Vec<A>)>,
    /// What was to be seen somewhere, and was.
    pub seen: Vec<&'static str>,
    /// What was to be seen somewhere, and was not.
    pub unseen: Vec<&'static str>,
}

impl<A: Debug> fmt::Display for Checked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} steps, {:.1} s", self.states, self.steps, self.took.as_secs_f64())?;
        for (name, actions) in &self.fallen {
            write!(f, "\n{name} falls:")?;
            for action in actions {
                write!(f, "\n  {action:?}")?;
            }
        }
        for name in &self.unseen {
            write!(f, "\nnever seen: {name}")?;
        }
        Ok(())
    }
}

/// Looks at every history, or only until this promise falls: then at the shortest ones first.
pub(crate) fn check<M>(model: M, until: Option<&'static str>) -> Checked<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Clone + PartialEq + Hash + Send + Sync,
    M::Action: Debug + Clone + PartialEq + Send + Sync,
{
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let names = |expectation: Expectation| -> BTreeSet<&'static str> {
        let properties = model.properties().into_iter().filter(|property| property.expectation == expectation);
        properties.map(|property| property.name).collect()
    };
    let (promises, to_see) = (names(Expectation::Always), names(Expectation::Sometimes));
    let builder = model.checker().threads(threads);
    let (found, states, steps) = if let Some(promise) = until {
        let checker = builder.finish_when(HasDiscoveries::AnyOf(BTreeSet::from([promise]))).spawn_bfs().join();
        (checker.discoveries(), checker.unique_state_count(), checker.state_count())
    } else {
        let checker = builder.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
        (checker.discoveries(), checker.unique_state_count(), checker.state_count())
    };
    let fallen = promises
        .iter()
        .filter_map(|name| found.get_key_value(name))
        .map(|(name, path)| (*name, path.clone().into_actions()))
        .collect();
    let (seen, unseen) = to_see.into_iter().partition(|name| found.contains_key(name));
    Checked { states, steps, took: started.elapsed(), fallen, seen, unseen }
}
