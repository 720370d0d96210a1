//! Several nodes that are one cluster, each a process of its own.

use super::{KafkaOptions, KafkaServer, Place, Ports};
use crate::servers::process::ServerError;

/// A running cluster: every node is server and controller.
#[derive(Debug)]
pub struct KafkaCluster {
    nodes: Vec<KafkaServer>,
}

impl KafkaCluster {
    /// Starts a node for each of the options, and waits until each knows all of them.
    ///
    /// # Errors
    /// When Kafka is not installed or a node does not start.
    pub async fn start(options: Vec<KafkaOptions>) -> Result<Self, ServerError> {
        let mut places = Vec::new();
        for id in (1..).take(options.len()) {
            places.push(Place { id, ports: Ports::draw()?, voters: Vec::new() });
        }
        let voters: Vec<(u32, u16)> = places.iter().map(|place| (place.id, place.ports.controller)).collect();
        let mut nodes = Vec::new();
        for (place, options) in places.into_iter().zip(options) {
            nodes.push(KafkaServer::spawn(Place { voters: voters.clone(), ..place }, &options)?);
        }
        // None answers before most of them run.
        for node in &mut nodes {
            node.ready().await?;
        }
        Ok(Self { nodes })
    }

    /// Where its nodes listen, parted by commas, for clients that come by no proxy.
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(KafkaServer::address).collect::<Vec<_>>().join(",")
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// One of its nodes, counted from 0.
    pub fn node(&mut self, place: usize) -> Option<&mut KafkaServer> {
        self.nodes.get_mut(place)
    }
}
