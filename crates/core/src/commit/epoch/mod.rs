//! Epochs and floors: where stamps are cut into stretches without a shared counter.
//!
//! Every commit that writes belongs to one epoch, and its stamp lies at or above the epoch's
//! **floor**: stamp < floor(e+1) if and only if its epoch is e or earlier.
//!
//! ```text
//!   stamps   … ──┬──────────────┬──────────────┬─► …
//!                floor(e)       floor(e+1)     floor(e+2)
//!   commits      └── epoch e ──┘└─ epoch e+1 ─┘
//! ```
//!
//! A committer registers when its locks are held and before it validates: it reads the epoch and its floor, computes
//! its stamp, publishes both in its slot, and reads the epoch again. If that moved, it starts over. A closer of e
//! stores e+1 first, *then* reads all slots, *then* publishes floor(e+1) = 1 + the largest stamp. All of these are
//! `SeqCst`, so either the committer sees the epoch move, or the closer sees the committer's stamp.
//!
//! Any thread may finish a half-done change of epoch: a committer that finds the epoch ahead of its floor does so,
//! rather than wait for a thread that may not have a processor. Committers close epochs that are old enough; without
//! commits, none passes.
//!
//! An epoch is **finished** when it is closed and no committer is registered in it or before. The check reads the
//! epoch first, and of each slot the stamp before the epoch: the swap of a stamp by a committer that stayed
//! registered comes before the closing in the order of all `SeqCst` accesses, so it is seen, and with it the slot's
//! epoch that was stored before it. A slot's epoch is always stored with `Release`: a reader of it, or of the 0 of
//! the end, sees the commits that came before.
//!
//! Design: what is finished is what a log can prove durable; see decision 0023.

#[cfg(all(test, loom))]
mod loom_model;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use namiki_log::EpochSource;
use namiki_platform::per_worker_counters::Counter;
use namiki_platform::sync::{
    AtomicBool, AtomicUsize, Mutex, Ordering, SeqCstU64 as AtomicU64, fence,
};
use namiki_platform::{Epoch, Stamp};

use crate::error::Conflict;

/// Slots are allocated in blocks, so that adding one moves none. (These sizes are minimal under the
/// model checker, which allocates everything anew for each run.)
const BLOCK_SLOTS: usize = if cfg!(loom) { 2 } else { 64 };
const BLOCKS: usize = if cfg!(loom) { 2 } else { 1024 };
/// The floor's word keeps this many low bits of its epoch next to the 48 bits of the stamp.
const EPOCH_BITS: u32 = 16;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;
/// The number of floors that are remembered.
const FLOORS: usize = if cfg!(loom) { 4 } else { 1024 };
/// The number of counts of a committer between two reads of the clock.
const COUNTS_PER_CLOCK: u64 = 64;

struct Slot {
    taken: AtomicBool,
    /// The epoch its owner is committing in, or 0.
    epoch: AtomicU64,
    /// The largest stamp its owners have ever published.
    stamp: AtomicU64,
    counts: [Counter; Count::ALL],
}

impl Slot {
    fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            counts: Default::default(),
        }
    }
}

/// The counters of a committer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Commits that wrote.
    Committed,
    /// Commits that only read.
    ReadOnly,
    // Attempts that ended in a conflict of each kind.
    WriteLocked,
    ReadLocked,
    ReadChanged,
    Wounded,
    Phantom,
    /// Rounds of locking a commit's writes that met a lock that stayed taken.
    FailedLock,
    /// Bytes of keys and values that commits have changed.
    ChangedBytes,
}

impl Count {
    const ALL: usize = 9;
}

impl From<&Conflict> for Count {
    fn from(conflict: &Conflict) -> Self {
        match conflict {
            Conflict::WriteLocked => Self::WriteLocked,
            Conflict::ReadLocked => Self::ReadLocked,
            Conflict::ReadChanged => Self::ReadChanged,
            Conflict::Wounded => Self::Wounded,
            Conflict::Phantom => Self::Phantom,
        }
    }
}

type Block = Box<[CachePadded<Slot>]>;

/// The epoch, its floor, and the slots of all committers.
pub(crate) struct Epochs {
    current: CachePadded<AtomicU64>,
    /// `floor << 16 | epoch & 0xffff`, so that one load returns a consistent pair.
    floor: CachePadded<AtomicU64>,
    blocks: [OnceLock<Block>; BLOCKS],
    /// How many of them are made. SeqCst, so that a closer of an epoch sees the slots of all committers that are
    /// registered in it.
    blocks_made: AtomicUsize,
    /// The latest epoch that was found finished.
    finished: CachePadded<AtomicU64>,
    /// The floor of epoch e in the word e modulo their number, as in `floor`. A floor that remains
    /// from an older epoch, or is stored late, is lower.
    floors: Box<[AtomicU64]>,
    /// The floor of the first epoch.
    first_floor: Stamp,
    /// Every version with a creation stamp below this is certified durable. It is remembered longer than `floors`
    /// are.
    certified_below: CachePadded<AtomicU64>,
    /// How long an epoch lasts at least.
    length_min: Duration,
    /// When the current epoch began.
    began: CachePadded<Mutex<Instant>>,
}

