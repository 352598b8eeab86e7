//! Many look-ups at once.
//!
//! One look-up waits for memory on each level. A batch goes down the tree level by level: each lane takes
//! its turn, asks for the lines of its child, and lets the next lane go on. So the misses of a whole batch
//! overlap.
//!
//! Paper: bwtree §4.1.1 (the same Read, many at a time)

use crossbeam_epoch as epoch;

use super::node::NodeRef;
use super::{BzTree, Variant};
use crate::key::Key;
use crate::{IndexError, Lookup};

/// Look-ups that go down together: about as many misses as a core keeps under way.
const LANES: usize = 16;

impl<K: Key, V: Variant> BzTree<K, V> {
    pub(super) fn get_batch(
        &self,
        keys: &[&[u8]],
        out: &mut Vec<Lookup>,
    ) -> Result<(), IndexError> {
        out.clear();
        for key in keys {
            K::parse(key)?;
        }
        out.reserve(keys.len());
        for batch in keys.chunks(LANES) {
            self.get_lanes(batch, out)?;
        }
        Ok(())
    }

    fn get_lanes(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        let guard = &epoch::pin();
        let root: NodeRef<'_, K> = self.root.load(guard);
        let mut lanes = [(K::min(), root); LANES];
        let lanes = &mut lanes[..keys.len()];
        for (lane, key) in lanes.iter_mut().zip(keys) {
            lane.0 = K::parse(key)?;
        }
        let mut going = root.level() > 0;
        while going {
            going = false;
            for (key, node) in &mut *lanes {
                // Lanes may be on different levels if the tree grows meanwhile.
                if node.level() > 0 {
                    *node = node.child_to::<false>(*key, self.config.slots, guard);
                    going = true;
                }
            }
        }
        out.extend(lanes.iter().map(|(key, leaf)| leaf.get::<V>(*key, guard)));
        Ok(())
    }
}
