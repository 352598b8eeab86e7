//! Batched look-up.
//!
//! A batch descends level by level: each lane makes one step, prefetches the lines of its child, and yields
//! to the next lane.
//!
//! Paper: bwtree §4.1.1 (the same Read, many at a time)

use crossbeam_epoch as epoch;
use namiki_index::Lookup;
use namiki_index::key::Key;
use namiki_index::shared::batch::LANES;

use super::node::NodeRef;
use super::{BzTree, Variant};

impl<K: Key, V: Variant> BzTree<K, V> {
    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let guard = &epoch::pin();
        let root: NodeRef<'_, K> = self.root.load(guard);
        let mut nodes = [root; LANES];
        let nodes = &mut nodes[..keys.len()];
        let mut going = root.level() > 0;
        while going {
            going = false;
            for (key, node) in keys.iter().zip(&mut *nodes) {
                // Lanes may be on different levels if the tree grows concurrently.
                if node.level() > 0 {
                    *node = node.child_to::<false>(*key, self.config.slots, guard);
                    going = true;
                }
            }
        }
        let leaves = keys.iter().zip(nodes);
        out.extend(leaves.map(|(key, leaf)| leaf.get::<V>(*key, guard)));
    }
}
