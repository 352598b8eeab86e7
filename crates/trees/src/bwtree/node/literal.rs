//! The state of a page in the paper's own tree: found by a walk down its chain, as a delta describes
//! nothing but its own change.
//!
//! A search learns the upper fence, the right sibling and a pending split only from the nodes below, so
//! each one visits all deltas of its page: the cost that §5.4 (b) is about. The length that a delta has
//! is what it adds to that of the page, -1, 0 or 1. The number of the page's version is in each delta
//! all the same: it protects transactions from phantoms, of which the paper's tree knows nothing. So is
//! the number of the delta (§5.4 (a), figure 19): a visitor compares it with the threshold, without
//! another walk.
//!
//! Paper: bwtree §3, §4.1.1 (ValidateNode), §4.2.1, §5.4

use namiki_index::key::Key;

use super::{Kind, NodeRef, UNCOUNTED};
use crate::bwtree::variant::Variant;

impl<K: Key, V: Variant> NodeRef<'_, K, V> {
    /// This node and those below it in its own chain.
    fn chain(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |node| node.next())
    }

    /// The base node of the page, or of the right one of two that were merged.
    pub(super) fn found_fenced(self) -> Self {
        let mut node = self;
        loop {
            node = match node.kind() {
                Kind::Base => return node,
                Kind::Merge => node.merged(),
                _ => match node.next() {
                    Some(below) => below,
                    None => unreachable!("a chain ends in a base node"),
                },
            };
        }
    }

    /// A lower bound if it is uncounted (N6).
    pub(super) fn counted_len(self) -> usize {
        let gains = self.chain().map(|node| {
            // A gain is signed, and a base node's length far below the sign.
            let own = i64::from(node.header().len as i32);
            match node.kind() {
                Kind::Merge => own + node.merged().counted_len() as i64,
                _ => own,
            }
        });
        usize::try_from(gains.sum::<i64>()).unwrap_or(0)
    }

    pub(super) fn has_uncounted(self) -> bool {
        self.chain().any(|node| {
            node.header().flags & UNCOUNTED != 0
                || node.kind() == Kind::Merge && node.merged().has_uncounted()
        })
    }

    /// The structure change that may be half done.
    pub(super) fn searched_smo(self) -> Option<Self> {
        let newest = self.chain().find(|node| {
            matches!(
                node.kind(),
                Kind::Split | Kind::Merge | Kind::Merging | Kind::IndexDelete
            )
        });
        // An index delete ends the merge that was announced below it.
        newest.filter(|node| node.kind() != Kind::IndexDelete)
    }
}
