//! A table without its types: an index from key bytes to records, and the records.
//!
//! Updates never touch the index. A key that is written for the first time gets an **absent
//! record** first; from then on, only the record determines its presence, and every protocol treats
//! "absent" as one more version. Absent records leave the index when no transaction, view or
//! recovery needs them any more (`commit/removal.rs`); an opening removes all of them
//! (`RawTable::compact`).
//!
//! The new record enters the index locked, and is unlocked with the leaf's rts as its own: a transaction that has
//! read the gap before, at a stamp up to that rts, stays ahead of the one that fills it (see `cc`, phantoms). Where
//! look-ups and scans go to different parts of an index, it is unlocked when it is in both, with the larger rts.
#![expect(unsafe_code, reason = "turns the index's payloads back into records")]

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Bound;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use namiki_index::{
    Direction, IndexError, Inserted, LeafVersion, Lookup, PointIndex, ScanItem, ScanRange,
};
use namiki_platform::sync::{AtomicBool, Ordering};
use namiki_platform::{Epoch, Stamp};
use parking_lot::RwLock;
use smallvec::SmallVec;

use crate::concurrency::cc::{Before, CcProtocol};
use crate::concurrency::lock::LockWord;
use crate::storage::arena::{Arena, LockedWord};
use crate::storage::index::{Added, Index, IndexKind, IndexNotInBuild, KeyKind};
use crate::storage::record::RecordRef;
use crate::table::load_state::LoadState;
use crate::table::removed_ranges::RemovedRanges;
pub use crate::table::table_info::{TableId, TableInfo};

/// Keys that are looked up together.
pub(crate) const BATCH_KEYS_MAX: usize = 16;

/// The number of a change of the catalogue since the database was opened: that of a table that the opening found is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeNumber(pub(crate) u64);

/// One opening of a database. Its tables work in its own transactions only: these keep it alive, and
/// with it the records that they point to (record.rs, R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(NonZeroU64);

impl Owner {
    /// One that is unique in this process.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed));
        Self(number.unwrap_or_else(|| unreachable!("no process opens so many")))
    }
}

/// See [`RawTable::removed_version`].
#[cfg(feature = "fault-injection")]
type RemovedVersions =
    std::sync::OnceLock<Box<parking_lot::Mutex<std::collections::HashMap<Box<[u8]>, Stamp>>>>;

/// A table: its index, and its records.
pub(crate) struct RawTable {
    pub(crate) id: TableId,
    pub(crate) owner: Owner,
    /// The change of the catalogue that has made it. Where a table is taken from segments, the one that loaded it.
    pub(crate) made_by: ChangeNumber,
    /// It was dropped, or is about to be: transactions that use it fail (`commit::dropped_tables`).
    dropped: AtomicBool,
    /// Whether all its rows are in memory: if not, only its loading uses its index.
    pub(crate) load_state: LoadState,
    /// Whether its keys all have eight bytes.
    pub(crate) fixed_keys: bool,
    /// The room in its records.
    inline_bytes: usize,
    /// Renaming changes it.
    name: RwLock<String>,
    /// The name of its value type when it was opened.
    pub(crate) value_type: String,
    index: Index,
    arena: Arena,
    removed_ranges: RemovedRanges,
    /// The last epoch in which a commit may have made a key appear or vanish; 0 if none has since the opening.
    presence_epoch: AtomicU64,
    #[cfg(feature = "fault-injection")]
    removed_versions: RemovedVersions,
    /// Represents the end of all keys: the gap below it is the one above the last key.
    end: RecordRef,
}

/// A version that is replayed.
#[derive(Clone, Copy)]
pub(crate) struct Loaded<'a> {
    pub(crate) key: &'a [u8],
    /// No value: the key is deleted.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) stamp: Stamp,
}

/// The result of [`RawTable::find_or_create`].
pub(crate) enum Resolved {
    /// The key had a record, perhaps an absent one.
    Found(RecordRef),
    /// The key got this record, which is absent and **locked**; `rts` is the rts of the leaf.
    New {
        record: RecordRef,
        inserted: Insertion,
        rts: u64,
    },
}

