//! The versions that commits have overwritten while a view was the newest one.
//!
//! A commit appends them to a list that few other threads use: it does not pay for a map that may
//! never be read, and shares no cache line with other lists. A reader first moves the lists into a
//! map. Closed lists take no further version: theirs were handed on to the next older view, and
//! later ones are added there, too.

use std::mem::{size_of, swap, take};

use crossbeam_utils::CachePadded;
use namiki_platform::Stamp;
use namiki_platform::sync::{Mutex, Ordering, SeqCstU64 as AtomicU64};

use super::version_map::{KeptVersion, VersionMap, version_bytes};
use crate::storage::record::RecordRef;

/// A power of two, and no more than there are bits in a word.
const LISTS: usize = if cfg!(loom) { 1 } else { 32 };
/// The most versions in a piece of a list. A piece is also full once its values have `PIECE_BYTES`
/// bytes.
const PIECE_VERSIONS: usize = 4 << 10;
const PIECE_BYTES: usize = 256 << 10;
/// An emptied piece that could hold more bytes is freed.
const SPARE_BYTES_MAX: usize = 64 << 10;

/// The lists are closed: the version belongs to an older view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// The versions that were kept for a view and the older ones.
pub(super) struct KeptVersions {
    lists: Box<[CachePadded<List>]>,
    /// A bit for each list that may have something that is not in the map yet. It changes under the list's lock.
    unmoved: CachePadded<AtomicU64>,
    map: VersionMap,
    /// Bytes that were reported to the callers, less those that were removed. In two's complement.
    counted_bytes: AtomicU64,
    /// Bytes are reported to the callers in units of this size.
    unit_bytes: u64,
}

/// Versions in the order in which some committers have kept them.
struct List {
    /// Held while its versions are moved into the map: an emptied list, to be filled again.
    moving: Mutex<VersionList>,
    state: Mutex<ListState>,
}

struct ListState {
    is_closed: bool,
    versions: VersionList,
    /// Bytes that were not reported to the callers yet.
    uncounted_bytes: u64,
}

/// Versions in pieces: none is moved in memory when there are more.
#[derive(Default)]
struct VersionList {
    full: Vec<Piece>,
    last: Piece,
}

#[derive(Default)]
struct Piece {
    entries: Vec<Listed>,
    /// The values of all, one after the other.
    values: Vec<u8>,
}

struct Listed {
    record: RecordRef,
    creation: Stamp,
    /// `None`: the key was absent.
    value_len: Option<u32>,
}

impl KeptVersions {
    /// No versions. Memory is reported to the callers in units of `unit_bytes` bytes.
    pub(super) fn new(unit_bytes: u64) -> Self {
        let list = || List {
            moving: Mutex::new(VersionList::default()),
            state: Mutex::new(ListState {
                is_closed: false,
                versions: VersionList::default(),
                uncounted_bytes: 0,
            }),
        };
        Self {
            lists: (0..LISTS).map(|_| CachePadded::new(list())).collect(),
            unmoved: CachePadded::new(AtomicU64::new(0)),
            map: VersionMap::new(),
            counted_bytes: AtomicU64::new(0),
            unit_bytes,
        }
    }

    /// Keeps a version; of those of a record that a view may see, the newest is the one. Committers with different numbers
    /// rarely wait for each other. Returns how many bytes more are to be counted.
    pub(super) fn keep(
        &self,
        committer: usize,
        record: RecordRef,
        creation: Stamp,
        value: Option<&[u8]>,
    ) -> Result<u64, Closed> {
        let number = committer & (LISTS - 1);
        let mut state = self.lists[number].state.lock();
        if state.is_closed {
            return Err(Closed);
        }
        if state.versions.is_empty() {
            // Release, as is the removal: a reader that finds no bit finds in the map what was kept before.
            self.unmoved.fetch_or(1 << number, Ordering::Release);
        }
        state.versions.add(record, creation, value);
        state.uncounted_bytes += version_bytes(value);
        if state.uncounted_bytes < self.unit_bytes {
            return Ok(0);
        }
        let more = take(&mut state.uncounted_bytes);
        self.counted_bytes.fetch_add(more, Ordering::Relaxed);
        Ok(more)
    }

