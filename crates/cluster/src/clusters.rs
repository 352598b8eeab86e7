//! The clusters that a node's state was in.
//!
//! A cluster that begins with a backup is another one than the backup's, and has another number: entries, votes and directories of
//! one number are of one history.

use serde::{Deserialize, Serialize};

/// A restored cluster remembers this number of clusters before it.
const CLUSTERS_MAX: usize = 1024;

/// The numbers of the clusters that a state was in: the one that has it now, and those from which it was restored by backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clusters {
    /// The oldest first.
    before: Vec<u128>,
    now: u128,
}

impl Clusters {
    /// Those of a cluster that began without a backup.
    pub(crate) fn new(cluster: u128) -> Self {
        Self {
            before: Vec::new(),
            now: cluster,
        }
    }

    /// The cluster that has the state.
    pub(crate) fn now(&self) -> u128 {
        self.now
    }

    /// Those of a cluster that begins with the state; `None` if it was that cluster's before. Entries, votes and directories of
    /// one number must not be of two histories.
    pub(crate) fn restored_to(mut self, cluster: u128) -> Option<Self> {
        if self.now == cluster || self.before.contains(&cluster) {
            return None;
        }
        self.before.push(self.now);
        let surplus = self.before.len().saturating_sub(CLUSTERS_MAX);
        self.before.drain(..surplus);
        Some(Self {
            before: self.before,
            now: cluster,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cluster_has_a_number_that_its_state_had_before() {
        let first = Clusters::new(1);
        assert_eq!(first.clone().restored_to(1), None);
        let second = first.restored_to(2).unwrap();
        assert_eq!(second.now(), 2);
        for taken in [1, 2] {
            assert_eq!(second.clone().restored_to(taken), None, "{taken}");
        }
        let mut many = second;
        for next in 3..2000 {
            many = many.restored_to(next).unwrap();
        }
        assert_eq!(many.before.len(), CLUSTERS_MAX);
        assert_eq!(many.clone().restored_to(1998), None);
        assert_eq!(many.restored_to(1999), None);
    }
}
