//! Statistics: a walk that counts nodes and records.
//!
//! It goes leaf by leaf, as a scan does. It remembers only the bound of the last leaf, so it can
//! unpin now and then and does not delay the collector.

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::descend::Step;
use super::prefix_compare::{ArtKey, BEFORE};
use super::scan::Fences;
use crate::key::OwnedKey;
use crate::shared::census::Census;
use crate::shared::scan::{LEAVES_PER_PIN, Target};

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn census(&self) -> Census {
        let mut statistics = self.counters.statistics();
        let mut bytes = self.top(&epoch::pin()).bytes() + self.table.bytes();
        let mut next: Option<OwnedKey<K>> = None;
        loop {
            let guard = &epoch::pin();
            for _ in 0..LEAVES_PER_PIN {
                let target = Target::At(next.as_ref().map_or(K::min(), OwnedKey::get));
                let mut trace = (Fences::default(), Vec::<Step<'_, K>>::new());
                let leaf = self.leaf(target, &mut trace, guard).leaf;
                let (fences, way) = trace;
                // An inner node is counted with the first leaf below it, and the top was before.
                for step in way[1..].iter().rev() {
                    if step.node.find(BEFORE) != step.link {
                        break;
                    }
                    statistics.inner_nodes += 1;
                    bytes += step.node.bytes();
                }
                statistics.leaves += 1;
                statistics.records += leaf.count() as u64;
                statistics.height = statistics.height.max(way.len() as u64);
                bytes += leaf.bytes_with_keys();
                next = fences.high();
                if next.is_none() {
                    return Census { statistics, bytes };
                }
            }
        }
    }
}