/// The effect of a record's insert on the leaves that transactions may have read.
#[derive(Clone, Copy)]
pub(crate) struct Insertion {
    /// To that of look-ups, and of scans too unless it is the other.
    pub(crate) leaf: Inserted,
    /// To that of scans, where look-ups go elsewhere.
    pub(crate) scanned: Option<Inserted>,
}

/// The leaves that were read on the way to a key.
pub(crate) type Leaves = SmallVec<[LeafVersion; 4]>;

/// The result of [`RawTable::next`].
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub(crate) record: RecordRef,
    /// It is that of the key that the search began with.
    pub(crate) is_the_key: bool,
}

/// One step of [`RawTable::scan`].
pub(crate) enum Step<'a> {
    /// The entries that follow are those of this leaf.
    Leaf(LeafVersion),
    /// A key and its record.
    Entry(&'a [u8], RecordRef),
}

impl RawTable {
    pub(crate) fn new(
        info: TableInfo,
        index: IndexKind,
        owner: Owner,
    ) -> Result<Self, IndexNotInBuild> {
        let keys = if info.fixed_keys {
            KeyKind::Fixed8
        } else {
            KeyKind::Variable
        };
        let arena = Arena::default();
        // As large as the others: it stays where it is when they are moved.
        let end = arena.record(info.inline_bytes, LockWord::FREE.0);
        Ok(Self {
            id: info.id,
            owner,
            made_by: ChangeNumber::default(),
            dropped: AtomicBool::new(false),
            load_state: LoadState::loaded(),
            fixed_keys: info.fixed_keys,
            inline_bytes: info.inline_bytes,
            name: RwLock::new(info.name),
            value_type: info.value_type,
            index: Index::new(index, keys)?,
            arena,
            removed_ranges: RemovedRanges::default(),
            presence_epoch: AtomicU64::new(0),
            #[cfg(feature = "fault-injection")]
            removed_versions: RemovedVersions::default(),
            end,
        })
    }

    /// Whether it was dropped, or is about to be.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Whether all its rows are in memory.
    #[inline]
    pub(crate) fn is_loaded(&self) -> bool {
        self.load_state.is_loaded()
    }

    /// A commit of this epoch makes a key appear or vanish. Called before its version is installed.
    pub(crate) fn note_presence_change(&self, epoch: Epoch) {
        // All workers share it, so it is written once in an epoch.
        if self.presence_epoch.load(Ordering::Relaxed) < epoch.0 {
            self.presence_epoch.fetch_max(epoch.0, Ordering::AcqRel);
        }
    }

    /// The last epoch in which a commit may have made a key appear or vanish. A caller that has seen a version of a record
    /// (with `Acquire`) sees the epoch that its commit has noted.
    pub(crate) fn presence_epoch(&self) -> Epoch {
        Epoch(self.presence_epoch.load(Ordering::Acquire))
    }

    /// Its name now.
    pub(crate) fn name(&self) -> String {
        self.name.read().clone()
    }

    /// The mark of a table that was dropped. See [`Drops`](crate::commit::drops::Drops).
    pub(crate) fn dropped(&self) -> &AtomicBool {
        &self.dropped
    }

    /// Gives it another name.
    pub(crate) fn rename(&self, name: &str) {
        name.clone_into(&mut self.name.write());
    }

    fn record(payload: u64) -> RecordRef {
        // SAFETY: only `find_or_create` and `fill` put payloads into the index, both from
        // `RecordRef::payload` of records in `self.arena`, which lives as long as the index
        // (record.rs, R1).
        unsafe { RecordRef::from_payload(payload) }
    }