/// A committer's slot; the index is valid until it is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotId(usize);

impl SlotId {
    /// Its number: committers at one time have different ones.
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

impl Epochs {
    /// Starts at epoch 1 with this floor. Committers close epochs that have lasted `length_min`.
    pub(crate) fn new(floor: Stamp, length_min: Duration) -> Self {
        Self {
            current: CachePadded::new(AtomicU64::new(1)),
            floor: CachePadded::new(AtomicU64::new(floor.0 << EPOCH_BITS | 1)),
            blocks: [const { OnceLock::new() }; BLOCKS],
            blocks_made: AtomicUsize::new(0),
            finished: CachePadded::new(AtomicU64::new(0)),
            floors: (0..FLOORS).map(|_| AtomicU64::new(0)).collect(),
            first_floor: floor,
            certified_below: CachePadded::new(AtomicU64::new(floor.0)),
            length_min,
            began: CachePadded::new(Mutex::new(Instant::now())),
        }
    }

    fn slot(&self, SlotId(index): SlotId) -> &Slot {
        let block = self.blocks[index / BLOCK_SLOTS].get();
        &block.expect("an id comes from `acquire`, which made its block")[index % BLOCK_SLOTS]
    }

    /// A slot for a new committer. `None` if 65,536 are in use.
    pub(crate) fn acquire(&self) -> Option<SlotId> {
        for (b, block) in self.blocks.iter().enumerate() {
            let slots = block.get_or_init(|| {
                (0..BLOCK_SLOTS)
                    .map(|_| CachePadded::new(Slot::new()))
                    .collect()
            });
            self.blocks_made.fetch_max(b + 1, Ordering::SeqCst);
            for (i, slot) in slots.iter().enumerate() {
                if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::AcqRel) {
                    return Some(SlotId(b * BLOCK_SLOTS + i));
                }
            }
        }
        None
    }

    /// Releases a slot. Its stamp stays: it may still decide a floor.
    pub(crate) fn release(&self, id: SlotId) {
        // A commit that has panicked is still registered.
        self.deregister(id);
        self.slot(id).taken.store(false, Ordering::Release);
    }

    /// Registers a commit: asks `stamp_above` for its stamp, given the floor that it must reach,
    /// and publishes it. The caller's locks are held.
    pub(crate) fn register(
        &self,
        id: SlotId,
        mut stamp_above: impl FnMut(Stamp) -> Stamp,
    ) -> (Epoch, Stamp) {
        let slot = self.slot(id);
        loop {
            let epoch = self.current.load(Ordering::SeqCst);
            let floor = self.floor.load(Ordering::SeqCst);
            if floor & EPOCH_MASK != epoch & EPOCH_MASK {
                self.finish_advance();
                continue;
            }
            let stamp = stamp_above(Stamp(floor >> EPOCH_BITS));
            slot.epoch.store(epoch, Ordering::Release);
            // Only the owner stores, so no other thread can have made the maximum larger. A stamp beyond the last one
            // will not commit, and would not fit into a floor's word.
            let published = stamp.min(Stamp::MAX).0;
            let largest = published.max(slot.stamp.load(Ordering::Relaxed));
            // SeqCst, as are the closer's store of the epoch and its later reading of the slots:
            // one of the two sees the other. A swap, as that orders with less waiting than a fence.
            slot.stamp.swap(largest, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) == epoch {
                return (Epoch(epoch), stamp);
            }
        }
    }

    /// The commit's records are unlocked, or it has failed.
    pub(crate) fn deregister(&self, id: SlotId) {
        self.slot(id).epoch.store(0, Ordering::Release);
    }

    /// Closes the current epoch and opens the next.
    pub(crate) fn advance(&self) {
        self.close(Epoch(self.current.load(Ordering::SeqCst)));
    }

