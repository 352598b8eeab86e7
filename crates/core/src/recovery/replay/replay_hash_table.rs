//! The records of one table while its log is replayed, found by hash.
//!
//! A replay looks keys up in no order, and most of them are new, which is the slowest case for a
//! tree: several misses on the way down, and a leaf that is rebuilt repeatedly. So the tree stays
//! empty until all is replayed. Until then a key's record is found in a hash table, by a miss or
//! two that overlap with those of the other keys of a frame; then the keys are sorted once and the
//! tree is built from them. Keys that are deleted in the end never enter the tree, and their
//! records are freed before it is built. Their stamps are not needed any more: later commits get
//! stamps above all replayed ones.
//!
//! The table is cut into shards, each with a lock that is held for one look-up. A slot has sixteen
//! bytes for an eight-byte key. For other keys it has thirty-two, with the key stored apart. Three
//! eighths to three quarters of the slots are in use in a shard that is not empty. Each shard is
//! freed when its keys go into the sorted runs, and those when the tree is built.
//!
//! Where there is an image, the keys do not go into the tree yet: they are sorted, those that are deleted too, and wait for the
//! image's rows (`log_winners.rs`).
//!
//! # Invariants
//! - L1. A key is in one slot at most, of the shard that its hash names, and keeps its record.
//! - L2. There is an empty slot in every shard, so that every search ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use namiki_index::IndexError;
use namiki_platform::Stamp;
use namiki_platform::hash::hash_of;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::concurrency::cc::CcProtocol;
use crate::error::OpenError;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Loaded, RawTable};

use super::kept_keys::{Hashed, Kept};
use super::log_winners::{LogWinners, SortedWinners};
use crate::recovery::run_on_threads::on_threads;

/// A power of two; far more than threads, so that two seldom want the same.
const SHARDS: usize = 256;

const SLOTS_MIN: usize = 16;

/// How many keys are looked up together.
const TOGETHER: usize = 64;

/// The most keys that are sorted at a time: a sort cannot be interrupted.
const SORTED_AT_ONCE: usize = 1 << 20;

/// The least keys to sort for which another thread pays off.
const KEYS_PER_THREAD: usize = 1 << 14;

/// How many keys enter the tree between two progress calls.
const WATCHED_EVERY: usize = 4096;

