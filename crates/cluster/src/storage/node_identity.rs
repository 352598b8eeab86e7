//! The identity of a node's directory.

use namiki_platform::hash::hash_of;

use crate::network::NodeId;

/// The node that a directory belongs to. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The cluster's number, drawn when it was created.
    pub cluster: u128,
    /// The node: its number in the cluster, and the incarnation of this directory.
    pub node: NodeId,
    /// Number of workers of each node of the cluster.
    pub workers: u16,
}

impl NodeIdentity {
    /// The identity of the node's log, in every log file's header and every frame's checksum: a file
    /// of another node, or of an earlier directory of this one, is not mistaken for one of this
    /// log. Also the number of the history of the node's tables, see [`Replica::begin_history`](namiki::replica::Replica::begin_history).
    pub(crate) fn log_identity(&self) -> u128 {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.cluster.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.node.number().to_le_bytes());
        bytes[24..].copy_from_slice(&self.node.incarnation().to_le_bytes());
        u128::from(hash_of(1, &bytes)) << 64 | u128::from(hash_of(2, &bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: NodeIdentity = NodeIdentity {
        cluster: 0xabc,
        node: NodeId::first(2),
        workers: 2,
    };

    #[test]
    fn logs_of_other_nodes_and_incarnations_have_other_identities() {
        let other = [
            NodeIdentity {
                cluster: 1,
                ..IDENTITY
            },
            NodeIdentity {
                node: NodeId::first(1),
                ..IDENTITY
            },
            NodeIdentity {
                node: NodeId::new(2, 2),
                ..IDENTITY
            },
        ];
        for other in other {
            assert_ne!(other.log_identity(), IDENTITY.log_identity());
        }
    }
}
