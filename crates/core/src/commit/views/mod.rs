//! Read views: multiversion snapshots. Which versions commits keep for them, and how a view finds
//! the version of its moment.
//!
//! A view is the state of all tables at a stamp S, a boundary between epochs, which is a serial cut
//! under every protocol. A record holds only its last version; a commit that overwrites a version
//! that a view may still see keeps it elsewhere first.
//!
//! ```text
//!   a view                                      a commit
//!   1. notes the current epoch e                1. registers in the epoch x, its records locked
//!   2. puts itself into the list                2. looks whether there is a list
//!   3. starts over if the epoch is not e        3. of the newest view with e < x: S = floor(e + 1) - 1;
//!   4. closes e, waits until it is finished        keeps each version that it overwrites with a creation <= S
//!   5. S = floor(e + 1) - 1                     4. appends to the log, installs, unlocks, deregisters
//!   6. waits until all up to S is durable
//! ```
//! Steps 1 to 3 of the view and 1 and 2 of the commit are `SeqCst`: a commit that has missed the view is registered in e
//! or before, so it is finished in 4, and what it has written is at or below S. A commit of a later epoch knows S by
//! itself: it could not register before the floor was there.
//!
//! **Which version a view sees.** The record's own, if it was created at or below S. Otherwise the
//! view searches the versions that were kept for it, and then those for the views after it, up to
//! the newest: the first version found is that of its moment. (A version with the stamps \[c, s) is
//! kept for the newest view W with S(W) < s, if c <= S(W). If an older version of the record were
//! kept for a view between, it would have ended at or before c <= S.) If no version is found, the
//! key did not exist.
//!
//! **When a view ends**, the versions that were kept for it are handed on to the next older view if
//! that may see them, and are dropped otherwise. Concurrent readers see that the list's number has
//! changed, and retry.
//!
//! **A checkpoint** goes through its view once, in order: versions of rows that it has written are
//! not kept for it any more.
//!
//! **Memory** is bounded: beyond a limit, the oldest view ends with an error of its own. Commits never fail or wait.
//!
//! # Invariants
//! - V1. A version is kept before the record's lock-holder changes the record.
//! - V2. In a list, the epochs and the stamps rise, and views are added only at its end.
//! - V3. A dropped table stays in memory while a view from before the drop is open: kept versions
//!   are found by their records' addresses.

mod kept_versions;
#[cfg(all(test, loom))]
mod loom_model;
pub(crate) mod uncommitted;
mod version_map;
mod written_through;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use namiki_log::EpochSource;
use namiki_platform::sync::{AtomicBool, Mutex, Ordering, SeqCstU64 as AtomicU64, fence, sleep};
use namiki_platform::{Epoch, Stamp};

use self::kept_versions::{Closed, KeptVersions};
use self::uncommitted::Uncommitted;
use self::written_through::WrittenThrough;
use crate::commit::epoch::Epochs;
use crate::storage::record::{AtStamp, RecordRef};
use crate::table::raw_table::{RawTable, TableId};

/// Between two looks whether a view has ended that has not found its stamp.
const FORGOTTEN_POLL: Duration = Duration::from_micros(10);
/// The capacity that a buffer for copied values keeps, in bytes.
const VALUE_BYTES_KEPT: usize = 4 << 10;
/// Memory is counted in units of this part of the limit, as a power of two, and no larger ones than that.
const UNIT_SHIFT: u32 = 14;
const UNIT_BYTES_MAX: u64 = 64 << 10;

/// The views of a database, and the versions that are kept for them.
pub(crate) struct Views {
    /// The number of the list; 0 while it is empty.
    number: CachePadded<AtomicU64>,
    list: Mutex<Arc<ViewList>>,
    /// The log has refused a commit since views are open: the versions that it has kept may be
    /// there already when it is retried.
    has_refused: CachePadded<AtomicBool>,
    /// Held while a view is ended.
    ending: Mutex<()>,
    /// The memory of all kept versions, and the part of it that is kept for unlimited views. In
    /// two's complement: versions that a commit keeps may be removed before they are counted.
    bytes: AtomicU64,
    unlimited_bytes: AtomicU64,
    bytes_max: u64,
    /// Views that ended because of the limit.
    expired: AtomicU64,
    /// Before-images of records that operations have changed in place.
    pub(crate) uncommitted: Uncommitted,
}

