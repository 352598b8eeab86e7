//! The connections of a client: one to the leader, and those to nodes that it reads from.

use std::collections::HashMap;

use super::link::Link;
use crate::read_options::ReadNode;
use crate::requests;

#[derive(Debug)]
pub(super) struct Links {
    pub(super) leader: Link,
    /// For reads from other nodes.
    readers: HashMap<ReadNode, Link>,
    /// Number of reads.
    reads: u64,
}

impl Links {
    pub(super) fn new(leader: Link) -> Self {
        Self {
            leader,
            readers: HashMap::new(),
            reads: 0,
        }
    }

    /// The connection for reads from a node, and the number of the next read.
    pub(super) fn for_reads(&mut self, node: &ReadNode) -> (&mut Link, u64) {
        self.reads += 1;
        let link = match requests::channel_of_reads(&self.leader.channel, node) {
            None => &mut self.leader,
            Some(channel) => {
                let link = self.readers.entry(node.clone());
                link.or_insert_with(|| Link::new(channel))
            }
        };
        (link, self.reads)
    }
}