    /// The map, with all that was kept before this call.
    fn map(&self) -> &VersionMap {
        // A reader that has seen what a commit has made of a record finds that commit's bit: the fences of the record order
        // them. These are not the model checker's; it takes no older value with SeqCst.
        let mut unmoved = self.unmoved.load(Ordering::SeqCst);
        while unmoved != 0 {
            self.move_to_map(unmoved.trailing_zeros() as usize);
            unmoved &= unmoved - 1;
        }
        &self.map
    }

    #[cold]
    fn move_to_map(&self, number: usize) {
        let list = &self.lists[number];
        // A concurrent reader that finds the bit set waits here.
        let mut moved = list.moving.lock();
        // Committers are not blocked from here on.
        swap(&mut *moved, &mut list.state.lock().versions);
        moved.empty(|record, version| self.map.put(record, version));
        let state = list.state.lock();
        if state.versions.is_empty() {
            self.unmoved.fetch_and(!(1 << number), Ordering::Release);
        }
    }

    /// Copies the kept version of a record into `out`, if one is at or below `stamp`; returns its
    /// own stamp if it has a value.
    pub(super) fn copy(
        &self,
        record: RecordRef,
        stamp: Stamp,
        out: &mut Vec<u8>,
    ) -> Option<Option<Stamp>> {
        self.map().copy(record, stamp, out)
    }

    /// Whether this version of a record is kept.
    pub(super) fn has(&self, record: RecordRef, creation: Stamp) -> bool {
        let kept = self.map().creation_of(record);
        kept.is_some_and(|kept| kept == creation)
    }

    /// Drops the version of one record. Returns how many bytes are to be counted less.
    pub(super) fn remove(&self, record: RecordRef) -> u64 {
        let bytes = self.map().remove(record);
        self.counted_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Hands the versions that the next older view, at `stamp`, may see on to `older`, and closes
    /// this. The versions stay here, too, for readers that have searched the older view before.
    /// Returns how many bytes more are to be counted for the older one.
    pub(super) fn hand_on(&self, older: &Self, stamp: Stamp) -> i64 {
        for list in &self.lists {
            list.state.lock().is_closed = true;
        }
        let more = self.map().copy_all(stamp, &older.map);
        older
            .counted_bytes
            .fetch_add(more as u64, Ordering::Relaxed);
        more
    }

    /// Drops all versions, and accepts no more. Returns how many bytes are to be counted less.
    pub(super) fn clear(&self) -> i64 {
        for list in &self.lists {
            let mut moving = list.moving.lock();
            let mut state = list.state.lock();
            state.is_closed = true;
            state.uncounted_bytes = 0;
            let forgotten = (take(&mut *moving), take(&mut state.versions));
            drop((state, moving));
            // Without the locks: it may take long.
            drop(forgotten);
        }
        self.map.clear();
        self.counted_bytes.swap(0, Ordering::Relaxed) as i64
    }

    /// The memory of the kept versions, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let lists = self.lists.iter();
        let uncounted: u64 = lists.map(|list| list.state.lock().uncounted_bytes).sum();
        let counted = self.counted_bytes.load(Ordering::Relaxed);
        // Versions that were kept and removed between the two reads would make the sum negative.
        (counted.wrapping_add(uncounted) as i64).max(0) as u64
    }
}

impl VersionList {
    fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.entries.is_empty()
    }

    fn add(&mut self, record: RecordRef, creation: Stamp, value: Option<&[u8]>) {
        if self.last.is_full() {
            let next = Piece {
                entries: Vec::with_capacity(PIECE_VERSIONS),
                values: Vec::new(),
            };
            self.full.push(std::mem::replace(&mut self.last, next));
        }
        self.last.add(record, creation, value);
    }

    /// Shows all versions, and forgets each piece then.
    fn empty(&mut self, mut visit: impl FnMut(RecordRef, KeptVersion)) {
        for piece in self.full.drain(..) {
            piece.visit(&mut visit);
        }
        self.last.visit(&mut visit);
        self.last.clear();
    }
}

impl Piece {
    fn is_full(&self) -> bool {
        self.entries.len() >= PIECE_VERSIONS || self.values.len() >= PIECE_BYTES
    }

    fn add(&mut self, record: RecordRef, creation: Stamp, value: Option<&[u8]>) {
        self.entries.push(Listed {
            record,
            creation,
            // No value is longer than `VALUE_BYTES_MAX`.
            value_len: value.map(|value| value.len() as u32),
        });
        self.values.extend_from_slice(value.unwrap_or_default());
    }

