//! What this program was built with: `postrider --version --verbose`.

use postrider_brokers::backends;
use postrider_stores::KINDS;

/// One kind of store or broker: its feature, the schemes of its addresses, and whether it is there.
#[derive(Debug, Clone, Copy)]
struct Kind {
    feature: &'static str,
    schemes: &'static [&'static str],
    is_built_in: bool,
}

/// Everything that is told, in lines of a name and what there is.
pub(crate) fn told() -> String {
    let stores: Vec<Kind> = KINDS
        .iter()
        .map(|kind| Kind { feature: kind.feature, schemes: kind.schemes, is_built_in: kind.is_built_in() })
        .collect();
    let brokers: Vec<Kind> = backends()
        .iter()
        .map(|kind| Kind { feature: kind.feature, schemes: kind.schemes, is_built_in: kind.is_built_in() })
        .collect();
    let rows = [
        ("target", format!("{}, {}", env!("POSTRIDER_TARGET"), env!("POSTRIDER_PROFILE"))),
        ("stores", there(&stores)),
        ("brokers", there(&brokers)),
        ("TLS", tls(cfg!(feature = "kafka"), cfg!(feature = "kafka-tls")).to_owned()),
        ("features", features(env!("POSTRIDER_FEATURES"))),
        ("not built in", missing(&[stores, brokers].concat(), cfg!(feature = "kafka-tls"))),
    ];
    let mut text = concat!("postrider ", env!("CARGO_PKG_VERSION")).to_owned();
    for (name, value) in rows {
        text.push_str(&format!("\n{name:<14}{value}"));
    }
    text
}

fn there(kinds: &[Kind]) -> String {
    let one = |kind: &Kind| format!("{} ({}:)", kind.feature, kind.schemes.join(":, "));
    or_none(kinds.iter().filter(|kind| kind.is_built_in).map(one).collect())
}

fn missing(kinds: &[Kind], has_kafka_tls: bool) -> String {
    let absent = kinds.iter().filter(|kind| !kind.is_built_in).map(|kind| kind.feature);
    let features = absent.chain((!has_kafka_tls).then_some("kafka-tls"));
    or_none(features.map(|feature| format!("{feature} (--features {feature})")).collect())
}

const fn tls(has_kafka: bool, has_kafka_tls: bool) -> &'static str {
    match (has_kafka, has_kafka_tls) {
        (_, true) => "rustls with aws-lc-rs; for Kafka the system's OpenSSL",
        (true, false) => "rustls with aws-lc-rs; none for Kafka",
        (false, false) => "rustls with aws-lc-rs",
    }
}

/// The features in the order of the alphabet; the name of the default ones together says nothing.
fn features(listed: &str) -> String {
    let mut names: Vec<String> =
        listed.split(',').filter(|name| !matches!(*name, "" | "default")).map(str::to_owned).collect();
    names.sort_unstable();
    or_none(names)
}

fn or_none(parts: Vec<String>) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(feature: &'static str, schemes: &'static [&'static str], is_built_in: bool) -> Kind {
        Kind { feature, schemes, is_built_in }
    }

    #[test]
    fn what_is_there_comes_with_its_schemes_and_what_is_not_with_its_feature() {
        let kinds = [kind("http", &["http", "https"], true), kind("kafka", &["kafka"], false)];
        assert_eq!(there(&kinds), "http (http:, https:)");
        assert_eq!(missing(&kinds, false), "kafka (--features kafka), kafka-tls (--features kafka-tls)");
        assert_eq!((there(&kinds[1..]), missing(&kinds[..1], true)), ("none".to_owned(), "none".to_owned()));
    }

    #[test]
    fn features_are_those_that_were_chosen() {
        assert_eq!(features("sqlite,default,demo"), "demo, sqlite");
        assert_eq!(features(""), "none");
        let told = told();
        let line = told.lines().find(|line| line.starts_with("features")).unwrap();
        for (feature, is_on) in
            [("sqlite", cfg!(feature = "sqlite")), ("mysql", cfg!(feature = "mysql")), ("demo", cfg!(feature = "demo"))]
        {
            assert_eq!(line.split([' ', ',']).any(|word| word == feature), is_on, "{feature}: {line}");
        }
    }

    #[test]
    fn encryption_is_told_for_each_of_the_two_libraries() {
        assert!(tls(false, false).contains("rustls") && !tls(false, false).contains("Kafka"));
        assert!(tls(true, false).contains("none for Kafka"));
        assert!(tls(true, true).contains("OpenSSL"));
    }
}
