//! The operations that change one key.
//!
//! A record is added in two phases: a slot is reserved and written, and then made visible by a
//! change of the status word from exactly the state in which the key was searched. If anything
//! became visible in between, the search is repeated; if the leaf was frozen, the slot is lost with
//! it.
//!
//! | | key present | key absent |
//! |---|---|---|
//! | in place | payload word swapped; deletion: marked dead | dead record restored, or a slot |
//! | append | a slot, also to delete | a slot |
//! | append, `put` | a slot, without looking | the same |
//!
//! Trap: an older record must not hide a newer one. In the append variant the record in the highest
//! visible slot is the current one, but slots do not become visible in the order of their
//! reservation. So a record is made visible only if no visible record of its key is in a higher
//! slot; else it takes another slot.
//!
//! Paper: bwtree §2.3, §5.2

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_index::{Change, Changed, Expected, IndexError, Inserted, PointIndex};

use super::leaf_lookup::{Record, hash};
use super::leaf_table::version;
use super::leaf_word_changes::{self, DEAD};
use super::node::NodeRef;
use super::status_word::Status;
use super::{BzTree, Variant};

/// The result of an attempt on one leaf.
enum Try {
    Done(Changed),
    /// A record was shown in a slot: the states before and after.
    Shown(Changed, Status, Status),
    /// Another thread changed the leaf first; retry.
    Again,
    /// The leaf is frozen, full or worn out.
    Replace,
}

/// The states of a leaf before and after a record was shown.
type States = (Status, Status);

impl<K: Key, V: Variant> BzTree<K, V> {
    /// Read-modify-write of one key in one atomic step. `decide` is called again if another thread
    /// was faster.
    #[inline]
    pub(super) fn change_key(
        &self,
        key: &[u8],
        expected: Expected,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = K::parse(key)?;
        let hash = hash::<K>(key);
        let guard = &epoch::pin();
        let mut leaf = if expected == Expected::Absent || !V::IN_PLACE {
            self.leaf_to_fill(key, guard)
        } else {
            self.leaf(key, guard)
        };
        loop {
            let status = leaf_word_changes::status(leaf.status(), guard);
            let found = leaf.find::<V>(key, hash, status, guard);
            let old = found.and_then(|record| record.value.payload());
            let change = decide(old);
            if let Change::Put(payload) = change {
                leaf_word_changes::check(payload)?;
            }
            let outcome = match (change, found) {
                (Change::Keep, _) => {
                    return Ok(Changed::from(old));
                }
                (Change::Delete, _) if old.is_none() => {
                    return Ok(Changed::from(old));
                }
                (_, Some(record)) if V::IN_PLACE => {
                    Self::change_in_place(leaf, status, record, change, guard)
                }
                (_, None) if Self::is_crowded(leaf) => {
                    if !self.can_be_relieved(leaf, status, guard) {
                        return Err(IndexError::OutOfPages);
                    }
                    Try::Replace
                }
                (_, _) if full(leaf, status) => Try::Replace,
                (_, _) => Self::change_by_slot(
                    (leaf, status),
                    (key, hash),
                    (old, change),
                    &mut decide,
                    guard,
                ),
            };
            match outcome {
                Try::Done(changed) => {
                    if change == Change::Delete {
                        self.compact(key, leaf, guard);
                    }
                    return Ok(changed);
                }
                Try::Shown(mut changed, before, after) => {
                    let split = self.replace_if_full(key, leaf, after, guard);
                    if change == Change::Delete {
                        self.compact(key, leaf, guard);
                    } else if changed.old.is_none() {
                        let after = version(leaf, after);
                        changed.inserted = Some(Inserted {
                            before: version(leaf, before),
                            after,
                            split: split
                                .filter(|split| split.of == after)
                                .map(|split| split.halves),
                        });
                    }
                    return Ok(changed);
                }
                Try::Again => self.counters.add(Event::CasMiss),
                Try::Replace => {
                    self.replace(key, leaf, guard);
                    leaf = self.leaf(key, guard);
                }
            }
        }
    }

    /// Changes a record in place.
    fn change_in_place(
        leaf: NodeRef<'_, K>,
        status: Status,
        record: Record<'_>,
        change: Change,
        guard: &Guard,
    ) -> Try {
        let (word, value) = (record.word, record.value);
        let old = value.payload();
        if let (Change::Put(payload), Some(_)) = (change, old) {
            if value.is_frozen() {
                return Try::Replace;
            }
            // Relaxed would do for the processor, where swaps are barriers; not for the language.
            let (begun, done) = leaf.updates();
            begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let replaced = leaf_word_changes::replace(word, value, payload, guard);
            done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return if replaced {
                Try::Done(Changed::from(old))
            } else {
                Try::Again
            };
        }
        if status.is_frozen() || status.needs_compaction() {
            return Try::Replace;
        }
        if value.is_frozen() {
            return Try::Again;
        }
        let (leaf_word, record) = ((leaf.status(), status), (word, value));
        match change {
            Change::Put(payload)
                if leaf_word_changes::revive(leaf_word, record, payload, guard) =>
            {
                let inserted = Inserted {
                    before: version(leaf, status),
                    after: version(leaf, status.change()),
                    split: None,
                };
                Try::Done(Changed {
                    old,
                    inserted: Some(inserted),
                })
            }
            Change::Delete if leaf_word_changes::kill(leaf_word, record, guard) => {
                Try::Done(Changed::from(old))
            }
            _ => Try::Again,
        }
    }