    fn visit(&self, visit: &mut impl FnMut(RecordRef, KeptVersion)) {
        let mut values = &self.values[..];
        for entry in &self.entries {
            let (value, rest) = values.split_at(entry.value_len.unwrap_or(0) as usize);
            let value = entry.value_len.map(|_| value);
            visit(entry.record, KeptVersion::new(entry.creation, value));
            values = rest;
        }
    }

    /// A small buffer keeps its memory.
    fn clear(&mut self) {
        let bytes = self.entries.capacity() * size_of::<Listed>() + self.values.capacity();
        if bytes > SPARE_BYTES_MAX {
            *self = Self::default();
        }
        self.entries.clear();
        self.values.clear();
    }
}

#[cfg(all(test, not(loom)))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering as Order};

    use super::*;
    use crate::storage::arena::Arena;

    impl KeptVersions {
        fn keep_version(&self, committer: usize, record: RecordRef, creation: u64) -> u64 {
            let value = creation.to_ne_bytes();
            let kept = self.keep(committer, record, Stamp(creation), Some(&value));
            kept.unwrap()
        }

        fn creation_of(&self, record: RecordRef) -> Option<Stamp> {
            self.copy(record, Stamp::MAX, &mut Vec::new())?
        }
    }

    #[test]
    fn the_newest_version_is_kept_if_readers_look_meanwhile() {
        let arena = Arena::default();
        let (record, other) = (arena.record(8, 0), arena.record(8, 0));
        for (looks_between, unit_bytes) in [(false, 0), (true, 0), (true, 100), (false, 1 << 20)] {
            let kept = KeptVersions::new(unit_bytes);
            let older = KeptVersions::new(unit_bytes);
            let mut out = Vec::new();
            let mut counted = kept.keep_version(0, other, 1) as i64;
            for (committer, creation) in [(0, 5), (1, 3), (2, 7), (LISTS, 6)] {
                counted += kept.keep_version(committer, record, creation) as i64;
                if looks_between {
                    assert!(kept.copy(record, Stamp(9), &mut out).is_some());
                }
            }
            assert!(kept.bytes() >= 2 * version_bytes(Some(&[0; 8])));
            assert!(kept.has(record, Stamp(7)) && !kept.has(record, Stamp(5)));
            assert_eq!(kept.copy(record, Stamp(6), &mut out), None);
            assert_eq!(kept.copy(record, Stamp(7), &mut out), Some(Some(Stamp(7))));
            assert_eq!(out, 7_u64.to_ne_bytes());
            counted -= kept.remove(other) as i64;
            assert_eq!(kept.creation_of(other), None);
            let handed_on = kept.hand_on(&older, Stamp(7));
            assert_eq!(older.creation_of(record), Some(Stamp(7)));
            let refused = kept.keep(0, record, Stamp(8), None);
            assert_eq!(refused, Err(Closed));
            // The counted bytes are the ones that are removed.
            assert_eq!((kept.clear(), older.clear()), (counted, handed_on));
            assert_eq!((kept.bytes(), older.bytes()), (0, 0));
            assert_eq!(kept.creation_of(record), None);
        }
    }

    #[test]
    fn what_was_kept_is_found_while_others_look_and_keep() {
        let arena = Arena::default();
        // More than two pieces of each.
        let records: Vec<_> = (0..5 * PIECE_VERSIONS)
            .map(|_| arena.record(8, 0))
            .collect();
        let kept = KeptVersions::new(1 << 10);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let committers: Vec<_> = (0..2)
                .map(|committer| {
                    let (kept, records) = (&kept, &records);
                    scope.spawn(move || {
                        for (number, record) in
                            records.iter().enumerate().skip(committer).step_by(2)
                        {
                            let creation = number as u64 + 1;
                            kept.keep_version(committer, *record, creation);
                            assert_eq!(kept.creation_of(*record), Some(Stamp(creation)));
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !is_over.load(Order::Relaxed) {
                    kept.creation_of(records[0]);
                }
            });
            for committer in committers {
                committer.join().unwrap();
            }
            is_over.store(true, Order::Relaxed);
        });
        for (number, record) in (1..).zip(&records) {
            assert_eq!(kept.creation_of(*record), Some(Stamp(number)));
        }
        let all = records.len() as u64 * version_bytes(Some(&[0; 8]));
        assert_eq!(kept.bytes(), all);
    }
}
