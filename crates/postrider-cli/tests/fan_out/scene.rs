//! One event that two services receive, of which the one over HTTP is away for a while.

use std::time::{Duration, Instant};

use postrider_testkit::servers::postgres::shared;
use postrider_testkit::servers::process::ServerError;

use crate::application::{Application, Written, now};
use crate::endpoint::{Absence, Endpoint};
use crate::harness::{Place, Relay, Run, until};
use crate::timeline::{Arrival, Span, pace, verdict};

/// How long the backlog of the endpoint may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Behind this many the endpoint has caught up with the writer.
const CAUGHT_UP: usize = 50;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Messages a second.
    rate: usize,
    warm_up: Duration,
    before: Duration,
    away: Duration,
    /// What the rate while one is away is of the rate before, at least.
    least: f64,
}

/// The whole of it with `POSTRIDER_FULL`, as the show sets it; a miniature runs beside other tests, and its rate says
/// little.
pub fn sizes() -> Sizes {
    let seconds = Duration::from_secs;
    if std::env::var_os("POSTRIDER_FULL").is_some() {
        Sizes { rate: 1_000, warm_up: seconds(10), before: seconds(60), away: seconds(120), least: 0.95 }
    } else {
        Sizes { rate: 300, warm_up: seconds(1), before: seconds(2), away: seconds(5), least: 0.5 }
    }
}

/// What the services got.
pub struct Outcome {
    pub written: Vec<Written>,
    before: Span,
    away: Span,
    catching_up: Span,
    hook: Vec<Arrival>,
}

pub struct Scene {
    place: Place,
    url: String,
    relay: Relay,
    endpoint: Endpoint,
}

impl Scene {
    /// A fresh outbox, and a relay to this broker, called `events`, and to the endpoint; with these settings of the relay.
    ///
    /// # Errors
    /// When PostgreSQL is not there.
    pub async fn set(events: &str, relay: &str) -> Result<Self, ServerError> {
        Ok(Self::on(shared().await?.fresh_database().await?, events, relay).await)
    }

    /// The same in this empty database.
    pub async fn on(url: String, events: &str, relay: &str) -> Self {
        let (place, endpoint) = (Place::empty(), Endpoint::start().await);
        let config = format!(
            "[outbox]\nstore = \"{url}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[relay]\nmax_pause = \"2s\"\n{relay}\n\
             [broker.events]\n{events}\n[broker.hook]\nurl = \"{}\"\ntimeout = \"8s\"\n\
             [[route]]\nbroker = \"events\"\n[[route]]\nbroker = \"hook\"\n",
            endpoint.url()
        );
        place.write("postrider.toml", config);
        place.run(&["migrate"]).good();
        let relay = place.start(&mut place.command(&["relay", "--log-format", "json"]));
        Self { place, url, relay, endpoint }
    }

    fn status(&self) -> Run {
        self.place.run(&["status", "--admin", &self.relay.admin])
    }

    /// The application writes, the endpoint goes away and comes back, and gets what it is owed while the application goes on.
    pub async fn play(&mut self, sizes: Sizes, absence: Absence) -> Outcome {
        let application = Application::start(&self.url, sizes.rate);
        tokio::time::sleep(sizes.warm_up).await;
        let began = now();
        tokio::time::sleep(sizes.before).await;
        let went = now();
        self.endpoint.goes_away(absence).await;
        let until_back = Instant::now() + sizes.away;
        if absence == Absence::Closed {
            self.tells_who_is_away();
        }
        tokio::time::sleep_until(until_back.into()).await;
        let back = now();
        let owed = self.endpoint.count();
        self.endpoint.comes_back(absence).await;
        let waited = Instant::now();
        while self.endpoint.count() + CAUGHT_UP < application.committed() {
            let (arrived, committed) = (self.endpoint.count(), application.committed());
            assert!(waited.elapsed() < PATIENCE, "{arrived} of {committed} arrived");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let caught_up = now();
        let written = application.stop();
        until("an empty outbox", || self.status().out.contains("verdict: idle").then_some(()));
        self.relay.terminate();
        assert_eq!(self.relay.ended(), 0, "{}", self.relay.log());
        let catching_up = Span { from: back, to: caught_up };
        println!(
            "{} written; when the endpoint came back it was owed {}, and had caught up after {:.1} s",
            written.len(),
            written.iter().filter(|one| one.at < back).count() - owed,
            catching_up.seconds()
        );
        Outcome {
            written,
            before: Span { from: began, to: went },
            away: Span { from: went, to: back },
            catching_up,
            hook: self.endpoint.arrivals(),
        }
    }

    /// Status is bad for the one, and says that messages go on to the other.
    fn tells_who_is_away(&self) {
        let told = until("a verdict", || {
            let run = self.status();
            (run.code == 1 && run.out.contains("destination hook has been paused")).then_some(run.out)
        });
        assert!(told.contains("not paused, and messages go on there: events"), "{told}");
        let verdict = told.lines().find(|line| line.starts_with("verdict")).unwrap_or_default();
        println!("status, exit code 1: {verdict}");
    }
}

impl Outcome {
    /// Prints what the services got, and demands what was promised. `events` is what the other broker has, in the order of
    /// each key.
    pub fn judge(&self, name: &str, events: &[Arrival], sizes: Sizes) {
        let of_name = |span| pace(&self.written, events, span);
        let (before, away, after) = (of_name(self.before), of_name(self.away), of_name(self.catching_up));
        let part = away.rate / before.rate;
        println!("{name} before:                 {before}");
        println!("{name} while HTTP is away:     {away}");
        println!("{name} while HTTP catches up:  {after}");
        println!("{name} while HTTP is away: {:.1}% of its rate before", part * 100.0);
        println!("HTTP while it catches up:   {}", pace(&self.written, &self.hook, self.catching_up));
        let (of_events, of_hook) = (verdict(&self.written, events), verdict(&self.written, &self.hook));
        println!("{name}: {of_events}\nHTTP: {of_hook}");
        assert!(part >= sizes.least, "{part} of the rate before: at least {} was promised", sizes.least);
        assert!(of_events.holds() && of_events.repeats == 0, "{name}: {of_events}");
        assert!(of_hook.holds(), "HTTP: {of_hook}");
    }
}
