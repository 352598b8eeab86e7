//! Many look-ups at once.
//!
//! One look-up spends most of its time waiting for the lines of its leaf. A batch goes down the tree
//! level by level: every lane searches its node and asks for the lines of the next, and only then the
//! lanes look at those. So the misses of a whole batch overlap.
//!
//! Paper: bwtree §4.1.1 (Read, many at a time)

use crossbeam_epoch as epoch;

use super::BlinkTree;
use super::descend::{Step, Way};
use crate::key::Key;
use crate::{IndexError, Lookup};

/// Look-ups that go down together: about as many misses as a core keeps under way.
const LANES: usize = 16;

impl<K: Key> BlinkTree<K> {
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

    fn get_lanes(&self, batch: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        let guard = &epoch::pin();
        let root = Way::sideways(self.root.load(guard));
        let mut keys = [K::min(); LANES];
        let mut ways = [root; LANES];
        for (key, bytes) in keys.iter_mut().zip(batch) {
            *key = K::parse(bytes)?;
        }
        for lane in 0..batch.len() {
            ways[lane] = self.start(keys[lane], guard);
        }
        let lanes = || 0..batch.len();
        let mut above = root.node.level();
        while above > 0 {
            for lane in lanes() {
                // A lane that had to go sideways is late, and goes on below.
                if ways[lane].node.level() == above
                    && let Step::Down(way) = self.step::<false>(&ways[lane], keys[lane])
                {
                    ways[lane] = way;
                }
            }
            above -= 1;
        }
        for lane in lanes() {
            let way = &mut ways[lane];
            if way.node.level() > 0 {
                *way = self.descend::<false>(0, keys[lane], guard);
            }
            out.push(match self.find(way, keys[lane]).payload {
                Ok(payload) => Lookup::Found(payload),
                Err(version) => Lookup::Missing(version),
            });
        }
        Ok(())
    }
}
