//! Reads of one leaf: look-up of a key, and collection of all records.
//!
//! In place, a key has at most one record in its leaf, which may be dead, so the sorted region, where
//! most records are, is searched first. In the append variant a key may have many records, of which the
//! newest counts: that in the highest visible slot, or else the sorted one. A record is shown only
//! if no visible record of its key lies in a higher slot (`write.rs`), so higher is newer.

use crossbeam_epoch::Guard;
use namiki_index::Lookup;
use namiki_index::key::Key;
use namiki_platform::sync::AtomicU64;

use super::Variant;
use super::leaf_table::version;
use super::leaf_word_changes::{self, Value};
use super::node::{Entry, NodeRef};
use super::status_word::{SLOTS_MAX, Status};

/// A record that was found: dead or alive.
#[derive(Clone, Copy)]
pub(super) struct Record<'g> {
    pub(super) word: &'g AtomicU64,
    pub(super) value: Value,
    pub(super) slot: Option<usize>,
}

/// Hash byte of a key for the slots of a leaf, from its head, and from its ends if it is longer.
#[inline(always)]
pub(super) fn hash<K: Key>(key: K::Ref<'_>) -> u8 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = K::head(key, 0).wrapping_mul(FACTOR);
    if !K::INLINE {
        let len = K::tail(key).len();
        // Long keys differ near their ends, after a prefix that many share.
        for at in [len.saturating_sub(16), len.saturating_sub(8), 8] {
            mixed = (mixed ^ K::head(key, at)).wrapping_mul(FACTOR);
            mixed ^= mixed >> 29;
        }
        mixed = (mixed ^ len as u64).wrapping_mul(FACTOR);
    }
    (mixed >> 56) as u8
}

/// The slots of a mask, highest first.
fn from_highest(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = mask.checked_ilog2()?;
        mask ^= 1 << slot;
        Some(slot as usize)
    })
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// The newest record of a key among those slots of `mask` that have its hash.
    #[inline(always)]
    pub(super) fn find_slot(self, key: K::Ref<'_>, hash: u8, mask: u32) -> Option<usize> {
        if mask == 0 {
            return None;
        }
        from_highest(self.slots_like(hash) & mask)
            .find(|slot| K::cmp(self.slot_key(*slot), key).is_eq())
    }

    fn record_in_slot(
        self,
        key: K::Ref<'_>,
        hash: u8,
        status: Status,
        guard: &Guard,
    ) -> Option<Record<'g>> {
        let slot = self.find_slot(key, hash, status.visible())?;
        let word = self.slot_value(slot);
        Some(Record {
            word,
            value: Value::read(word, guard),
            slot: Some(slot),
        })
    }

    #[inline(always)]
    fn record_in_order(self, key: K::Ref<'_>, guard: &Guard) -> Option<Record<'g>> {
        let word = self.value(self.find_sorted(key)?);
        Some(Record {
            word,
            value: Value::read(word, guard),
            slot: None,
        })
    }

    /// The record that counts for a key in this state of the leaf.
    #[inline(always)]
    pub(super) fn find<V: Variant>(
        self,
        key: K::Ref<'_>,
        hash: u8,
        status: Status,
        guard: &Guard,
    ) -> Option<Record<'g>> {
        if V::IN_PLACE {
            self.record_in_order(key, guard)
                .or_else(|| self.record_in_slot(key, hash, status, guard))
        } else {
            self.record_in_slot(key, hash, status, guard)
                .or_else(|| self.record_in_order(key, guard))
        }
    }

    /// Looks a key up.
    #[inline(always)]
    pub(super) fn get<V: Variant>(self, key: K::Ref<'_>, guard: &Guard) -> Lookup {
        if V::IN_PLACE
            && let Some(record) = self.record_in_order(key, guard)
            && let Some(payload) = record.value.payload()
        {
            return Lookup::Found(payload);
        }
        let hash = hash::<K>(key);
        let found = leaf_word_changes::look_up(V::IN_PLACE, self.status(), guard, |status| {
            let record = self.find::<V>(key, hash, status, guard)?;
            Some(record.value)
        });
        match found {
            Ok(payload) => Lookup::Found(payload),
            Err(status) => Lookup::Missing(version(self, status)),
        }
    }

    /// All records that are alive in this state of the leaf, in order, into `out`, which is empty. In
    /// place the payloads may be of different instants, unless the leaf is frozen as a whole.
    pub(super) fn collect(self, status: Status, out: &mut Vec<Entry<'g, K>>, guard: &Guard) {
        let mut news = [0_u8; SLOTS_MAX];
        let mut count = 0;
        for slot in from_highest(status.visible()) {
            let key = self.slot_key(slot);
            let (mut at, mut known) = (count, false);
            // Few, and most leaves' are in some order already: insertion sort, smallest key last.
            while at > 0 {
                match K::cmp(self.slot_key(usize::from(news[at - 1])), key) {
                    std::cmp::Ordering::Less => at -= 1,
                    std::cmp::Ordering::Equal => {
                        known = true;
                        break;
                    }
                    std::cmp::Ordering::Greater => break,
                }
            }
            // A newer record of the key was there before.
            if !known {
                news.copy_within(at..count, at + 1);
                news[at] = slot as u8;
                count += 1;
            }
        }
        out.reserve(self.len() + count);
        let mut i = 0;
        for slot in news[..count].iter().rev() {
            let slot = usize::from(*slot);
            let key = self.slot_key(slot);
            i = self.collect_sorted(i, Some(key), out, guard);
            // An older record of the same key.
            if i < self.len() && K::cmp(self.key(i), key).is_eq() {
                i += 1;
            }
            if let Some(payload) = Value::read(self.slot_value(slot), guard).payload() {
                out.push((key, payload));
            }
        }
        self.collect_sorted(i, None, out, guard);
    }

    /// The records of the sorted region from number `i` on that are alive and left of `end`. Returns the
    /// number of the first that is not left of it.
    #[inline(always)]
    fn collect_sorted(
        self,
        i: usize,
        end: Option<K::Ref<'_>>,
        out: &mut Vec<Entry<'g, K>>,
        guard: &Guard,
    ) -> usize {
        for i in i..self.len() {
            let key = self.key(i);
            if end.is_some_and(|end| K::cmp(key, end).is_ge()) {
                return i;
            }
            if let Some(payload) = Value::read(self.value(i), guard).payload() {
                out.push((key, payload));
            }
        }
        self.len()
    }

    /// Freezes a leaf, payloads included: from now on nothing in it changes. Returns its last status.
    pub(super) fn freeze_leaf<V: Variant>(self, guard: &Guard) -> Status {
        let status = leaf_word_changes::freeze(self.status(), guard);
        if V::IN_PLACE {
            (0..self.len()).for_each(|i| leaf_word_changes::freeze_payload(self.value(i), guard));
            from_highest(status.visible())
                .for_each(|slot| leaf_word_changes::freeze_payload(self.slot_value(slot), guard));
        }
        status
    }
}