/// The records of a table that is being replayed.
pub(in crate::recovery) enum Latest<'a> {
    /// Keys of eight bytes, as big-endian numbers: their order is that of the bytes.
    Fixed8(Map<'a, u64>),
    /// Keys of any length.
    Variable(Map<'a, Hashed>),
}

impl<'a> Latest<'a> {
    pub(in crate::recovery) fn new(raw_table: &'a RawTable) -> Self {
        if raw_table.fixed_keys {
            Self::Fixed8(Map::new(raw_table))
        } else {
            Self::Variable(Map::new(raw_table))
        }
    }

    /// Installs the version of each key that has none or an older one. The error is that of a key,
    /// and comes with its version's stamp.
    pub(in crate::recovery) fn load<P: CcProtocol>(
        &self,
        versions: &[Loaded<'_>],
    ) -> Result<(), (Stamp, IndexError)> {
        match self {
            Self::Fixed8(map) => map.load::<P>(versions),
            Self::Variable(map) => map.load::<P>(versions),
        }
    }

    /// The record of a key, created if it does not exist. It may be left without a value.
    pub(in crate::recovery) fn record<P: CcProtocol>(
        &self,
        key: &[u8],
    ) -> Result<RecordRef, IndexError> {
        match self {
            Self::Fixed8(map) => map.record::<P>(key),
            Self::Variable(map) => map.record::<P>(key),
        }
    }

    /// Builds the table's tree on `threads` threads. `watch` is called periodically; its error is
    /// returned, and the tree is unusable then.
    pub(in crate::recovery) fn build(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<(), OpenError> {
        match self {
            Self::Fixed8(map) => map.build(threads, watch, |key| key.to_be_bytes()),
            Self::Variable(map) => map.build(threads, watch, |hashed| hashed.key),
        }
    }

    /// All keys with their last versions, in their order, sorted on `threads` threads. `watch` as
    /// for [`Latest::build`].
    pub(in crate::recovery) fn into_winners(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<LogWinners, OpenError> {
        Ok(match self {
            Self::Fixed8(map) => LogWinners::Fixed8(map.into_winners(threads, watch)?),
            Self::Variable(map) => LogWinners::Variable(map.into_winners(threads, watch)?),
        })
    }
}

type Slot<K> = Option<(K, RecordRef)>;

struct Slots<K> {
    /// Their number is a power of two.
    slots: Box<[Slot<K>]>,
    used: usize,
}

struct Shard<K> {
    slots: Mutex<Slots<K>>,
    /// Where the slots are and their number less one, for prefetching: it does no harm if they have
    /// moved.
    hint: (AtomicPtr<Slot<K>>, AtomicUsize),
}

impl<K: Kept> Shard<K> {
    fn new() -> Self {
        let slots = empty_slots(SLOTS_MIN);
        let hint = (
            AtomicPtr::new(slots.as_ptr().cast_mut()),
            AtomicUsize::new(slots.len() - 1),
        );
        Self {
            slots: Mutex::new(Slots { slots, used: 0 }),
            hint,
        }
    }

    fn prefetch(&self, hash: u64) {
        // Relaxed: whatever comes out, prefetching it is harmless.
        let (first, mask) = (
            self.hint.0.load(Ordering::Relaxed),
            self.hint.1.load(Ordering::Relaxed),
        );
        let slot = first.wrapping_add(hash as usize & mask);
        namiki_platform::prefetch(slot.cast());
    }

    /// The key's record, created by `make` if it does not exist.
    fn record<E>(
        &self,
        seed: u64,
        hash: u64,
        key: &[u8],
        make: impl FnOnce() -> Result<(K, RecordRef), E>,
    ) -> Result<RecordRef, E> {
        let mut shard = self.slots.lock();
        let mask = shard.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some((kept, record)) = &shard.slots[at] {
            if kept.is(hash, key) {
                return Ok(*record);
            }
            at = (at + 1) & mask;
        }
        let (kept, record) = make()?;
        shard.slots[at] = Some((kept, record));
        shard.used += 1;
        if shard.used * 4 > shard.slots.len() * 3 {
            shard.grow(seed);
            let first = shard.slots.as_ptr().cast_mut();
            self.hint.0.store(first, Ordering::Relaxed);
            self.hint.1.store(shard.slots.len() - 1, Ordering::Relaxed);
        }
        Ok(record)
    }
}

impl<K: Kept> Slots<K> {
    #[cold]
    fn grow(&mut self, seed: u64) {
        let mut larger = empty_slots(self.slots.len() * 2);
        let mask = larger.len() - 1;
        let slots = std::mem::take(&mut self.slots);
        for (key, record) in slots.into_iter().flatten() {
            let mut at = key.hash(seed) as usize & mask;
            while larger[at].is_some() {
                at = (at + 1) & mask;
            }
            larger[at] = Some((key, record));
        }
        self.slots = larger;
    }
}

fn empty_slots<K>(len: usize) -> Box<[Slot<K>]> {
    std::iter::repeat_with(|| None).take(len).collect()
}

/// The records by key.
pub(in crate::recovery) struct Map<'a, K> {
    raw_table: &'a RawTable,
    /// Unpredictable for the source of the keys.
    seed: u64,
    shards: Box<[CachePadded<Shard<K>>]>,
    /// Whether any version was a deletion.
    deletes: AtomicBool,
}

impl<'a, K: Kept> Map<'a, K> {
    fn new(raw_table: &'a RawTable) -> Self {
        let shards = std::iter::repeat_with(|| CachePadded::new(Shard::new()));
        Self {
            raw_table,
            seed: RandomState::new().hash_one(0),
            shards: shards.take(SHARDS).collect(),
            deletes: AtomicBool::new(false),
        }
    }

    fn shard(&self, hash: u64) -> &Shard<K> {
        // Slots go by the lower bits.
        &self.shards[(hash >> 56) as usize % SHARDS]
    }

    fn load<P: CcProtocol>(&self, versions: &[Loaded<'_>]) -> Result<(), (Stamp, IndexError)> {
        for versions in versions.chunks(TOGETHER) {
            let mut hashes = SmallVec::<[u64; TOGETHER]>::new();
            for version in versions {
                let hash = hash_of(self.seed, version.key);
                self.shard(hash).prefetch(hash);
                hashes.push(hash);
            }
            let mut records = SmallVec::<[RecordRef; TOGETHER]>::new();
            for (version, &hash) in versions.iter().zip(&hashes) {
                let make = || self.make::<P>(hash, version.key);
                let record = self
                    .shard(hash)
                    .record(self.seed, hash, version.key, make)
                    .map_err(|error| (version.stamp, error))?;
                record.prefetch();
                records.push(record);
            }
            if versions.iter().any(|version| version.value.is_none()) {
                self.deletes.store(true, Ordering::Relaxed);
            }
            for (version, record) in versions.iter().zip(records) {
                RawTable::load::<P>(record, version);
            }
        }
        Ok(())
    }

    fn record<P: CcProtocol>(&self, key: &[u8]) -> Result<RecordRef, IndexError> {
        self.deletes.store(true, Ordering::Relaxed);
        let hash = hash_of(self.seed, key);
        let make = || self.make::<P>(hash, key);
        self.shard(hash).record(self.seed, hash, key, make)
    }

    fn make<P: CcProtocol>(&self, hash: u64, key: &[u8]) -> Result<(K, RecordRef), IndexError> {
        self.raw_table.check_key(key)?;
        let kept = K::keep(hash, key).ok_or(IndexError::KeyLength {
            expected: 8,
            got: key.len(),
        })?;
        Ok((kept, self.raw_table.loose_record::<P>()))
    }

    fn build<B: AsRef<[u8]>>(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
        bytes: impl Fn(K) -> B,
    ) -> Result<(), OpenError> {
        let raw_table = self.raw_table;
        let ordered = raw_table.is_ordered();
        let deletes = self.deletes.load(Ordering::Relaxed);
        // To look at a record is a miss; spared if it cannot be absent.
        let is_kept = |record: RecordRef| !deletes || !record.is_absent();
        let mut runs = self.runs(threads, ordered, is_kept, &watch)?;
        if deletes {
            // The map is freed, so only the runs lead to records.
            let records = runs.iter_mut().flatten().map(|(_, record)| record);
            raw_table.compact(records);
        }
        let mut keys: Box<dyn Iterator<Item = (K, RecordRef)>> = if ordered {
            Box::new(merge(runs))
        } else {
            Box::new(runs.into_iter().flatten())
        };
        let (mut passed, mut watched) = (0, Ok(()));
        let keys = std::iter::from_fn(|| {
            passed += 1;
            if passed % WATCHED_EVERY == 0 {
                watched = watch();
            }
            let (key, record) = watched.is_ok().then(|| keys.next()).flatten()?;
            Some((bytes(key), record))
        });
        let filled = raw_table.fill(keys);
        watched?;
        filled.map_err(|error| match error {
            IndexError::OutOfPages => OpenError::TableFull {
                table: raw_table.name(),
                index: raw_table.index_kind(),
            },
            other => unreachable!("the keys were checked when they came, and are sorted: {other}"),
        })
    }

    fn into_winners(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<SortedWinners<K>, OpenError> {
        let raw_table = self.raw_table;
        let deletes = self.deletes.load(Ordering::Relaxed);
        let runs = self.runs(threads, true, |_| true, &watch)?;
        let is_present = |record: &RecordRef| !deletes || !record.is_absent();
        let winners = merge(runs).map(|(key, record)| (key, Some(record).filter(is_present)));
        let mut winners: SortedWinners<K> = winners.collect();
        watch()?;
        if deletes {
            // The map is freed, so only these lead to records.
            raw_table.compact(winners.iter_mut().filter_map(|(_, record)| record.as_mut()));
        }
        Ok(winners)
    }

    /// All keys that are kept with their records, in runs, each of which is sorted if the keys are to be in order.
    fn runs(
        self,
        threads: usize,
        ordered: bool,
        is_kept: impl Fn(RecordRef) -> bool + Sync,
        watch: &(impl Fn() -> Result<(), OpenError> + Sync),
    ) -> Result<Vec<Vec<(K, RecordRef)>>, OpenError> {
        let keys: usize = self.shards.iter().map(|it| it.slots.lock().used).sum();
        let enough = keys.div_ceil(threads.max(1)).clamp(1, SORTED_AT_ONCE);
        let threads = keys.div_ceil(KEYS_PER_THREAD).clamp(1, threads.max(1));
        let left = Mutex::new(self.shards.into_iter());
        let runs = Mutex::new(Vec::new());
        let work = || -> Result<(), OpenError> {
            loop {
                watch()?;
                let mut run = Vec::new();
                while run.len() < enough {
                    let Some(shard) = left.lock().next() else {
                        break;
                    };
                    let slots = shard.into_inner().slots.into_inner().slots;
                    let records = slots.into_iter().flatten();
                    run.extend(records.filter(|(_, record)| is_kept(*record)));
                }
                if run.is_empty() {
                    return Ok(());
                }
                if ordered {
                    run.sort_unstable();
                }
                runs.lock().push(run);
            }
        };
        on_threads(threads, work)?;
        Ok(runs.into_inner())
    }
}

/// Merges sorted runs.
fn merge<T: Ord>(runs: Vec<Vec<T>>) -> impl Iterator<Item = T> {
    let mut runs: Vec<_> = runs.into_iter().map(Vec::into_iter).collect();
    let firsts = runs.iter_mut().enumerate();
    let mut heap: BinaryHeap<_> = firsts
        .filter_map(|(run, items)| Some(Reverse((items.next()?, run))))
        .collect();
    std::iter::from_fn(move || {
        let mut top = heap.peek_mut()?;
        match runs[top.0.1].next() {
            Some(following) => Some(std::mem::replace(&mut top.0.0, following)),
            None => Some(PeekMut::pop(top).0.0),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::AtomicU32;

    use namiki_index::ScanRange;
    use namiki_platform::seeded_random::Random;

    use super::*;
    use crate::concurrency::cc::TicToc;
    use crate::storage::index::IndexKind;
    use crate::table::raw_table::{Owner, Step, TableId, TableInfo};

    fn raw_table(fixed_keys: bool, index: IndexKind) -> RawTable {
        let info = TableInfo {
            id: TableId(0),
            name: "accounts".to_owned(),
            key_type: String::new(),
            value_type: String::new(),
            fixed_keys,
            inline_bytes: 8,
            layout: None,
        };
        RawTable::new(info, index, Owner::new()).unwrap()
    }

    fn key(number: u64, fixed: bool) -> Vec<u8> {
        let mut key = number.to_be_bytes().to_vec();
        if !fixed {
            // The keys have all lengths, and some are prefixes of others.
            key.extend((0..number % 23).map(|at| at as u8));
            key.drain(..(number % 5) as usize);
        }
        key
    }

    /// The keys in their order, with the versions of their records. For an index without an order,
    /// the keys are those of `keys`.
    fn contents<'a>(
        raw_table: &RawTable,
        keys: impl Iterator<Item = &'a Vec<u8>>,
    ) -> Vec<(Vec<u8>, Stamp, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let visit = |step: Step<'_>| {
            if let Step::Entry(key, record) = step {
                let mut value = Vec::new();
                let seen = record.copy_if(&mut value, |_| true).unwrap();
                found.push((key.to_vec(), seen.creation, (!seen.absent).then_some(value)));
            }
            ControlFlow::Continue(())
        };
        if raw_table.is_ordered() {
            raw_table.scan(ScanRange::all(), visit).unwrap();
        } else {
            let mut visit = visit;
            for key in keys {
                if let Ok(record) = raw_table.find(key).unwrap() {
                    let _ = visit(Step::Entry(key, record));
                }
            }
        }
        found
    }

    #[test]
    fn threads_replaying_one_key_leave_its_newest_version() {
        let indexes = IndexKind::those_in_build(&["art", "bwtree", "hash", "art+hash"]);
        for (fixed, index) in [false, true]
            .into_iter()
            .flat_map(|fixed| indexes.iter().map(move |index| (fixed, *index)))
        {
            for (keys, versions) in [(0, 0), (1, 50), (70_000, 200_000)] {
                let raw_table = raw_table(fixed, index);
                let latest = Latest::new(&raw_table);
                let mut random = Random::seeded(5);
                let written: Vec<(Vec<u8>, u64)> = (1..=versions)
                    .map(|stamp| (key(random.below(keys.max(1)), fixed), stamp))
                    .collect();
                let mut expected = std::collections::BTreeMap::new();
                for (key, stamp) in &written {
                    expected.insert(key.clone(), *stamp);
                }
                std::thread::scope(|scope| {
                    for part in 0..3 {
                        let (latest, written) = (&latest, &written);
                        scope.spawn(move || {
                            // Each has every third, one from the front and one from the back.
                            let mut mine: Vec<_> = written.iter().skip(part).step_by(3).collect();
                            if part == 1 {
                                mine.reverse();
                            }
                            for batch in mine.chunks(100) {
                                let values: Vec<_> =
                                    batch.iter().map(|(_, it)| it.to_le_bytes()).collect();
                                let versions: Vec<_> = batch
                                    .iter()
                                    .zip(&values)
                                    .map(|((key, stamp), value)| Loaded {
                                        key,
                                        value: Some(value),
                                        stamp: Stamp(*stamp),
                                    })
                                    .collect();
                                latest.load::<TicToc>(&versions).unwrap();
                            }
                        });
                    }
                });
                latest.build(2, || Ok(())).unwrap();
                let found = contents(&raw_table, expected.keys());
                let expected: Vec<_> = expected
                    .into_iter()
                    .map(|(key, stamp)| (key, Stamp(stamp), Some(stamp.to_le_bytes().to_vec())))
                    .collect();
                assert!(found == expected, "{index} {fixed} {keys}");
            }
        }
    }

    #[test]
    fn winners_are_sorted_and_say_what_was_deleted() {
        for (fixed, deletes) in [(true, true), (true, false), (false, true), (false, false)] {
            let raw_table = raw_table(fixed, IndexKind::default());
            let latest = Latest::new(&raw_table);
            let mut expected = std::collections::BTreeMap::new();
            for number in 0..50_000_u64 {
                let key = key(number.wrapping_mul(7919) % 20_000, fixed);
                let value = number.to_le_bytes();
                let is_deleted = deletes && number % 3 == 0;
                let version = Loaded {
                    key: &key,
                    value: (!is_deleted).then_some(&value[..]),
                    stamp: Stamp(1 + number),
                };
                latest.load::<TicToc>(&[version]).unwrap();
                expected.insert(key, (!is_deleted).then_some(value));
            }
            let winners = latest.into_winners(2, || Ok(())).unwrap();
            assert_eq!(winners.len(), expected.len());
            let present = expected.values().flatten().count();
            assert_eq!(winners.present(), present);
            let mut copied = Vec::new();
            for (place, (key, value)) in expected.iter().enumerate() {
                winners.copy_key(place, &mut copied);
                assert_eq!((&copied, winners.find(key)), (key, Some(place)));
                let found = winners.record(place).map(|record| {
                    let mut value = Vec::new();
                    record.copy_if(&mut value, |_| true).unwrap();
                    value
                });
                assert_eq!(found.as_deref(), value.as_ref().map(|value| &value[..]));
            }
        }
    }

    #[test]
    fn a_key_that_the_tree_cannot_hold_is_refused() {
        for (fixed, key) in [(true, vec![0; 7]), (true, vec![]), (false, vec![0; 70_000])] {
            let raw_table = raw_table(fixed, IndexKind::default());
            let version = Loaded {
                key: &key,
                value: None,
                stamp: Stamp(1),
            };
            Latest::new(&raw_table)
                .load::<TicToc>(&[version])
                .unwrap_err();
        }
    }

    #[test]
    fn a_table_without_room_for_its_keys_is_named() {
        let keys: Vec<_> = (0..100_000_u64).map(u64::to_be_bytes).collect();
        for index in IndexKind::those_in_build(&[
            "art",
            "bwtree",
            "openbw",
            "blink",
            "masstree",
            "bztree-inplace",
            "art+hash",
        ]) {
            let raw_table = raw_table(true, index);
            raw_table.use_up();
            let latest = Latest::new(&raw_table);
            for key in &keys {
                let version = Loaded {
                    key,
                    value: Some(&[]),
                    stamp: Stamp(1),
                };
                latest.load::<TicToc>(&[version]).unwrap();
            }
            let built = latest.build(2, || Ok(()));
            let Err(OpenError::TableFull { table, index: full }) = built else {
                panic!("{index}: {built:?}");
            };
            assert_eq!((table.as_str(), full), ("accounts", index));
        }
    }

    #[test]
    fn a_watcher_can_stop_the_building() {
        let numbers: Vec<_> = (0..100_000_u64).map(u64::to_be_bytes).collect();
        for calls in [0, 1, 2, 10] {
            let raw_table = raw_table(true, IndexKind::default());
            let latest = Latest::new(&raw_table);
            let versions: Vec<_> = numbers
                .iter()
                .map(|key| Loaded {
                    key,
                    value: Some(&[]),
                    stamp: Stamp(1),
                })
                .collect();
            latest.load::<TicToc>(&versions).unwrap();
            let called = AtomicU32::new(0);
            let stopped = latest.build(2, || {
                if called.fetch_add(1, Ordering::Relaxed) < calls {
                    Ok(())
                } else {
                    Err(OpenError::Interrupted)
                }
            });
            assert!(matches!(stopped, Err(OpenError::Interrupted)), "{calls}");
        }
    }
}
