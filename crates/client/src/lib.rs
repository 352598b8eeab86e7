//! The client library of a Namiki cluster, and the protocol that it speaks with a node.

pub mod protocol;
