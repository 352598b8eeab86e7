//! The queue of absent keys that still have a record in the index: they are to be taken out of it
//! (`removal.rs`), in the order in which they may be.

use std::collections::VecDeque;
use std::ops::Range;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{AtomicUsize, Mutex, Ordering, SeqCstU64 as AtomicU64};
use namiki_platform::{Epoch, Stamp};
use smallvec::SmallVec;

use crate::storage::free_large_buffers::{LARGE_BYTES, Sizes, free_if_large};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Resolved, TableId};

/// Keys are taken out of the indexes in batches of this size: a scan that has read their leaf meets
/// one conflict for all.
pub(super) const REMOVED_BATCH: usize = 64;
/// The most keys that one commit takes out. If this number waits, transactions that fail take some
/// out, too.
pub(super) const MANY_REMOVED: usize = 1024;

/// A key with a record that has no value.
#[derive(Debug)]
pub(crate) struct RemovedKey {
    pub(crate) table: TableId,
    pub(crate) record: RecordRef,
    /// That of the deletion; 0 if the record has never had a version.
    pub(crate) creation: Stamp,
    /// The deletion was committed in this epoch or before.
    pub(crate) epoch: Epoch,
    pub(crate) key: SmallVec<[u8; 16]>,
}

/// The removed keys of a database.
pub(crate) struct RemovedKeys {
    waiting: Mutex<Waiting>,
    deleted_count: CachePadded<AtomicUsize>,
    all_count: AtomicUsize,
    taken_out: CachePadded<AtomicU64>,
    through: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    deleted: VecDeque<RemovedKey>,
    /// Keys that no transaction has given a version yet. The next attempt often does.
    tried: VecDeque<RemovedKey>,
}

/// The keys that are to be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Those that were deleted.
    Deleted,
    /// Those that no transaction has given a version, too.
    All,
}

impl RemovedKeys {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            deleted_count: CachePadded::new(AtomicUsize::new(0)),
            all_count: AtomicUsize::new(0),
            taken_out: CachePadded::new(AtomicU64::new(0)),
            through: AtomicU64::new(0),
        }
    }

    /// How many records had to be given up by their keys. A transaction that misses a key in an index that was there sees that
    /// this has changed, and that the record is not current any more (`Transaction::check_own_writes`).
    #[inline]
    pub(crate) fn taken_out(&self) -> u64 {
        self.taken_out.load(Ordering::Acquire)
    }

    /// No key that was deleted above this stamp has been taken out of an index. Read after a key
    /// was missed.
    #[inline]
    pub(crate) fn through(&self) -> Stamp {
        Stamp(self.through.load(Ordering::SeqCst))
    }

    /// How many are waiting.
    #[inline]
    pub(crate) fn waiting(&self, which: Taken) -> usize {
        match which {
            Taken::Deleted => self.deleted_count.load(Ordering::Relaxed),
            Taken::All => self.all_count.load(Ordering::Relaxed),
        }
    }

    fn count(&self, waiting: &Waiting) {
        let deleted = waiting.deleted.len();
        self.deleted_count.store(deleted, Ordering::Relaxed);
        let all = deleted + waiting.tried.len();
        self.all_count.store(all, Ordering::Relaxed);
    }

    /// Notes keys that were deleted in `epoch` or before; returns how many there were.
    pub(crate) fn note<'k>(
        &self,
        epoch: Epoch,
        keys: impl Iterator<Item = (TableId, RecordRef, Stamp, &'k [u8])>,
    ) -> usize {
        let mut waiting = self.waiting.lock();
        let mut noted = 0;
        for (table, record, creation, key) in keys {
            waiting.put(RemovedKey {
                table,
                record,
                creation,
                epoch,
                key: SmallVec::from_slice(key),
            });
            noted += 1;
        }
        self.count(&waiting);
        noted
    }

    /// A key that could not be taken out now: it is queued behind the others.
    pub(crate) fn put_back(&self, epoch: Epoch, removed: RemovedKey) {
        let mut waiting = self.waiting.lock();
        waiting.put(RemovedKey { epoch, ..removed });
        self.count(&waiting);
    }

    /// Takes some of those out that were noted through an epoch.
    pub(crate) fn take(
        &self,
        through: Epoch,
        most: usize,
        which: Taken,
    ) -> SmallVec<[RemovedKey; 8]> {
        let mut taken = SmallVec::new();
        let mut waiting = self.waiting.lock();
        let Waiting { deleted, tried } = &mut *waiting;
        take_from(deleted, through, most, &mut taken);
        if which == Taken::All {
            take_from(tried, through, most, &mut taken);
        }
        self.count(&waiting);
        taken
    }

    /// A key is about to be taken out that was deleted at this stamp.
    pub(crate) fn begin(&self, creation: Stamp) {
        self.through.fetch_max(creation.0, Ordering::SeqCst);
    }

    /// The incarnation of a record has ended, because its key is about to leave the index.
    pub(crate) fn count_taken_out(&self) {
        self.taken_out.fetch_add(1, Ordering::SeqCst);
    }
}