/// The open views, the oldest first.
#[derive(Default)]
struct ViewList {
    number: u64,
    views: Vec<Arc<ViewState>>,
}

/// A cache of the views, which one committer keeps across its commits.
#[derive(Default)]
pub(crate) struct SeenViews {
    /// The views that the last commit has met, if any were open then.
    list: Arc<ViewList>,
    /// Where values are copied. It is empty between commits.
    value: Vec<u8>,
}

impl SeenViews {
    /// The list of the views, which has this number.
    fn list_at(&mut self, number: u64, views: &Views) -> &ViewList {
        if self.list.number != number {
            self.list = views.list();
        }
        &self.list
    }
}

/// One view.
pub(crate) struct ViewState {
    /// Commits of later epochs come after it.
    pub(crate) epoch: Epoch,
    /// The floor of the next epoch, S + 1; 0 until it is known.
    floor: AtomicU64,
    kept: KeptVersions,
    /// For a checkpoint's view: the rows that it does not read any more.
    written: Option<WrittenThrough>,
    /// Whether it ends when kept versions take too much memory. A checkpoint's does not: it keeps
    /// each key once at most, and without it the log would grow.
    is_limited: bool,
    /// Versions that commits overwrite are kept for the next older view.
    is_ending: AtomicBool,
    /// It has ended because of the limit of memory.
    is_expired: AtomicBool,
    /// Tables that were dropped while it was open (V3).
    dropped_tables: Mutex<Vec<Arc<RawTable>>>,
    opened: Instant,
}

/// The versions that a commit is about to overwrite.
#[derive(Clone, Copy)]
pub(crate) struct Overwritten<'w> {
    pub(crate) record: RecordRef,
    pub(crate) table: TableId,
    pub(crate) key: &'w [u8],
}

/// A view has ended, because the versions that were kept for views took too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired;

/// Statistics of read views, see [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewStats {
    /// How many are open.
    pub open: u64,
    /// How many have ended since the database was opened because their kept versions took too much
    /// memory.
    pub expired: u64,
    /// The versions that are kept for them, in bytes.
    pub kept_bytes: u64,
    /// The stamp of the oldest.
    pub oldest_stamp: Option<Stamp>,
    /// How long ago that was opened.
    pub oldest_for: Option<Duration>,
}

