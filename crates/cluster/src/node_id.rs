//! The identity of a node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node of the cluster: its number, from 1, and its incarnation, the number of the directory that
/// it runs on.
///
/// Raft knows only the two together. A node that has lost its directory returns as another node for
/// Raft: no vote and no acknowledgement of the lost directory can be mistaken for one of the new.
/// ```text
///  63                  32 31                   0
/// | incarnation − 1 (32) | number (32)          |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(u64);

impl NodeId {
    /// The largest number, and the largest incarnation.
    pub const MAX: u64 = u32::MAX as u64;

    /// The node of this number that runs on its `incarnation`-th directory, counted from 1.
    ///
    /// # Panics
    /// Beyond [`NodeId::MAX`], or for incarnation 0.
    #[must_use]
    pub const fn new(number: u64, incarnation: u64) -> Self {
        assert!(
            number <= Self::MAX && incarnation >= 1 && incarnation <= Self::MAX,
            "both have 32 bits, and incarnations count from 1"
        );
        Self((incarnation - 1) << 32 | number)
    }

    /// The node of this number with the directory that the cluster began with.
    ///
    /// # Panics
    /// Beyond [`NodeId::MAX`].
    #[must_use]
    pub const fn first(number: u64) -> Self {
        Self::new(number, 1)
    }

    /// From Raft's id.
    pub(crate) const fn from_raft(raw: u64) -> Self {
        Self(raw)
    }

    /// To Raft's id.
    pub(crate) const fn to_raft(self) -> u64 {
        self.0
    }

    /// Its number in the configuration.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 & Self::MAX
    }

    /// Number of the directory that it runs on, from 1.
    #[must_use]
    pub const fn incarnation(self) -> u64 {
        (self.0 >> 32) + 1
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation() {
            1 => write!(f, "{}", self.number()),
            incarnation => write!(f, "{} (incarnation {incarnation})", self.number()),
        }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_incarnations_are_plain_numbers() {
        assert_eq!(NodeId::first(3).to_raft(), 3);
        assert_eq!(NodeId::first(3).to_string(), "3");
        let replaced = NodeId::new(3, 2);
        assert_eq!((replaced.number(), replaced.incarnation()), (3, 2));
        assert_eq!(replaced.to_string(), "3 (incarnation 2)");
        assert_eq!(NodeId::from_raft(replaced.to_raft()), replaced);
        assert_ne!(replaced, NodeId::first(3));
    }
}
