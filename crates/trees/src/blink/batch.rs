//! Batched look-up.
//!
//! A batch descends level by level: first every lane searches its node and prefetches the lines of
//! the next, then the lanes read those.
//!
//! Paper: bwtree §4.1.1 (Read, many at a time)

use crossbeam_epoch as epoch;
use namiki_index::Lookup;
use namiki_index::key::Key;
use namiki_index::shared::batch::LANES;

use super::BlinkTree;
use super::descend::{DescentPath, Step};

impl<K: Key> BlinkTree<K> {
    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let guard = &epoch::pin();
        let root = DescentPath::sideways(self.root.load(guard));
        let mut ways = [root; LANES];
        for lane in 0..keys.len() {
            ways[lane] = self.start(keys[lane], guard);
        }
        let lanes = || 0..keys.len();
        let mut above = root.node.level();
        while above > 0 {
            for lane in lanes() {
                // A lane that had to move right is behind the others; the loop below completes it.
                if ways[lane].node.level() == above
                    && let Step::Down(path) = self.step::<false>(&ways[lane], keys[lane])
                {
                    ways[lane] = path;
                }
            }
            above -= 1;
        }
        for lane in lanes() {
            let path = &mut ways[lane];
            if path.node.level() > 0 {
                *path = self.descend::<false>(0, keys[lane], guard);
            }
            out.push(match self.find(path, keys[lane]).payload {
                Ok(payload) => Lookup::Found(payload),
                Err(version) => Lookup::Missing(version),
            });
        }
    }
}
