//! The operations that change one record.
//!
//! A search finds the leaf without a lock; the lock is then taken against the version that the search
//! saw, so its result still holds.
//!
//! Paper: bwtree §2 (its reference 3 is ART: Insert)

use crossbeam_epoch::{self as epoch, Guard};

use super::ArtTree;
use super::descend::Reached;
use super::prefix_compare::ArtKey;
use crate::shared::counters::Event;
use crate::shared::scan::Target;
use crate::{Change, Changed, IndexError, Inserted};

impl<K: ArtKey> ArtTree<K> {
    /// Read-modify-write of one record in one atomic step. `decide` is called again if another
    /// thread changed the leaf in between.
    #[inline]
    pub(super) fn change_key(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut turn = 0;
        loop {
            let reached = self.try_leaf(Target::At(key), &mut (), guard);
            if let Some(reached) = reached {
                let found = reached.leaf.find(key);
                if reached.leaf.lock().check(reached.version) {
                    let change = decide(found.map(|found| found.1));
                    if let Some(changed) = self.apply(&reached, key, found, change, guard)? {
                        return Ok(changed);
                    }
                    self.counters.add(Event::CasMiss);
                }
            }
            self.restart(&mut turn);
        }
    }

    /// Applies the decision to the leaf in the state of `reached`. `None`: the leaf has changed.
    #[inline]
    fn apply(
        &self,
        reached: &Reached<'_, K>,
        key: K::Ref<'_>,
        found: Option<(usize, u64)>,
        change: Change,
        guard: &Guard,
    ) -> Result<Option<Changed>, IndexError> {
        let leaf = reached.leaf;
        let old = found.map(|found| found.1);
        match (change, found) {
            (Change::Keep, _) | (Change::Delete, None) => {}
            (Change::Put(payload), Some((place, _))) => {
                let Some(mut locked) = leaf.lock().try_lock(reached.version) else {
                    return Ok(None);
                };
                leaf.set_payload(place, payload);
                locked.changed();
            }
            (Change::Put(payload), None) => {
                if !leaf.takes(key, self.config.leaf_max) {
                    let inserted = self.insert_into_full_leaf(key, payload, guard)?;
                    return Ok(inserted.map(Changed::added));
                }
                let Some(mut locked) = leaf.lock().try_lock(reached.version) else {
                    return Ok(None);
                };
                let before = leaf.mark().version();
                leaf.insert(key, payload, guard);
                leaf.mark().bump();
                locked.changed();
                return Ok(Some(Changed::added(Inserted {
                    before,
                    after: leaf.mark().version(),
                    split: None,
                })));
            }
            (Change::Delete, Some((place, _))) => {
                let Some(mut locked) = leaf.lock().try_lock(reached.version) else {
                    return Ok(None);
                };
                leaf.remove(place, guard);
                leaf.mark().bump();
                locked.changed();
                let few = leaf.count() <= self.config.leaf_min();
                drop(locked);
                if few {
                    self.merge_if_few(key, guard);
                }
            }
        }
        Ok(Some(Changed::from(old)))
    }
}
