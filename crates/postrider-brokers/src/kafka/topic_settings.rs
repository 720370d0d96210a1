//! The settings of topics and brokers that an acknowledgement and a reader depend on, as the cluster tells them.

use std::str::FromStr;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::error::KafkaError;
use rdkafka::util::Timeout;

use super::line::CONNECT;
use super::listener::Listener;

/// What a topic promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TopicSettings {
    /// How many replicas must have a message before it is acknowledged.
    pub(super) min_in_sync: Option<u32>,
    /// Whether a replica that lacks messages may become the leader.
    pub(super) unclean_election: Option<bool>,
    /// Bytes of the largest batch.
    pub(super) max_message: Option<u64>,
    /// Whether only the last message of a key is kept.
    pub(super) compacted: bool,
    /// Bytes of the largest batch where a topic says nothing else.
    pub(super) server_max_message: Option<u64>,
    /// Milliseconds that a message is kept, read or not; none where it is kept for ever.
    pub(super) kept_ms: Option<u64>,
    /// Whether the server creates a topic that somebody mistyped.
    pub(super) creates_topics: Option<bool>,
    /// Minutes that the server remembers the position of a group that nobody is in.
    pub(super) position_kept_minutes: Option<u64>,
}

/// Asks for the settings of a topic, and for those of one server, with the settings of a client that reaches them.
///
/// # Errors
/// The cluster's answer, as a text: no permission, or a server that has no such question.
pub(super) async fn ask(native: &ClientConfig, topic: &str, server: Option<i32>) -> Result<TopicSettings, String> {
    let admin: AdminClient<Listener> =
        native.create_with_context(Listener::default()).map_err(|error| error.to_string())?;
    let options = AdminOptions::new().request_timeout(Some(Timeout::After(CONNECT)));
    let mut asked = vec![ResourceSpecifier::Topic(topic)];
    asked.extend(server.map(ResourceSpecifier::Broker));
    let answer = admin.describe_configs(&asked, &options).await;
    // Destroying a client waits for its threads.
    drop(std::thread::Builder::new().name("kafka-end".to_owned()).spawn(move || drop(admin)));
    let (mut found, mut refusal, mut of_server) = (None, None, TopicSettings::default());
    for answer in answer.map_err(|error| told(&error))? {
        match answer {
            Ok(resource) if matches!(resource.specifier, OwnedResourceSpecifier::Topic(_)) => {
                found = Some(read(&resource))
            }
            Ok(resource) => of_server = read_server(&resource),
            Err(code) => refusal = Some(code.to_string()),
        }
    }
    match found {
        Some(found) => Ok(TopicSettings {
            server_max_message: of_server.server_max_message,
            creates_topics: of_server.creates_topics,
            position_kept_minutes: of_server.position_kept_minutes,
            ..found
        }),
        None => Err(refusal.unwrap_or_else(|| "an empty answer".to_owned())),
    }
}

fn told(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}

fn number<T: FromStr>(resource: &ConfigResource, name: &str) -> Option<T> {
    resource.get(name).and_then(|entry| entry.value.as_deref()).and_then(|value| value.parse().ok())
}

fn read(resource: &ConfigResource) -> TopicSettings {
    let cleanup = resource.get("cleanup.policy").and_then(|entry| entry.value.as_deref());
    TopicSettings {
        min_in_sync: number(resource, "min.insync.replicas"),
        unclean_election: number(resource, "unclean.leader.election.enable"),
        max_message: number(resource, "max.message.bytes"),
        compacted: cleanup.is_some_and(|policy| policy.contains("compact")),
        kept_ms: number(resource, "retention.ms").filter(|_| cleanup.is_none_or(|policy| policy.contains("delete"))),
        ..TopicSettings::default()
    }
}

fn read_server(resource: &ConfigResource) -> TopicSettings {
    TopicSettings {
        server_max_message: number(resource, "message.max.bytes"),
        creates_topics: number(resource, "auto.create.topics.enable"),
        position_kept_minutes: number(resource, "offsets.retention.minutes"),
        ..TopicSettings::default()
    }
}
