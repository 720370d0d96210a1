//! Flags, variables and the file; secrets; `init`; `config show`.

use std::path::Path;

use postrider_testkit::command::lacking;

use crate::harness::{self, Place};

fn shown(run: &harness::Run, key: &str) -> (String, String) {
    let list = run.json();
    let line = list.as_array().unwrap().iter().find(|line| line["key"] == key).unwrap();
    (line["value"].as_str().unwrap_or("-").to_owned(), line["origin"].as_str().unwrap().to_owned())
}

#[test]
fn flags_beat_variables_and_variables_beat_the_file() {
    let place = Place::empty();
    place.write("postrider.toml", "[retry]\nmax_attempts = 3\nmultiplier = 1.5\ninitial = \"2s\"\n");
    let variables = [("POSTRIDER_RETRY__MAX_ATTEMPTS", "4"), ("POSTRIDER_RETRY__INITIAL", "3s")];
    let run = place.run_with(&variables, &["config", "show", "--json", "--retry-max-attempts", "5"]);
    run.good();
    assert_eq!(shown(&run, "retry.max_attempts"), ("5".to_owned(), "flag --retry-max-attempts".to_owned()));
    assert_eq!(shown(&run, "retry.initial"), ("3s".to_owned(), "variable POSTRIDER_RETRY__INITIAL".to_owned()));
    assert_eq!(shown(&run, "retry.multiplier"), ("1.5".to_owned(), "file postrider.toml".to_owned()));
    assert_eq!(shown(&run, "retry.maximum"), ("5m".to_owned(), "default".to_owned()));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_valid_one() {
    let place = Place::empty();
    for (text, suggestion) in [
        ("[retry]\nmax_attempt = 3\n", "did you mean retry.max_attempts?"),
        ("[relai]\nlease = \"5s\"\n", "did you mean relay.lease?"),
        ("[[route]]\ntopics = \"#\"\nbrokr = \"x\"\n", "did you mean route[].broker?"),
        ("[[retry.topic]]\npatern = \"#\"\n", "did you mean retry.topic[].pattern?"),
    ] {
        place.write("postrider.toml", text);
        place.run(&["config", "show"]).ends(2).says(&["postrider.toml", suggestion]);
    }
}

/// Everything after it would otherwise be as if it were not written.
#[test]
fn an_entry_of_a_list_that_says_nothing_hides_no_other_and_is_told_what_it_lacks() {
    let place = Place::empty();
    for (text, words) in [
        ("[[retry.topic]]\n[[retry.topic]]\npattern = \"a.#\"\n", ["retry.topic[0].pattern: is missing", "orders.#"]),
        ("[[retry.topic]]\npattern = \"a.#\"\n[[retry.topic]]\n", ["retry.topic[1].pattern: is missing", "orders.#"]),
        ("[[retry.topics]]\n", ["retry.topics[] is no setting", "next: "]),
    ] {
        place.write("postrider.toml", text);
        place.run(&["config", "show"]).ends(2).says(&words);
    }
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_valid_one() {
    let run = Place::empty().run_with(&[("POSTRIDER_RETRY__MAX_ATTEMPT", "3")], &["config", "show"]);
    run.ends(2).says(&["POSTRIDER_RETRY__MAX_ATTEMPT ", "did you mean POSTRIDER_RETRY__MAX_ATTEMPTS?"]);
}

#[test]
fn an_unknown_option_of_a_broker_is_refused_with_the_nearest_valid_one() {
    let place = Place::migrated();
    place.write("postrider.toml", "[broker.hook]\nurl = \"http://127.0.0.1:9/\"\ntimeot = \"1s\"\n");
    place.on(&["relay", "--until-empty"]).ends(2).says(&["broker.hook", "timeot", "did you mean \"timeout\"?"]);
}

#[test]
fn secrets_are_in_no_output_whatever_their_source() {
    let place = Place::empty();
    place.write("db-password", "canary-file\n");
    place.write(
        "postrider.toml",
        "[outbox]\nstore = \"postgres://app:canary-url@127.0.0.1:1/db\"\n\
         [admin]\ntoken = \"canary-token\"\n\
         [broker.hook]\nurl = \"https://u:canary-broker@127.0.0.1/\"\n\
         secret = [\"whsec_canary-new\", \"whsec_canary-old\"]\n",
    );
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["status"],
        &["check"],
        &["check", "--json"],
        &["relay", "--until-empty"],
        &["explain", "x"],
        &["migrate"],
        &["--log-level", "trace", "relay", "--until-empty"],
        &["dead", "list"],
    ] {
        place.run(arguments).hides("canary");
    }
    for broker in [
        "nats://127.0.0.1:1?nkey_seed=SUcanary",
        "nats://127.0.0.1:1?NKEY_SEED=SUcanary&stream=a",
        "nats://127.0.0.1:1?CREDS=canary",
        "tls://127.0.0.1:1?client_key_password=canary",
    ] {
        for arguments in
            [&["config", "show"][..], &["config", "show", "--json"], &["check"], &["relay", "--until-empty"]]
        {
            place.run(&[arguments, &["--broker", broker]].concat()).hides("canary");
        }
    }
    let variables = [("POSTRIDER_OUTBOX__STORE", "postgres://app@127.0.0.1:1/db")];
    for arguments in [&["config", "show", "--outbox-store-password-file", "db-password"][..], &["status"]] {
        place.run_with(&variables, arguments).hides("canary");
    }
}

#[test]
fn creds_that_are_a_path_and_a_path_that_is_creds_are_refused_before_anything_is_opened_and_no_secret_is_shown() {
    let place = Place::empty();
    place.write("canary.creds", "");
    let text = "-----BEGIN NATS USER JWT-----\\ncanary\\n------END NATS USER JWT------\\n";
    let show = |url: &str, option: &str, value: &str| {
        place.write("postrider.toml", format!("[broker.bus]\nurl = \"{url}\"\n{option} = \"{value}\"\n"));
        place.run(&["config", "show"])
    };
    let nats = "nats://127.0.0.1:1";
    for (option, value, words) in [
        ("creds", "canary.creds", ["broker.bus.creds (file postrider.toml): is the path", "next: write creds_file"]),
        ("creds", "canary", ["neither the text of a creds file", "next: write creds_file"]),
        ("creds_file", text, ["broker.bus.creds_file (file postrider.toml): is the text", "or call it creds"]),
    ] {
        show(nats, option, value).ends(2).says(&words).hides("canary");
    }
    show(nats, "creds", text).good().hides("canary");
    assert!(show(nats, "creds_file", "user.creds").good().out.contains("user.creds"));
    let in_query = place.run(&["status", "--broker", "nats://127.0.0.1:1?creds=canary&stream=a"]);
    in_query.ends(2).says(&["broker.default.url?creds: is neither", "next: write creds_file"]).hides("canary");
    // On a broker of another kind it is an option like others, unknown or not.
    show("file:out.jsonl", "creds", "canary").good().hides("canary");
}

#[test]
fn a_wrong_value_that_may_be_a_secret_is_not_repeated() {
    let place = Place::empty();
    place.write("postrider.toml", "[outbox]\nstore = [\"postgres://u:canary@db\"]\n");
    place.run(&["config", "show"]).ends(2).says(&["outbox.store"]).hides("canary");
    place.write("postrider.toml", "[outbox]\nstore = \"postgres://u:canary@db\n");
    place.run(&["config", "show"]).ends(2).says(&["line 2"]).hides("canary");
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_named() {
    let place = Place::empty();
    place.run(&["config", "show", "--config", "nowhere.toml"]).ends(2).says(&["nowhere.toml", "postrider init"]);
    place.write("bad.toml", "this is no toml");
    place.run(&["config", "show", "--config", "bad.toml"]).ends(2).says(&["bad.toml", "line 1"]);
}

#[test]
fn the_origin_of_every_kind_of_value_is_shown_and_secrets_have_theirs_too() {
    let place = Place::empty();
    place.write(
        "other.toml",
        "[outbox]\nstore = \"postgres://app:canary@db/shop\"\n[broker.hook]\nurl = \"https://u:canary@hooks/\"\n\
         token = \"canary\"\n[[retry.topic]]\npattern = \"mails.#\"\n",
    );
    let variables = [("POSTRIDER_ADMIN__TOKEN", "canary"), ("POSTRIDER_CONFIG", "other.toml")];
    let run = place.run_with(&variables, &["config", "show", "--json", "--log-level", "warn"]);
    run.good().hides("canary");
    for (key, value, origin) in [
        ("outbox.store", "postgres://app:***@db/shop", "file other.toml"),
        ("broker.hook.url", "https://u:***@hooks/", "file other.toml"),
        ("broker.hook.token", "***", "file other.toml"),
        ("retry.topic[0].pattern", "mails.#", "file other.toml"),
        ("admin.token", "***", "variable POSTRIDER_ADMIN__TOKEN"),
        ("log.level", "warn", "flag --log-level"),
        ("log.format", "text", "default"),
    ] {
        assert_eq!(shown(&run, key), (value.to_owned(), origin.to_owned()), "{key}");
    }
    // A broker on the command line takes the place of every section: their values are not in force, and not shown.
    let run = place.run_with(&variables, &["config", "show", "--json", "--broker", "file:out.jsonl"]);
    assert_eq!(shown(&run, "broker.default.url"), ("file:out.jsonl".to_owned(), "flag --broker".to_owned()));
    assert!(run.json().as_array().unwrap().iter().all(|line| line["key"] != "broker.hook.url"));
}

#[test]
fn init_writes_a_file_that_works_and_never_overwrites_one() {
    let place = Place::empty();
    place.run(&["init", "--store", "sqlite:app.db", "--broker", "file:out.jsonl"]).good();
    let written = place.read("postrider.toml");
    assert!(written.contains("# max_attempts = 10"), "{written}");
    place.run(&["init"]).ends(3).says(&["left as it is"]);
    assert_eq!(place.read("postrider.toml"), written);
    place.run(&["migrate"]).good();
    place.run(&["enqueue", "a.b", "--payload", "x"]).good();
    place.run(&["relay", "--until-empty", "--admin-listen", "off"]).good();
    assert_eq!(harness::lines(&place.path("out.jsonl")).len(), 1);
}

#[test]
fn init_writes_nothing_for_an_address_of_a_kind_that_does_not_exist() {
    let place = Place::empty();
    for words in [
        ["--store", "oracle://app@localhost/shop"],
        ["--broker", "amqp://localhost:5672"],
        ["--broker", "natz://localhost:4222"],
    ] {
        place.run(&["init", words[0], words[1]]).ends(2).says(&["error: ", "next: "]);
        assert!(!place.path("postrider.toml").exists(), "{words:?}");
    }
}

#[test]
fn an_admin_address_that_others_can_reach_needs_a_token() {
    let place = Place::empty();
    place.run(&["config", "show", "--admin-listen", "0.0.0.0:0"]).ends(2).says(&["token"]);
    place.write("token", "s3cret\n");
    place.run(&["config", "show", "--admin-listen", "0.0.0.0:0", "--admin-token-file", "token"]).good().hides("s3cret");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let place = Place::empty();
    for verb in [
        &["init"][..],
        &["migrate"],
        &["relay"],
        &["enqueue"],
        &["status"],
        &["explain"],
        &["dead"],
        &["dead", "list"],
        &["dead", "show"],
        &["dead", "replay"],
        &["dead", "discard"],
        &["prune"],
        &["check"],
        &["config", "show"],
        &["completions"],
    ] {
        let run = place.run(&[verb, &["--help"]].concat());
        run.good();
        assert!(
            run.out.contains("Example") && run.out.contains("  postrider ") || run.out.contains("  POSTRIDER"),
            "{}",
            run.out
        );
    }
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = Place::empty().run(&["completions", shell]);
        assert!(run.good().out.contains("until-empty"), "{shell}");
    }
}

#[test]
fn the_version_lists_what_is_built_in_when_it_is_asked_to() {
    let place = Place::empty();
    for words in [["--version", "--verbose"], ["--verbose", "--version"], ["-V", "--verbose"]] {
        let run = place.run(&words);
        let told = &run.good().out;
        assert!(told.starts_with(concat!("postrider ", env!("CARGO_PKG_VERSION"), "\n")), "{told}");
        for name in ["target", "stores", "brokers", "TLS", "features", "not built in"] {
            assert!(told.lines().any(|line| line.starts_with(name)), "{name}: {told}");
        }
        assert!(told.contains("sqlite (sqlite:)") && told.contains(std::env::consts::ARCH), "{told}");
    }
    // This is how a test that needs more than the default program learns that it is not there.
    let (program, told) = (Path::new(env!("CARGO_BIN_EXE_postrider")), place.run(&["-V", "--verbose"]).out);
    let is_absent = |feature: &&str| told.contains(&format!("--features {feature})"));
    let absent: Vec<&str> = ["mysql", "kafka"].into_iter().filter(is_absent).collect();
    assert_eq!(lacking(program, &["sqlite", "mysql", "kafka", "demo"]), absent, "{told}");
    assert_eq!(lacking(program, &["sql"]), ["sql"]);
    assert_eq!(place.run(&["--version"]).good().out.lines().count(), 1);
    place.run(&["--verbose", "status"]).ends(2).says(&["--version"]);
}
