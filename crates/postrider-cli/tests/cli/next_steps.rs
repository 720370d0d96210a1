//! What PostgreSQL refuses gets the step that mends it, not one step for all.

use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::postgres::{self, Postgres};

use crate::harness::{Place, nowhere};

async fn outbox(place: &Place, server: &Postgres) -> (String, String) {
    let url = server.fresh_database().await.unwrap();
    place.run(&["migrate", "--store", &url]).good();
    let database = url.rsplit('/').next().unwrap().to_owned();
    (url, database)
}

/// The statement between backticks that ends with this role.
fn grant<'t>(text: &'t str, role: &str) -> Vec<&'t str> {
    let end = format!("to \"{role}\"");
    text.split('`').filter(|part| part.starts_with("grant ") && part.ends_with(&end)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_told_with_role_right_object_and_the_grant_that_mends_it() {
    let (place, server) = (Place::empty(), postgres::shared().await.unwrap());
    let (url, database) = outbox(&place, server).await;
    let roles = place.run(&["migrate", "--roles", "--store", &url]).good().out.clone();
    let (writer, relay, bare) = (format!("w_{database}"), format!("r_{database}"), format!("b_{database}"));
    let logins = format!(
        "create role {writer} login password 'x' in role postrider_writer;
         create role {relay} login password 'x' in role postrider_relay; create role {bare} login password 'x'"
    );
    server.psql(&database, &(roles + &logins)).await.unwrap();
    let verb = |role: &str, arguments: &[&str]| {
        let store = server.url_as(role, "x", &database);
        place.run(&[arguments, &["--store", &store]].concat())
    };
    let enqueue = ["enqueue", "a", "--payload", "x"];
    for arguments in [&["status"][..], &enqueue, &["dead", "list"], &["migrate", "--check"]] {
        let run = verb(&writer, arguments);
        let lacks = format!("the role \"{writer}\" lacks the right to select on \"public\".\"postrider_meta\"");
        run.ends(2).says(&[&lacks, &format!("`grant postrider_relay to \"{writer}\"`")]);
        assert!(!run.err.contains("postrider check"), "{}", run.err);
    }
    let check = verb(&writer, &["check", "--broker", "stdout:"]);
    assert!(check.ends(1).out.contains(&format!("`grant postrider_relay to \"{writer}\"`")), "{}", check.out);
    let run = verb(&relay, &enqueue);
    let lacks = format!("the role \"{relay}\" lacks the right to insert on \"public\".\"postrider_outbox\"");
    run.ends(2).says(&[&lacks, &format!("`grant postrider_writer to \"{relay}\"`")]);
    // What is printed works: right by right, until there is an answer.
    for arguments in [&["status"][..], &enqueue, &["prune", "--dead", "1d"], &["inbox"]] {
        let mut rounds = 0;
        loop {
            let run = verb(&bare, arguments);
            if !run.err.contains("lacks the right to") {
                assert!(run.code < 2, "{}{}", run.out, run.err);
                break;
            }
            rounds += 1;
            assert!(rounds < 12, "the grants do not help: {}", run.err);
            let statements = grant(&run.err, &bare);
            server.psql(&database, statements.last().unwrap()).await.unwrap();
        }
        assert!(rounds > 0, "{arguments:?}");
    }
    let (keep, store) = (("POSTRIDER_INBOX__KEEP", "7d"), server.url_as(&bare, "x", &database));
    let check = ["check", "--broker", "stdout:", "--store", &store];
    let told = place.run_with(&[keep], &check).out;
    assert!(told.contains(&format!("the role {bare} has no execute on function")), "{told}");
    let owned = place.run_with(&[keep], &["check", "--broker", "stdout:", "--store", &url]);
    assert!(owned.good().out.contains("the relay may forget what was handled"), "{}", owned.out);
    assert!(!place.run(&check).out.contains("inbox"), "nobody asked for it");
    server.psql(&database, "update postrider_meta set version = 1").await.unwrap();
    let run = verb(&bare, &["migrate"]);
    assert!(run.ends(2).err.contains("next: "), "{}", run.err);
    assert!(run.err.contains("lacks the right to create on schema \"public\""), "{}", run.err);
    server.psql(&database, grant(&run.err, &bare)[0]).await.unwrap();
    let owner = verb(&bare, &["migrate"]);
    owner.ends(2).says(&["is not the owner of", "next: run this as \"postgres\""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failed_connection_gets_the_step_that_mends_its_cause() {
    let place = Place::empty();
    let server = Postgres::start_with(&["max_connections=4", "superuser_reserved_connections=0"]).await.unwrap();
    let (url, database) = outbox(&place, &server).await;
    server.psql(&database, "create role someone login password 'right-canary'").await.unwrap();
    let refused = format!("postgres://u@{}/d", nowhere());
    let wrong = server.url_as("someone", "wrong-canary", &database);
    let no_tls = format!("{url}?sslmode=require");
    for (store, words) in [
        (&refused[..], ["nobody listens at this host and port", "next: start the server, or correct host and port"]),
        ("postgres://u@no-such-host.invalid/d", ["the name of the host is not known", "next: correct the host"]),
        (
            &server.url_for("nosuch"),
            ["the database does not exist", "next: correct the name at the end of the address"],
        ),
        (&wrong, ["the password is wrong", "next: give the user and the password"]),
        (&no_tls, ["the server does not offer TLS", "next: switch TLS on at the server (ssl = on)"]),
        ("postgres://u@%2Fnowhere/d", ["no server has its socket there", "the folder of its socket"]),
    ] {
        place.run(&["status", "--store", store]).ends(2).says(&words).hides("canary");
    }
    let pooler = PgBouncer::start(&server, 1).await.unwrap();
    let run = place.run(&["status", "--store", &pooler.url_for(&database)]);
    run.ends(2).says(&["next: behind a pooler in transaction mode, set outbox.pooling"]);
    server.psql(&database, "alter role someone connection limit 0").await.unwrap();
    let full = server.url_as("someone", "right-canary", &database);
    place
        .run(&["status", "--store", &full])
        .ends(2)
        .says(&["no connection left", "next: close connections that are idle"]);
    let hba = server.data().join("pg_hba.conf");
    std::fs::write(&hba, "hostssl all all all trust\nlocal all all trust\n").unwrap();
    signal_reload(&server);
    crate::harness::until("the new rules", || {
        let run = tokio::task::block_in_place(|| place.run(&["status", "--store", &url]));
        run.err.contains("wants an encrypted connection").then(|| {
            run.ends(2).says(&["next: put sslmode=verify-full into the address"]);
        })
    });
}

fn signal_reload(server: &Postgres) {
    let pid = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let pid = pid.lines().next().unwrap().trim().to_owned();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
}