    /// The key's record, or the leaf that says that it has none.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Result<RecordRef, LeafVersion>, IndexError> {
        Ok(Self::found(self.index.get(key)?))
    }

    /// Whether the table can hold the key.
    #[inline]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), IndexError> {
        self.index.key_kind().check(key)
    }

    /// The kind of its keys.
    pub(crate) fn key_kind(&self) -> KeyKind {
        self.index.key_kind()
    }

    /// Batched look-up. [`RawTable::found`] evaluates its results.
    pub(crate) fn find_all(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        self.index.get_many(keys, out)
    }

    /// The record that a look-up in a table's index found, or the leaf that shows its absence.
    #[inline]
    pub(crate) fn found(lookup: Lookup) -> Result<RecordRef, LeafVersion> {
        match lookup {
            Lookup::Found(payload) => Ok(Self::record(payload)),
            Lookup::Missing(leaf) => Err(leaf),
        }
    }

    /// The key's record; if it does not exist, a new one with the protocol word `locked`.
    pub(crate) fn find_or_create_record(
        &self,
        key: &[u8],
        locked: LockedWord,
    ) -> Result<Resolved, IndexError> {
        match self.index.get(key)? {
            Lookup::Found(payload) => Ok(Resolved::Found(Self::record(payload))),
            Lookup::Missing(_) => self.create_record(key, locked),
        }
    }

    /// The same for a key that was not there a moment ago.
    pub(crate) fn create_record(
        &self,
        key: &[u8],
        locked: LockedWord,
    ) -> Result<Resolved, IndexError> {
        let fresh = self.arena.locked_record(self.inline_bytes, locked);
        let found = match self.index.add(key, fresh.record.payload()) {
            Ok(Added::New { leaf, scanned, rts }) => {
                return Ok(Resolved::New {
                    record: fresh.record,
                    inserted: Insertion { leaf, scanned },
                    rts,
                });
            }
            // Another thread was faster.
            Ok(Added::Exists(payload)) => Ok(Resolved::Found(Self::record(payload))),
            Err(error) => Err(error),
        };
        // It is absent as it was made, and the index has neither taken its address nor published it (`Index::add`).
        self.arena.give_up(fresh);
        found
    }

    /// Takes a key out of the index with a record that is locked as a whole and has no value: the record's incarnation ends,
    /// and `ended` is called, before the key goes. `read_until`
    /// is the largest stamp at which the record was read: an inserter of the key gets a larger one. The caller releases the
    /// lock, and then gives the record that is returned back with [`RawTable::reuse`]; without one it is never used again.
    pub(crate) fn take_out(
        &self,
        key: &[u8],
        record: RecordRef,
        read_until: Stamp,
        ended: impl FnOnce(),
    ) -> Result<Option<RecordRef>, IndexError> {
        if read_until > Stamp(0) {
            // First: an inserter that finds no key reads the leaf's rts after that.
            while !self.raise_leaves(key, read_until)? {
                std::hint::spin_loop();
            }
        }
        #[cfg(feature = "fault-injection")]
        if let Some(removed) = self.removed_versions.get()
            && record.creation() > Stamp(0)
        {
            removed.lock().insert(key.into(), record.creation());
        }
        // In this order: a transaction that misses the key knows of the end, and finds its own write void (`txn/read.rs`).
        let reusable = record.retire();
        ended();
        let was_there = self.index.remove_if(key, record.payload())?;
        debug_assert!(was_there, "a record that is current is in the index");
        Ok(reusable)
    }

    /// Raises the rts of the leaves that hold a key; returns whether they are still those.
    fn raise_leaves(&self, key: &[u8], rts: Stamp) -> Result<bool, IndexError> {
        let leaves = self.index.leaves_of(key)?;
        Ok(leaves.iter().all(|leaf| self.extend_leaf(*leaf, rts.0)))
    }

    /// The stamp of the last deletion of a key that was taken out of the index, for histories that are checked for cycles:
    /// it is remembered in builds for tests alone, once it was asked for. 0 for none.
    pub(crate) fn removed_version(&self, _key: &[u8]) -> Stamp {
        #[cfg(feature = "fault-injection")]
        if let Some(removed) = self
            .removed_versions
            .get_or_init(Box::default)
            .lock()
            .get(_key)
        {
            return *removed;
        }
        Stamp(0)
    }

    /// Where keys have been taken out since the last image.
    pub(crate) fn removed_ranges(&self) -> &RemovedRanges {
        &self.removed_ranges
    }

    /// Keeps the record of a key that was [taken out](RawTable::take_out) for another key.
    pub(crate) fn reuse(&self, record: RecordRef) {
        self.arena.reuse(record);
    }

    /// A record that is not in the index: absent, and older than any version. Replay.
    pub(crate) fn loose_record<P: CcProtocol>(&self) -> RecordRef {
        let unlocked = P::published(Stamp(0));
        self.arena.record(self.inline_bytes, unlocked)
    }

    /// Gives a record the version unless it has a newer one: replay.
    pub(crate) fn load<P: CcProtocol>(record: RecordRef, version: &Loaded<'_>) {
        let before = lock::<P>(record);
        if record.creation() >= version.stamp {
            P::unlock(record, before);
            return;
        }
        record.install(version.value, version.stamp);
        publish::<P>(record, version.stamp);
    }

    /// Gives a record a value and leaves it its version's stamp: replay.
    pub(crate) fn overwrite<P: CcProtocol>(record: RecordRef, value: Option<&[u8]>) {
        let before = lock::<P>(record);
        record.install(value, record.creation());
        P::unlock(record, before);
    }

    /// Makes what a record holds the version of `stamp`: replay.
    pub(crate) fn stamp<P: CcProtocol>(record: RecordRef, stamp: Stamp) {
        lock::<P>(record);
        record.restamp(stamp);
        publish::<P>(record, stamp);
    }

    /// Frees the records that have no value. `used` are all others, in each place that leads to them: they may be moved.
    /// The end of a replay, while no other thread uses the table, and before the index is filled.
    pub(crate) fn compact<'r>(&self, used: impl Iterator<Item = &'r mut RecordRef>) {
        // SAFETY: no other thread uses the table, and its index is empty: only `used` and `end` lead to records. The
        // former are followed below, the latter stays.
        let moved = unsafe { self.arena.compact(self.end) };
        for record in used {
            *record = moved.record(*record);
        }
    }

    /// Whether the table's keys are in an order, so that ranges of them can be scanned.
    pub(crate) fn is_ordered(&self) -> bool {
        self.index.kind().is_ordered()
    }

    /// Puts loose records of this table into the index, which is empty, by keys that come in their order, if the
    /// table has one. The end of a replay, while no other thread uses the table.
    pub(crate) fn fill<B: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (B, RecordRef)>,
    ) -> Result<(), IndexError> {
        let entries = entries
            .into_iter()
            .map(|(key, record)| (key, record.payload()));
        self.index.fill(entries).map(|_| ())
    }

    /// Visits the records in a range of keys, leaf by leaf.
    pub(crate) fn scan(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.index.scan(range, |item| match item {
            ScanItem::Leaf(version) => visit(Step::Leaf(version)),
            ScanItem::Ahead(payload) => {
                Self::record(payload).prefetch_value(self.inline_bytes);
                ControlFlow::Continue(())
            }
            ScanItem::Entry(key, payload) => visit(Step::Entry(key, Self::record(payload))),
        })
    }

    /// Visits the records of all keys, in the order of keys if the index has one. A key that is
    /// present throughout is visited once; one that is inserted concurrently is visited once or not
    /// at all.
    pub(crate) fn for_each(
        &self,
        mut visit: impl FnMut(&[u8], RecordRef) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.index
            .for_each(|key, payload| visit(key, Self::record(payload)))
    }

    /// The record of the first key at or above a bound, or the one that stands for the end of all keys; with
    /// the leaves in which it was looked for. Only of a table in order.
    pub(crate) fn next(&self, from: Bound<&[u8]>, leaves: &mut Leaves) -> Result<Next, IndexError> {
        leaves.clear();
        let mut next = Next {
            record: self.end,
            is_the_key: false,
        };
        let range = ScanRange {
            start: from,
            end: Bound::Unbounded,
            direction: Direction::Forward,
        };
        self.scan(range, |step| match step {
            Step::Leaf(leaf) => {
                leaves.push(leaf);
                ControlFlow::Continue(())
            }
            Step::Entry(key, record) => {
                let is_the_key = matches!(from, Bound::Included(from) if from == key);
                next = Next { record, is_the_key };
                ControlFlow::Break(())
            }
        })?;
        Ok(next)
    }

    /// The record that stands for the end of all keys.
    pub(crate) fn end(&self) -> RecordRef {
        self.end
    }

    /// Whether the leaves still have the keys that they had.
    pub(crate) fn are_unchanged(&self, leaves: &[LeafVersion]) -> bool {
        leaves.iter().all(|leaf| self.extend_leaf(*leaf, 0))
    }

    /// Raises the leaf's rts to at least `rts`, and then returns whether its keys are still those
    /// that `seen` stands for.
    pub(crate) fn extend_leaf(&self, seen: LeafVersion, rts: u64) -> bool {
        self.index.raise_and_check(seen, rts)
    }

    /// Which index the table has.
    pub(crate) fn index_kind(&self) -> IndexKind {
        self.index.kind()
    }

    /// See [`Table::use_up`](crate::Table::use_up).
    pub(crate) fn use_up(&self) {
        self.index.use_up();
    }

    /// About how many records there are, absent ones included: from what they take in memory.
    pub(crate) fn len_estimate(&self) -> u64 {
        let bytes_each = size_of::<u64>() * 2 + self.inline_bytes;
        (self.arena.bytes() / bytes_each) as u64
    }

    /// The bytes of the index.
    pub(crate) fn index_bytes(&self) -> usize {
        self.index.memory_bytes()
    }

    /// The bytes of the records, boxed payloads left out.
    pub(crate) fn record_bytes(&self) -> usize {
        self.arena.bytes()
    }
}