impl Views {
    /// No views. Versions that are kept for them may take `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            number: CachePadded::new(AtomicU64::new(0)),
            list: Mutex::default(),
            has_refused: CachePadded::new(AtomicBool::new(false)),
            ending: Mutex::default(),
            bytes: AtomicU64::new(0),
            unlimited_bytes: AtomicU64::new(0),
            bytes_max,
            expired: AtomicU64::new(0),
            uncommitted: Uncommitted::new(),
        }
    }

    /// Adds a view of the current epoch, or of a later one, to the list.
    pub(crate) fn pin(&self, epochs: &Epochs, is_limited: bool) -> Arc<ViewState> {
        loop {
            let epoch = EpochSource::current(epochs);
            let view = Arc::new(ViewState::new(epoch, self.unit_bytes(), is_limited));
            let is_last = self.change_list(|views| {
                // Another one may have been pinned in a later epoch concurrently (V2).
                let is_last = views.last().is_none_or(|last| last.epoch <= epoch);
                if is_last {
                    views.push(Arc::clone(&view));
                }
                is_last
            });
            if is_last && EpochSource::current(epochs) == epoch {
                return view;
            }
            // A commit of a later epoch may have missed it.
            if is_last {
                self.end(&view, epochs);
            }
        }
    }

    /// Adds a view of a replica: of every group that was installed at or below this stamp. No other
    /// is installed meanwhile. Each group is an epoch of its own (`replica/mod.rs`).
    pub(crate) fn pin_at(&self, stamp: Stamp, is_limited: bool) -> Arc<ViewState> {
        let view = ViewState::new(Epoch(stamp.0), self.unit_bytes(), is_limited);
        view.floor.store(stamp.0 + 1, Ordering::Release);
        let view = Arc::new(view);
        self.change_list(|views| views.push(Arc::clone(&view)));
        view
    }

    /// Changes the list, and its number.
    fn change_list<T>(&self, change: impl FnOnce(&mut Vec<Arc<ViewState>>) -> T) -> T {
        let mut list = self.list.lock();
        let mut views = list.views.clone();
        let changed = change(&mut views);
        let number = list.number + 1;
        let is_empty = views.is_empty();
        *list = Arc::new(ViewList { number, views });
        if is_empty {
            self.has_refused.store(false, Ordering::Relaxed);
        }
        self.number
            .store(if is_empty { 0 } else { number }, Ordering::SeqCst);
        changed
    }

    /// Memory is counted in units of this size, so that committers do not share a counter. A small
    /// part of the limit may remain uncounted for each view.
    fn unit_bytes(&self) -> u64 {
        (self.bytes_max >> UNIT_SHIFT).min(UNIT_BYTES_MAX)
    }

    fn list(&self) -> Arc<ViewList> {
        Arc::clone(&self.list.lock())
    }

    /// Ends a view: its kept versions are handed on to the next older one, or dropped.
    pub(crate) fn end(&self, view: &Arc<ViewState>, epochs: &Epochs) {
        let _ending = self.ending.lock();
        let list = self.list();
        let place = list.views.iter().position(|it| Arc::ptr_eq(it, view));
        if let Some(place) = place {
            self.hand_on(epochs, &list.views, place);
        }
    }

    /// Hands the kept versions of a view of the list on, and removes the view.
    fn hand_on(&self, epochs: &Epochs, views: &[Arc<ViewState>], place: usize) {
        let view = &views[place];
        view.is_ending.store(true, Ordering::SeqCst);
        if let Some(older) = place.checked_sub(1).map(|older| &views[older])
            // If it is unknown, no version was kept for a later view.
            && let Some(stamp) = older.known_stamp(epochs)
        {
            self.add_bytes(older, view.kept.hand_on(&older.kept, stamp));
        }
        self.change_list(|views| views.retain(|it| !Arc::ptr_eq(it, view)));
        view.dropped_tables.lock().clear();
        // After the list: a reader that finds nothing here any more sees the new number.
        self.add_bytes(view, -view.kept.clear());
    }

    fn add_bytes(&self, view: &ViewState, more: i64) {
        let unlimited = if view.is_limited { 0 } else { more };
        self.count_bytes(more as u64, unlimited as u64);
    }

    fn count_bytes(&self, more: u64, more_unlimited: u64) {
        if more_unlimited != 0 {
            self.unlimited_bytes
                .fetch_add(more_unlimited, Ordering::Relaxed);
        }
        if more != 0 {
            self.bytes.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The memory of all kept versions, in bytes.
    fn kept_bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Whether a view may see the version that one of these records has: a commit of this epoch that overwrites them all has to
    /// [keep](Self::keep_overwritten) some. It reads nothing but the records.
    pub(crate) fn may_see_any(
        &self,
        epochs: &Epochs,
        epoch: Epoch,
        mut records: impl Iterator<Item = RecordRef>,
        seen: &mut SeenViews,
    ) -> bool {
        let number = self.number.load(Ordering::SeqCst);
        if number == 0 {
            return false;
        }
        let list = seen.list_at(number, self);
        let newest = list.newest_before(epoch, epochs, |_| true);
        newest.is_some_and(|(_, stamp)| records.any(|record| record.creation() <= stamp))
    }

    /// Keeps the versions that a commit is about to overwrite and that a view may see. The commit is registered in
    /// `epoch`, and the records of `writes`, with their tables and keys, are locked. Committers with different numbers
    /// rarely wait for each other.
    #[inline]
    pub(crate) fn keep_overwritten<'w>(
        &self,
        epochs: &Epochs,
        (committer, epoch): (usize, Epoch),
        writes: impl Iterator<Item = Overwritten<'w>>,
        seen: &mut SeenViews,
    ) {
        let number = self.number.load(Ordering::SeqCst);
        if number != 0 {
            self.keep_for_newest(epochs, (committer, epoch), number, writes, seen);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_for_newest<'w>(
        &self,
        epochs: &Epochs,
        (committer, epoch): (usize, Epoch),
        number: u64,
        writes: impl Iterator<Item = Overwritten<'w>>,
        seen: &mut SeenViews,
    ) {
        seen.list_at(number, self);
        let SeenViews { list, value } = seen;
        // No older view sees a newer version, and most versions are newer soon after a view was
        // opened.
        let Some((_, newest_stamp)) = list.newest_before(epoch, epochs, |_| true) else {
            return;
        };
        let has_refused = self.has_refused.load(Ordering::Relaxed);
        let (mut bytes, mut unlimited_bytes) = (0, 0);
        'records: for Overwritten { record, table, key } in writes {
            let creation = record.creation();
            if creation > newest_stamp {
                continue;
            }
            let mut version = None;
            loop {
                let looks_at_it = |view: &ViewState| !view.has_written(table, key);
                let newest = list.newest_before(epoch, epochs, looks_at_it);
                let Some((view, stamp)) = newest else {
                    continue 'records;
                };
                if creation > stamp {
                    continue 'records;
                }
                let version =
                    *version.get_or_insert_with(|| self.copy_version(record, creation, value));
                // A key that never existed is absent without a kept version, too.
                if version == (Stamp(0), false) {
                    continue 'records;
                }
                let (creation, is_present) = version;
                if has_refused && view.kept.has(record, creation) {
                    continue 'records;
                }
                let value = is_present.then_some(&value[..]);
                match view.kept.keep(committer, record, creation, value) {
                    Ok(more) => {
                        bytes += more;
                        unlimited_bytes += if view.is_limited { 0 } else { more };
                        continue 'records;
                    }
                    Err(Closed) => *list = self.list(),
                }
            }
        }
        self.count_bytes(bytes, unlimited_bytes);
        // Large values are not kept in memory for long.
        value.clear();
        value.shrink_to(VALUE_BYTES_KEPT);
    }

    /// Copies the version that is there of a record that is locked, without what a transaction has made of it. Returns its
    /// stamp, and whether the key was there.
    fn copy_version(
        &self,
        record: RecordRef,
        creation: Stamp,
        value: &mut Vec<u8>,
    ) -> (Stamp, bool) {
        if record.is_uncommitted() {
            let before = self.uncommitted.get(record);
            let before =
                before.unwrap_or_else(|| unreachable!("it was put there before the change"));
            return (before.creation, before.copy_to(value).is_some());
        }
        let Some(present) = record.copy_if(value, |_| true) else {
            unreachable!("the record is locked, so it does not change");
        };
        (creation, !present.absent)
    }

    /// The log has refused a commit that has already kept the versions which it was to overwrite.
    #[cold]
    pub(crate) fn commit_refused(&self, epochs: &Epochs) {
        if self.number.load(Ordering::Relaxed) != 0 {
            self.has_refused.store(true, Ordering::Relaxed);
            self.enforce_limit(epochs);
        }
    }

    /// Ends the oldest views if kept versions take too much memory. The caller must hold no locks,
    /// because it may take long.
    #[inline]
    pub(crate) fn enforce_limit(&self, epochs: &Epochs) {
        if self.kept_bytes() > self.bytes_max {
            self.expire_oldest(epochs);
        }
    }

    fn is_beyond_limit(&self) -> bool {
        let unlimited = self.unlimited_bytes.load(Ordering::Relaxed);
        let limited = self.bytes.load(Ordering::Relaxed).wrapping_sub(unlimited);
        (limited as i64).max(0) as u64 > self.bytes_max
    }

    #[cold]
    fn expire_oldest(&self, epochs: &Epochs) {
        // One thread is enough.
        let Some(_ending) = self.ending.try_lock() else {
            return;
        };
        while self.is_beyond_limit() {
            let list = self.list();
            let Some(place) = list.views.iter().position(|view| view.is_limited) else {
                return;
            };
            let view = &list.views[place];
            view.is_expired.store(true, Ordering::SeqCst);
            self.hand_on(epochs, &list.views, place);
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Copies the version of a record into `out` that a view sees; returns its stamp, if the key was there.
    ///
    /// # Errors
    /// [`Expired`].
    pub(crate) fn read(
        &self,
        view: &ViewState,
        stamp: Stamp,
        record: RecordRef,
        out: &mut Vec<u8>,
    ) -> Result<Option<Stamp>, Expired> {
        loop {
            if let AtStamp::Version(version) = record.copy_at(stamp, out) {
                return Ok(version);
            }
            let creation = if record.is_uncommitted() {
                match self.uncommitted.get(record) {
                    Some(version) if version.creation <= stamp => return Ok(version.copy_to(out)),
                    Some(version) => version.creation,
                    // It has ended concurrently.
                    None => continue,
                }
            } else {
                record.creation()
            };
            if creation <= stamp {
                continue;
            }
            // Pairs with the Release fence in `install`: the version that a newer one has
            // overwritten is kept by now.
            fence(Ordering::Acquire);
            // Before the first search: versions that are handed on later, with a new number, would
            // be missed.
            let number = self.number.load(Ordering::SeqCst);
            if let Some(version) = view.kept.copy(record, stamp, out) {
                return Ok(version);
            }
            if let Some(version) = self.list().find(view, record, stamp, out) {
                return Ok(version);
            }
            if view.is_expired.load(Ordering::SeqCst) {
                return Err(Expired);
            }
            // A key that was not found did not exist, unless a view has ended during the search.
            if self.number.load(Ordering::SeqCst) == number {
                return Ok(None);
            }
        }
    }

    /// A checkpoint has written a record, and does not read it again: its kept version is dropped,
    /// unless an older view may search for it here.
    pub(crate) fn forget_written(&self, view: &ViewState, stamp: Stamp, record: RecordRef) {
        let is_overwritten = record.creation() > stamp || record.is_uncommitted();
        if is_overwritten && (self.list().views.first()).is_some_and(|it| std::ptr::eq(&**it, view))
        {
            self.add_bytes(view, -(view.kept.remove(record) as i64));
        }
    }

    /// The epoch of the oldest view, if there is one. A view that is missed here closes an epoch that is the current one now,
    /// or a later one.
    pub(crate) fn oldest_epoch(&self) -> Option<Epoch> {
        // SeqCst, as is the view's second look at the epoch, which comes after it is in the list.
        if self.number.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.list().views.first().map(|view| view.epoch)
    }

    /// Keeps a table in memory that is dropped, as long as a view may see it (V3).
    pub(crate) fn keep_dropped_table(&self, raw_table: &Arc<RawTable>) {
        for view in &self.list().views {
            view.dropped_tables.lock().push(Arc::clone(raw_table));
        }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn stats(&self) -> ViewStats {
        let list = self.list();
        let oldest = list.views.first();
        ViewStats {
            open: list.views.len() as u64,
            expired: self.expired.load(Ordering::Relaxed),
            kept_bytes: list.views.iter().map(|view| view.kept.bytes()).sum(),
            oldest_stamp: oldest.and_then(|it| it.stamp()),
            oldest_for: oldest.map(|it| it.opened.elapsed()),
        }
    }
}

impl ViewList {
    /// The newest view that a commit of this epoch comes after and that still looks at the key, and its stamp.
    fn newest_before(
        &self,
        epoch: Epoch,
        epochs: &Epochs,
        looks_at_it: impl Fn(&ViewState) -> bool,
    ) -> Option<(&ViewState, Stamp)> {
        let before = self.views.iter().rev();
        let mut before = before.filter(|view| view.epoch < epoch && looks_at_it(view));
        before.find_map(|view| Some((&**view, view.stamp_unless_ended(epochs)?)))
    }

    /// Copies the version of a record that is kept for the views after this one.
    fn find(
        &self,
        view: &ViewState,
        record: RecordRef,
        stamp: Stamp,
        out: &mut Vec<u8>,
    ) -> Option<Option<Stamp>> {
        let mut newer = self.views.iter().map(|it| &**it);
        newer.find(|it| std::ptr::eq(*it, view))?;
        newer.find_map(|it| it.kept.copy(record, stamp, out))
    }
}

impl ViewState {
    /// One whose stamp is not known yet.
    fn new(epoch: Epoch, unit_bytes: u64, is_limited: bool) -> Self {
        Self {
            epoch,
            floor: AtomicU64::new(0),
            kept: KeptVersions::new(unit_bytes),
            written: (!is_limited).then(WrittenThrough::default),
            is_limited,
            is_ending: AtomicBool::new(false),
            is_expired: AtomicBool::new(false),
            dropped_tables: Mutex::default(),
            opened: Instant::now(),
        }
    }

    /// Everything up to this key of the table is written, by a checkpoint that goes through all tables in order; without a
    /// key, all of the table.
    pub(crate) fn set_written(&self, table: TableId, key: Option<&[u8]>) {
        if let Some(written) = &self.written {
            written.set(table, key);
        }
    }

    /// Whether a checkpoint does not look at a key any more.
    fn has_written(&self, table: TableId, key: &[u8]) -> bool {
        (self.written.as_ref()).is_some_and(|written| written.has(table, key))
    }

    /// Whether it has ended because of the limit of memory.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::SeqCst)
    }

    fn stamp(&self) -> Option<Stamp> {
        let floor = self.floor.load(Ordering::Acquire);
        Some(Stamp(floor.checked_sub(1)?))
    }

    /// S, computed by a thread that knows that the epoch is over. `None` if the view has ended, or
    /// is about to.
    fn stamp_unless_ended(&self, epochs: &Epochs) -> Option<Stamp> {
        while !self.is_ending.load(Ordering::SeqCst) {
            let stamp = self.known_stamp(epochs);
            if stamp.is_some() {
                return stamp;
            }
            // A thousand epochs have passed: its owner finds that, too, and ends it.
            sleep(FORGOTTEN_POLL);
        }
        None
    }

    /// S, if the epoch is over and its floor is not forgotten.
    pub(crate) fn known_stamp(&self, epochs: &Epochs) -> Option<Stamp> {
        if let Some(stamp) = self.stamp() {
            return Some(stamp);
        }
        let floor = epochs.known_floor_after(self.epoch)?;
        // Whichever thread comes first, it is the same.
        self.floor.store(floor.0, Ordering::Release);
        self.stamp()
    }
}

#[cfg(all(test, not(loom)))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::commit::epoch::SlotId;
    use crate::storage::arena::Arena;

    struct World {
        epochs: Epochs,
        views: Views,
        record: RecordRef,
        _arena: Arena,
    }

    impl World {
        fn new() -> Self {
            let arena = Arena::default();
            Self {
                epochs: Epochs::new(Stamp(1), Duration::MAX),
                views: Views::new(u64::MAX),
                record: arena.record(8, 0),
                _arena: arena,
            }
        }

        /// Puts a number into the record, which is table 5's under the key `k`.
        fn put(&self, number: u64) {
            let slot = self.epochs.acquire().unwrap();
            let stamp = self.keep(slot);
            self.record.install(Some(&number.to_ne_bytes()), stamp);
            self.epochs.deregister(slot);
            self.epochs.release(slot);
        }

        /// Registers a commit that overwrites the record, and keeps what views may see. Returns its stamp.
        fn keep(&self, slot: SlotId) -> Stamp {
            let above = Stamp(self.record.creation().0 + 1);
            let (epoch, stamp) = self.epochs.register(slot, |floor| floor.max(above));
            let overwritten = Overwritten {
                record: self.record,
                table: TableId(5),
                key: b"k",
            };
            let writes = std::iter::once(overwritten);
            let mut seen = SeenViews::default();
            self.views
                .keep_overwritten(&self.epochs, (slot.number(), epoch), writes, &mut seen);
            stamp
        }

        /// Ends the last views: the counted memory is zero then.
        fn end_all(&self, views: impl IntoIterator<Item = (Arc<ViewState>, Stamp)>) {
            for (view, _) in views {
                self.views.end(&view, &self.epochs);
            }
            let counted = [&self.views.bytes, &self.views.unlimited_bytes];
            assert_eq!(counted.map(|it| it.load(Ordering::Relaxed)), [0, 0]);
        }

        fn view(&self, is_limited: bool) -> (Arc<ViewState>, Stamp) {
            let view = self.views.pin(&self.epochs, is_limited);
            self.epochs.close(view.epoch);
            let stamp = view.known_stamp(&self.epochs).unwrap();
            (view, stamp)
        }

        fn read(&self, (view, stamp): &(Arc<ViewState>, Stamp)) -> u64 {
            let mut value = Vec::new();
            let read = self.views.read(view, *stamp, self.record, &mut value);
            read.unwrap().unwrap();
            u64::from_ne_bytes(value.try_into().unwrap())
        }
    }

    #[test]
    fn nothing_is_kept_for_what_a_checkpoint_has_written() {
        let world = World::new();
        world.put(1);
        let checkpoint = world.view(false);
        checkpoint.0.set_written(TableId(5), Some(b"j"));
        world.put(2);
        assert_eq!(world.read(&checkpoint), 1);
        assert!(world.views.stats().kept_bytes > 0);
        world
            .views
            .forget_written(&checkpoint.0, checkpoint.1, world.record);
        assert_eq!(world.views.stats().kept_bytes, 0);
        let next = world.view(false);
        next.0.set_written(TableId(5), Some(b"k"));
        world.put(3);
        assert_eq!(world.views.stats().kept_bytes, 0);
        world.end_all([checkpoint, next]);
    }

    #[test]
    fn a_commit_that_is_tried_again_keeps_nothing_more() {
        let world = World::new();
        world.put(1);
        let view = world.view(true);
        let keep = || {
            let slot = world.epochs.acquire().unwrap();
            world.keep(slot);
            world.epochs.deregister(slot);
            world.epochs.release(slot);
            world.views.commit_refused(&world.epochs);
        };
        keep();
        let bytes = world.views.stats().kept_bytes;
        assert!(bytes > 0);
        for _ in 0..10 {
            keep();
        }
        assert_eq!(world.views.stats().kept_bytes, bytes);
        world.put(2);
        assert_eq!(world.views.stats().kept_bytes, bytes);
        assert_eq!(world.read(&view), 1);
        world.end_all([view]);
    }

    #[test]
    fn what_a_checkpoint_has_written_is_kept_for_older_views() {
        let world = World::new();
        world.put(1);
        let older = world.view(true);
        let checkpoint = world.view(false);
        world.put(2);
        // It is found among the versions that are kept for the checkpoint.
        world
            .views
            .forget_written(&checkpoint.0, checkpoint.1, world.record);
        assert_eq!(world.read(&older), 1);
        world.views.end(&checkpoint.0, &world.epochs);
        assert_eq!(world.read(&older), 1);

        let world = World::new();
        world.put(1);
        let older = world.view(true);
        let checkpoint = world.view(false);
        checkpoint.0.set_written(TableId(6), Some(b""));
        world.put(2);
        world.put(3);
        assert_eq!(world.read(&older), 1);
        world.views.end(&older.0, &world.epochs);
        assert_eq!(world.views.stats().kept_bytes, 0);
    }
}
