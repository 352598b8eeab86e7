//! Statistics: a walk that counts nodes and records.
//!
//! It goes leaf by leaf along the fences, as a scan does. It remembers only the fence of the last
//! leaf, so it can unpin now and then and does not delay the collector.

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::key::{Key, OwnedKey};
use namiki_index::shared::census::Census;
use namiki_index::shared::scan::{LEAVES_PER_PIN, Target};

use super::node::NodeRef;
use super::{BzTree, Variant, leaf_word_changes};

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Calls `visit` with every node. Exact when no thread is writing.
    fn walk(&self, mut visit: impl FnMut(NodeRef<'_, K>, &Guard)) {
        let mut next: Option<OwnedKey<K>> = None;
        loop {
            let guard = &epoch::pin();
            for _ in 0..LEAVES_PER_PIN {
                let target = Target::At(next.as_ref().map_or(K::min(), OwnedKey::get));
                let path = self.path(target, guard);
                visit(path.leaf, guard);
                // An inner node is counted with the first leaf below it.
                let first = path.steps.iter().rev().take_while(|step| step.index == 0);
                first.for_each(|step| visit(step.node, guard));
                next = path.leaf.high().map(|high| OwnedKey::new(K::shorten(high)));
                if next.is_none() {
                    return;
                }
            }
        }
    }

    pub(super) fn census(&self) -> Census {
        let mut statistics = self.counters.statistics();
        let mut bytes = self.leaves.bytes();
        self.walk(|node, guard| {
            bytes += node.bytes() + node.slot_bytes();
            statistics.height = statistics.height.max(u64::from(node.level()) + 1);
            if node.level() > 0 {
                statistics.inner_nodes += 1;
                return;
            }
            let status = leaf_word_changes::status(node.status(), guard);
            let shown = u64::from(status.visible().count_ones());
            let mut alive = Vec::new();
            node.collect(status, &mut alive, guard);
            statistics.leaves += 1;
            statistics.records += alive.len() as u64;
            statistics.leaf_deltas += shown;
            statistics.longest_chain = statistics.longest_chain.max(shown);
        });
        Census { statistics, bytes }
    }
}