impl Waiting {
    fn put(&mut self, removed: RemovedKey) {
        match removed.creation {
            Stamp(0) => self.tried.push_back(removed),
            _ => self.deleted.push_back(removed),
        }
    }
}

fn take_from(
    waiting: &mut VecDeque<RemovedKey>,
    through: Epoch,
    most: usize,
    taken: &mut SmallVec<[RemovedKey; 8]>,
) {
    while taken.len() < most
        && let Some(removed) = waiting.pop_front_if(|removed| removed.epoch <= through)
    {
        taken.push(removed);
    }
    // A large batch is unlikely to recur soon.
    if waiting.capacity() > 1024 && waiting.len() < waiting.capacity() / 8 {
        waiting.shrink_to(2 * waiting.len());
    }
}

/// The records that a transaction has put into an index: if it does not give them a version, they stay without a value.
#[derive(Default)]
pub(crate) struct NewRecords {
    records: Vec<(TableId, RecordRef, Range<usize>)>,
    keys: Vec<u8>,
}

impl NewRecords {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Notes the record of a key if it was made just now.
    #[inline]
    pub(crate) fn note_if_new(&mut self, table: TableId, resolved: &Resolved, key: &[u8]) {
        let Resolved::New { record, .. } = *resolved else {
            return;
        };
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.records.push((table, record, start..self.keys.len()));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<RecordRef> {
        self.records.last().map(|(_, record, _)| *record)
    }

    /// Keeps the first `kept` ones.
    pub(crate) fn truncate(&mut self, kept: usize) {
        self.records.truncate(kept);
        let end = self.records.last().map_or(0, |(_, _, key)| key.end);
        self.keys.truncate(end);
    }

    /// Those after the first `from` ones that were left without a version, as [`RemovedKeys::note`] wants them.
    pub(crate) fn left(
        &self,
        from: usize,
        has_version: impl Fn(RecordRef) -> bool,
    ) -> impl Iterator<Item = (TableId, RecordRef, Stamp, &[u8])> {
        let left = self.records[from..].iter();
        let left = left.filter(move |(_, record, _)| !has_version(*record));
        left.map(|(table, record, key)| (*table, *record, Stamp(0), &self.keys[key.clone()]))
    }

    /// Clears the list, and frees the buffers if they are large.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.keys.clear();
        self.free_large_buffers(LARGE_BYTES);
    }

    /// The sizes of the buffers that are kept.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::default().with(&self.records).with(&self.keys)
    }

    /// Frees the buffers that have become large. The list is empty.
    pub(crate) fn free_large_buffers(&mut self, large_bytes: usize) {
        free_if_large(&mut self.records, large_bytes);
        free_if_large(&mut self.keys, large_bytes);
    }
}