impl fmt::Debug for RawTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTable({}, {:?})", self.id.0, self.name())
    }
}

/// Locks a record that is replayed. Other threads replay other streams; no lock is held for long.
fn lock<P: CcProtocol>(record: RecordRef) -> Before {
    loop {
        if let Ok(before) = P::try_lock(record) {
            return before;
        }
        std::hint::spin_loop();
    }
}

fn publish<P: CcProtocol>(record: RecordRef, stamp: Stamp) {
    let has_waiters = P::publish(record, stamp);
    debug_assert!(!has_waiters, "a replay has no waiters");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrency::cc::TicToc;

    #[test]
    fn every_record_is_visited_whatever_the_index() {
        for index in IndexKind::those_in_build(&["art", "bwtree", "hash", "art+hash"]) {
            let info = TableInfo {
                id: TableId(0),
                name: String::new(),
                key_type: String::new(),
                value_type: String::new(),
                fixed_keys: false,
                inline_bytes: 8,
                layout: None,
            };
            let raw_table = RawTable::new(info, index, Owner::new()).unwrap();
            let mut expected = std::collections::BTreeMap::new();
            for number in 0..500_u32 {
                let key = number.to_string().into_bytes();
                let resolved = raw_table.find_or_create_record(&key, TicToc::NEW_LOCKED);
                let Ok(Resolved::New { record, .. }) = resolved else {
                    panic!("the key is new");
                };
                expected.insert(key, record);
            }
            let mut visited = std::collections::BTreeMap::new();
            let visit = |key: &[u8], record| {
                assert!(visited.insert(key.to_vec(), record).is_none());
                ControlFlow::Continue(())
            };
            raw_table.for_each(visit).unwrap();
            assert!(visited == expected, "{index}");
        }
    }

    #[test]
    fn a_key_that_finds_no_room_leaves_no_record_behind() {
        let names = ["art", "blink", "masstree", "bztree-append", "art+hash"];
        for index in IndexKind::those_in_build(&names) {
            let info = TableInfo {
                id: TableId(0),
                name: String::new(),
                key_type: String::new(),
                value_type: String::new(),
                fixed_keys: true,
                inline_bytes: 8,
                layout: None,
            };
            let raw_table = RawTable::new(info, index, Owner::new()).unwrap();
            raw_table.use_up();
            let find_or_create =
                |key: u64| raw_table.find_or_create_record(&key.to_be_bytes(), TicToc::NEW_LOCKED);
            let refused = (0..100_000)
                .find(|key| find_or_create(*key).is_err())
                .unwrap();
            let take_next = || {
                let next = raw_table.arena.record(8, 0);
                // SAFETY: no other thread has known it.
                unsafe { raw_table.arena.take_back(next) };
                next
            };
            let next = take_next();
            for _ in 0..3 {
                let Err(error) = find_or_create(refused) else {
                    panic!("{index} has room after all");
                };
                assert_eq!(error, IndexError::OutOfPages, "{index}");
                assert_eq!(take_next(), next, "{index}");
            }
            let found = raw_table.find(&refused.to_be_bytes()).unwrap();
            assert!(found.is_err(), "{index}");
        }
    }
}
