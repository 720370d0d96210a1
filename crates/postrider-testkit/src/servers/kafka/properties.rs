//! What a node is told in its `server.properties`.

use super::{KafkaOptions, Place};
use crate::servers::process::Folder;

/// The settings of a node at its place.
pub(super) fn properties(folder: &Folder, place: &Place, options: &KafkaOptions) -> String {
    let (id, nodes) = (place.id, place.voters.len());
    let voters: Vec<String> = place.voters.iter().map(|(id, port)| format!("{id}@127.0.0.1:{port}")).collect();
    let controller = place.ports.controller;
    let Listeners { listening, advertised, protocols, further } = listeners(folder, place, options);
    // A node that is alone hands its partitions to nobody before it stops, and would wait for somebody to take them. Several
    // share the cores of one machine: one that is slow must not be taken for dead at once.
    let (hands_over, session) = if nodes > 1 { (true, 5_000) } else { (false, 2_000) };
    format!(
        "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={voters}\n\
         listeners={listening},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={advertised}\n\
         controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAIN\n\
         listener.security.protocol.map={protocols}\nlog.dirs={data}\nnum.partitions=1\n\
         num.network.threads=2\nlog.cleaner.dedupe.buffer.size=8388608\n\
         offsets.topic.replication.factor={nodes}\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor={nodes}\ntransaction.state.log.min.isr={least}\n\
         transaction.state.log.num.partitions=4\ngroup.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n\
         message.max.bytes=8388608\ncontrolled.shutdown.enable={hands_over}\n\
         broker.session.timeout.ms={session}\nbroker.heartbeat.interval.ms=500\n{further}{extra}\n",
        voters = voters.join(","),
        data = folder.path().join("data").display(),
        least = nodes.saturating_sub(1).max(1),
        extra = options.extra,
    )
}

/// Where it listens, under which names, and what each of them is told besides.
struct Listeners {
    listening: String,
    advertised: String,
    protocols: String,
    further: String,
}

impl Listeners {
    /// A further listener, which clients find by this host.
    fn add(&mut self, name: &str, protocol: &str, host: &str, port: u16) {
        self.listening.push_str(&format!(",{name}://127.0.0.1:{port}"));
        self.advertised.push_str(&format!(",{name}://{host}:{port}"));
        self.protocols.push_str(&format!(",{name}:{protocol}"));
    }

    fn with_passwords(&mut self, listener: &str, users: &[(String, String)]) {
        let users: String = users.iter().map(|(user, word)| format!(" user_{user}=\"{word}\"")).collect();
        let (listener, module) = (format!("listener.name.{listener}"), "org.apache.kafka.common.security");
        self.further.push_str(&format!(
            "{listener}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required{users};\n\
             {listener}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             {listener}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
        ));
    }

    fn with_certificate(&mut self, listener: &str, folder: &Folder) {
        self.further.push_str(&format!(
            "listener.name.{listener}.ssl.keystore.type=PEM\nlistener.name.{listener}.ssl.keystore.location={}\n",
            folder.path().join("server.pem").display()
        ));
    }
}

fn listeners(folder: &Folder, place: &Place, options: &KafkaOptions) -> Listeners {
    let ports = place.ports;
    let mut all = Listeners {
        listening: format!("PLAIN://127.0.0.1:{}", ports.plain),
        advertised: format!("PLAIN://127.0.0.1:{}", ports.plain),
        protocols: "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
        further: String::new(),
    };
    for (number, behind) in options.behind.iter().enumerate() {
        all.listening.push_str(&format!(",BEHIND{number}://127.0.0.1:{}", behind.port));
        all.advertised.push_str(&format!(",BEHIND{number}://127.0.0.1:{}", behind.advertised));
        all.protocols.push_str(&format!(",BEHIND{number}:PLAINTEXT"));
    }
    if let Some((first, _)) = options.users.first() {
        all.add("PASSWORD", "SASL_PLAINTEXT", "127.0.0.1", ports.password);
        all.further.push_str("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n");
        all.with_passwords("password", &options.users);
        if options.authorize {
            all.further.push_str(&format!(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                 super.users=User:ANONYMOUS;User:{first}\n"
            ));
        }
    }
    if options.certificate.is_some() {
        all.add("TLS", "SSL", "localhost", ports.tls);
        all.with_certificate("tls", folder);
    }
    if !options.users.is_empty() && options.certificate.is_some() {
        all.add("BOTH", "SASL_SSL", "localhost", ports.both);
        all.with_passwords("both", &options.users);
        all.with_certificate("both", folder);
    }
    if options.authority.is_some() {
        let file = folder.path().join("authority.pem");
        all.further.push_str(&format!(
            "listener.name.tls.ssl.client.auth=required\nlistener.name.tls.ssl.truststore.type=PEM\n\
             listener.name.tls.ssl.truststore.location={}\n",
            file.display()
        ));
    }
    all
}