    /// Publishes the floor of the current epoch if it is missing.
    fn finish_advance(&self) {
        let old = self.floor.load(Ordering::SeqCst);
        let epoch = self.current.load(Ordering::SeqCst);
        if old & EPOCH_MASK == epoch & EPOCH_MASK {
            return;
        }
        fence(Ordering::SeqCst);
        let largest = self
            .slots()
            .map(|slot| slot.stamp.load(Ordering::SeqCst))
            .max()
            .unwrap_or(0);
        let floor = (largest + 1).min(Stamp::MAX.0).max(old >> EPOCH_BITS);
        // The first one decides. Any value that is read after the epoch moved covers all of the closed epoch, and no
        // committer publishes a stamp of the new one before its floor.
        let _ = self.floor.compare_exchange(
            old,
            floor << EPOCH_BITS | epoch & EPOCH_MASK,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
        let word = self.floor.load(Ordering::SeqCst);
        let index = (word & EPOCH_MASK) as usize % FLOORS;
        self.floors[index].store(word, Ordering::Release);
    }

    /// Every version with a creation stamp below this was written in `epoch` or before, or before the
    /// database was opened. If the floor is forgotten, or not known yet, not all such versions are.
    pub(crate) fn floor_after(&self, epoch: Epoch) -> Stamp {
        self.known_floor_after(epoch).unwrap_or(self.first_floor)
    }

    /// The floor of the epoch after this one, unless it is forgotten or not known yet.
    pub(crate) fn known_floor_after(&self, Epoch(epoch): Epoch) -> Option<Stamp> {
        let remembered = self.floors[(epoch + 1) as usize % FLOORS].load(Ordering::Acquire);
        let latest = self.floor.load(Ordering::SeqCst);
        let is_wanted = |word: &u64| word & EPOCH_MASK == (epoch + 1) & EPOCH_MASK;
        let word = [remembered, latest].into_iter().find(is_wanted)?;
        // The word has only the low bits of its epoch. Checked after it was loaded: a thread that wrote a later one
        // there had seen that epoch begin.
        let is_forgotten = self.current.load(Ordering::SeqCst) > epoch + FLOORS as u64;
        (!is_forgotten).then(|| Stamp(word >> EPOCH_BITS).max(self.first_floor))
    }

    /// Whether a version with this creation stamp is certified durable, now that everything through
    /// `certified` is. The answer does not change back to false, however many epochs pass without
    /// writes.
    pub(crate) fn is_certified(&self, stamp: Stamp, certified: Epoch) -> bool {
        let below = self.certified_below.load(Ordering::Acquire);
        if stamp.0 < below {
            return true;
        }
        let now = self.floor_after(certified).0;
        if now > below {
            self.certified_below.fetch_max(now, Ordering::AcqRel);
        }
        stamp.0 < now
    }

    /// Adds one to a counter of this committer, and periodically closes the current epoch if it is
    /// old enough. Returns true for each 64th.
    pub(crate) fn count(&self, id: SlotId, what: Count) -> bool {
        let sum = self.slot(id).counts[what as usize].add(1);
        let is_due = sum.is_multiple_of(COUNTS_PER_CLOCK);
        if is_due || self.length_min.is_zero() {
            self.tick();
        }
        is_due
    }

    /// Adds `more` to a counter of this committer.
    pub(crate) fn add(&self, id: SlotId, what: Count, more: u64) {
        self.slot(id).counts[what as usize].add(more);
    }

    /// Closes the current epoch if it is old enough and no other thread is about to.
    fn tick(&self) {
        let Some(mut began) = self.began.try_lock() else {
            return;
        };
        let now = Instant::now();
        if now.duration_since(*began) >= self.length_min {
            *began = now;
            self.advance();
        }
    }

    /// The sum over all committers since the database was opened.
    pub(crate) fn counted(&self, what: Count) -> u64 {
        self.slots()
            .map(|slot| slot.counts[what as usize].get())
            .sum()
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.blocks[..self.blocks_made.load(Ordering::SeqCst)]
            .iter()
            .map_while(|block| block.get())
            .flatten()
            .map(|slot| &**slot)
    }

    /// The current epoch.
    pub(crate) fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::Relaxed))
    }

    /// The largest S known such that every commit at or below it is finished: floor(e+1) - 1 for the latest
    /// e that is.
    #[cfg(test)]
    fn stable(&self) -> Stamp {
        Stamp(self.floor_after(self.finished()).0 - 1)
    }
}

impl EpochSource for Epochs {
    fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::SeqCst))
    }

    fn finished(&self) -> Epoch {
        let epoch = self.current.load(Ordering::SeqCst);
        // Acquire: synchronizes with the thread that stored the finished epoch.
        let known = self.finished.load(Ordering::Acquire);
        if known + 1 == epoch {
            return Epoch(known);
        }
        let busy = self.slots().filter_map(|slot| {
            // Before the epoch, see the module. The value does not matter.
            slot.stamp.load(Ordering::SeqCst);
            match slot.epoch.load(Ordering::Acquire) {
                0 => None,
                registered => Some(registered),
            }
        });
        let finished = busy.fold(epoch, u64::min) - 1;
        Epoch(
            self.finished
                .fetch_max(finished, Ordering::AcqRel)
                .max(finished),
        )
    }

    fn close(&self, Epoch(epoch): Epoch) {
        loop {
            let floor = self.floor.load(Ordering::SeqCst);
            if floor & EPOCH_MASK == epoch & EPOCH_MASK {
                // Remembered before the epoch is over, whichever thread has published it.
                self.floors[epoch as usize % FLOORS].store(floor, Ordering::Release);
                // At most one floor is ever missing: the epoch moves only when its own is published.
                let _ = self.current.compare_exchange(
                    epoch,
                    epoch + 1,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
            }
            self.finish_advance();
            // It is still the current one if its floor was missing, which is published now.
            if self.current.load(Ordering::SeqCst) != epoch {
                return;
            }
        }
    }
}

