//! Leaf versions: phantom protection for keys that a transaction found absent.

use std::fmt;

/// The state of one leaf's key set.
///
/// A change of the **key set** raises the counter; a payload update does not; consolidation copies
/// it; a split raises both halves; a merge takes the maximum of both plus one and the version of
/// the leaf that disappears is dead for ever. A pair is never used twice, not even when the leaf's
/// number is given to a new leaf, so holding one needs no guard and equality means "nothing was
/// inserted or deleted here since".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeafVersion {
    /// Number of the leaf. Numbers are recycled, pairs are not.
    pub leaf: u64,
    /// Number of changes of its key set.
    pub counter: u64,
}

impl fmt::Display for LeafVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaf {} version {}", self.leaf, self.counter)
    }
}