    /// Adds a record for a key that has the payload `old` in `status`.
    fn change_by_slot(
        (leaf, mut status): (NodeRef<'_, K>, Status),
        (key, hash): (K::Ref<'_>, u8),
        (mut old, change): (Option<u64>, Change),
        decide: &mut impl FnMut(Option<u64>) -> Change,
        guard: &Guard,
    ) -> Try {
        let value = match change {
            Change::Put(payload) => payload,
            Change::Delete | Change::Keep => DEAD,
        };
        let slot = status.reserved();
        if leaf_word_changes::advance(leaf.status(), status, status.reserve(), guard).is_err() {
            return Try::Again;
        }
        leaf.slot_fill(slot, key, hash, value);
        status = status.reserve();
        loop {
            let next = match (change, old) {
                (Change::Delete, _) => status.show(slot).change().mark_deleted(),
                (_, None) => status.show(slot).change(),
                (_, Some(_)) => status.show(slot),
            };
            let Err(now) = leaf_word_changes::advance(leaf.status(), status, next, guard) else {
                return Try::Shown(Changed::from(old), status, next);
            };
            if now.is_frozen() {
                return Try::Replace;
            }
            if (now.visible(), now.changes()) != (status.visible(), status.changes()) {
                let found = leaf.find::<V>(key, hash, now, guard);
                let hidden = match found {
                    Some(record) => V::IN_PLACE || record.slot > Some(slot),
                    None => false,
                };
                old = found.and_then(|record| record.value.payload());
                if hidden || now.needs_compaction() || decide(old) != change {
                    return Try::Again;
                }
                if change == Change::Delete && old.is_none() {
                    return Try::Again;
                }
            }
            status = now;
        }
    }

    /// The append variant's `put`: adds a record without looking for the key.
    pub(super) fn append(&self, bytes: &[u8], payload: u64) -> Result<(), IndexError> {
        let key = K::parse(bytes)?;
        let payload = leaf_word_changes::check(payload)?;
        let hash = hash::<K>(key);
        let guard = &epoch::pin();
        let mut leaf = self.leaf_to_fill(key, guard);
        loop {
            if Self::is_crowded(leaf) {
                // The leaf must not take a new key.
                return self.write(bytes, payload).map(drop);
            }
            let status = leaf_word_changes::status(leaf.status(), guard);
            if full(leaf, status) {
                self.replace(key, leaf, guard);
                leaf = self.leaf(key, guard);
                continue;
            }
            let reserved = status.reserve();
            if leaf_word_changes::advance(leaf.status(), status, reserved, guard).is_err() {
                self.counters.add(Event::CasMiss);
                continue;
            }
            let slot = status.reserved();
            leaf.slot_fill(slot, key, hash, payload);
            if let Some((_, after)) = show_newest(leaf, (key, hash), slot, reserved, guard) {
                self.replace_if_full(key, leaf, after, guard);
                return Ok(());
            }
        }
    }

    /// Replaces a leaf after its last slot has been used. If that split it, returns the split.
    fn replace_if_full(
        &self,
        key: K::Ref<'_>,
        leaf: NodeRef<'_, K>,
        status: Status,
        guard: &Guard,
    ) -> Option<super::replace::Split> {
        if full(leaf, status) {
            return self.replace(key, leaf, guard);
        }
        None
    }
}

/// Whether a leaf can take no further record.
#[inline]
fn full<K: Key>(leaf: NodeRef<'_, K>, status: Status) -> bool {
    status.is_frozen() || status.needs_compaction() || status.reserved() >= leaf.slots()
}

/// Makes a record visible; older records of its key do not matter. `None`: a newer one exists, or
/// the leaf takes no record.
pub(super) fn show_newest<K: Key>(
    leaf: NodeRef<'_, K>,
    (key, hash): (K::Ref<'_>, u8),
    slot: usize,
    mut status: Status,
    guard: &Guard,
) -> Option<States> {
    loop {
        let newer = status.visible() & !((2 << slot) - 1);
        if status.is_frozen()
            || status.needs_compaction()
            || leaf.find_slot(key, hash, newer).is_some()
        {
            return None;
        }
        let next = status.show(slot).change();
        match leaf_word_changes::advance(leaf.status(), status, next, guard) {
            Ok(()) => return Some((status, next)),
            Err(now) => status = now,
        }
    }
}