impl std::fmt::Debug for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epochs")
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn an_epoch_without_a_floor_can_be_closed() {
        let epochs = Epochs::new(Stamp(100), Duration::MAX);
        let epoch = epochs.current();
        // Another thread has closed it, and has not published the next one's floor.
        epochs.current.store(epoch.0 + 1, Ordering::SeqCst);
        epochs.close(Epoch(epoch.0 + 1));
        assert_eq!(epochs.current(), Epoch(epoch.0 + 2));
        assert_eq!(epochs.finished(), Epoch(epoch.0 + 1));
    }

    #[test]
    fn a_floor_that_is_forgotten_is_not_taken_for_another() {
        let epochs = Epochs::new(Stamp(100), Duration::MAX);
        let slot = epochs.acquire().unwrap();
        let (first, _) = epochs.register(slot, |floor| floor);
        epochs.deregister(slot);
        let known = epochs.floor_after(first);
        // Enough epochs for the low bits of the number to wrap around.
        for _ in 0..=EPOCH_MASK + 1 {
            epochs.advance();
            let (_, _) = epochs.register(slot, |floor| Stamp(floor.0 + 1));
            epochs.deregister(slot);
        }
        assert_eq!(epochs.floor_after(first), known.min(epochs.first_floor));
        let last = Epoch(epochs.current().0 - 1);
        assert!(epochs.floor_after(last) > Stamp(EPOCH_MASK));
    }

    #[test]
    fn stamps_lie_between_their_epochs_floors() {
        let epochs = Epochs::new(Stamp(100), Duration::MAX);
        let commits = Mutex::new(Vec::new());
        let floors = Mutex::new(std::collections::BTreeMap::new());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_u64)
                .map(|w| {
                    let (epochs, commits) = (&epochs, &commits);
                    scope.spawn(move || {
                        let slot = epochs.acquire().unwrap();
                        let mut mine = Vec::new();
                        let mut above = 0;
                        // Until epochs have passed, also where the threads share a processor.
                        let busy = |i: &u64| *i < 20_000 || epochs.current().0 < 5;
                        for i in (0_u64..).take_while(busy) {
                            let (epoch, stamp) = epochs.register(slot, |floor| {
                                above = floor.0.max(above) + (i * (w + 1)) % 3;
                                Stamp(above)
                            });
                            mine.push((epoch.0, stamp.0));
                            epochs.deregister(slot);
                        }
                        epochs.release(slot);
                        commits.lock().unwrap().extend(mine);
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    epochs.advance();
                    let word = epochs.floor.load(Ordering::SeqCst);
                    let epoch = epochs.current.load(Ordering::SeqCst);
                    if word & EPOCH_MASK == epoch & EPOCH_MASK {
                        floors.lock().unwrap().insert(epoch, word >> EPOCH_BITS);
                    }
                }
            });
            for worker in workers {
                worker.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let floors = floors.into_inner().unwrap();
        assert!(floors.len() > 2, "epochs must have passed");
        for (epoch, stamp) in commits.into_inner().unwrap() {
            // Floors rise, so the nearest ones decide.
            let below = floors.range(..=epoch).next_back();
            assert!(
                below.is_none_or(|(_, floor)| stamp >= *floor),
                "stamp {stamp} of {epoch}"
            );
            let above = floors.range(epoch + 1..).next();
            assert!(
                above.is_none_or(|(_, floor)| stamp < *floor),
                "stamp {stamp} of {epoch}"
            );
        }
        assert!(floors.values().is_sorted());
    }

    #[test]
    fn a_registered_committer_keeps_its_stamp_from_being_stable() {
        let epochs = Epochs::new(Stamp(1), Duration::MAX);
        let slot = epochs.acquire().unwrap();
        let (_, stamp) = epochs.register(slot, |floor| Stamp(floor.0 + 9));
        epochs.advance();
        assert!(epochs.stable() < stamp);
        epochs.deregister(slot);
        assert_eq!(epochs.stable(), stamp);
    }
}
