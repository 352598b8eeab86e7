//! Linear hashing: maps keys to buckets while buckets are split and merged.
//!
//! There are `size` buckets, and the hash's lowest bits choose one of them; buckets before the next
//! one to be split use one bit more. `size` grows by one when bucket `size - 2^k` hands half of its
//! keys to the new one, its *child*; it shrinks by one when the last bucket hands its keys back to
//! its *parent*.
//!
//! ```text
//!  size = 6:   place  0    1    2   3   4    5          hash ...110 -> 2 (6 is not there yet: 110 -> 10)
//!              depth  3    3    2   2   3    3          hash ...101 -> 5
//! ```
//!
//! `size` only tells where a search begins; the bucket's own depth decides (`line.rs`). A search
//! that finds the bucket dead goes to its parent; one that finds it too deep for the hash goes to
//! the child. So readers need no knowledge of resizes under way, and splits may end in another
//! order than they began.
//!
//! # Invariants
//! - B1. At any instant each hash has exactly one live bucket that is responsible for it, except while that
//!   bucket's keys are being moved: then the parent is locked, and the child is dead (before a split, after
//!   a merge) or complete (after a split, before a merge). So a live child is right.
//! - B2. The bucket at place 0 is always live. The lines of all places below `size` exist.
//! - B3. A thread that holds two locks acquired the parent's first.
//! - B4. A thread that changes `size` loads the parent's control word **afterwards**; a thread that has
//!   locked the parent loads `size` **afterwards**. All four accesses are `SeqCst`: so either the first
//!   finds that the parent is not dead, and waits for its lock, or the second finds the new `size`.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, RwLock, total_order, wait};

use super::config::HashConfig;
use super::count::Count;
use super::hash_to_line::Guides;
use super::line::{Control, Line};
use super::line_memory::Lines;
use super::locked_bucket::Bucket;
use super::overflow_line_pool::Overflow;
use super::version_stripes::Stripes;
use crate::shared::counters::{Counters, Event};

/// The table, independent of the kind of its keys.
pub(super) struct Table {
    /// Number of buckets that exist or are about to.
    pub(super) size: AtomicU64,
    pub(super) seed: u64,
    pub(super) homes: Lines,
    guides: Guides,
    pub(super) overflow: Overflow,
    pub(super) stripes: Stripes,
    pub(super) config: HashConfig,
    pub(super) count: Count,
    /// All versions of dead buckets are below (L2).
    pub(super) floor: AtomicU64,
    /// Number of live buckets in each segment of the home lines.
    pub(super) live_buckets: Box<[AtomicU64]>,
    /// Shared by threads that activate a bucket; exclusive for a thread that frees a segment's memory.
    pub(super) activations: RwLock<()>,
    pub(super) counters: Counters,
}

/// The place of the bucket that handed keys to the bucket at `place`, which is not 0, when that was
/// activated; and by which bit of the hash.
#[inline]
pub(super) fn parent(place: u64) -> (u64, u32) {
    let bit = place.ilog2();
    (place & !(1 << bit), bit)
}

impl Table {
    pub(super) fn new(config: HashConfig) -> Self {
        let config = config.checked();
        let homes = Lines::new(config.first_bits);
        let size = 1 << config.first_bits;
        // A table cannot exist without its first lines.
        assert!(homes.reach(0), "there is memory for a first segment");
        homes.hold(0);
        let table = Self {
            size: AtomicU64::new(size),
            seed: RandomState::new().hash_one(0),
            guides: Guides::new(size, &homes),
            homes,
            overflow: Overflow::new(),
            stripes: Stripes::new(config.stripe_bits),
            config,
            count: Count::new(config.batch),
            floor: AtomicU64::new(0),
            live_buckets: std::iter::repeat_with(|| AtomicU64::new(0))
                .take(Lines::SEGMENTS)
                .collect(),
            activations: RwLock::new(()),
            counters: Counters::default(),
        };
        for place in 0..size {
            let active = Control::active(config.first_bits, 0, 0);
            table.homes.line(place).set_control(active);
        }
        table.live_buckets[0].store(size, Ordering::Relaxed);
        table
    }

    /// The first place to search for a hash, and its line.
    #[inline(always)]
    pub(super) fn guess(&self, hash: u64) -> (u64, &Line) {
        // `Acquire` pairs with the `AcqRel` that counted the bucket: its line exists (B2).
        let size = self.size.load(Ordering::Acquire);
        let guide = self.guides.current();
        let place = guide.place(hash, size);
        (place, guide.line(&self.homes, place))
    }

    /// Changes the number of buckets from `size` to one more or less. Their lines exist.
    #[inline]
    pub(super) fn claim(&self, size: u64, new: u64) -> bool {
        let exchanged = self
            .size
            .compare_exchange(size, new, Ordering::SeqCst, Ordering::Relaxed);
        if exchanged.is_ok() && Guides::differ(size, new) {
            self.change_guide();
        }
        exchanged.is_ok()
    }

    /// Lets look-ups use the guide for the size that is current when all changes of it have ended.
    #[cold]
    fn change_guide(&self) {
        // Each thread chooses a guide after changing the size, and reads the size after choosing:
        // all `SeqCst`.
        total_order();
        let mut size = self.size.load(Ordering::SeqCst);
        loop {
            self.guides.follow(size, &self.homes);
            total_order();
            // This store may have overtaken that of a thread that chose a guide for a later size.
            let now = self.size.load(Ordering::SeqCst);
            if !Guides::differ(size, now) {
                return;
            }
            size = now;
        }
    }

    /// The current target number of buckets, for the holder of a parent's lock (B4).
    #[inline]
    pub(super) fn size_in_order(&self) -> u64 {
        total_order();
        self.size.load(Ordering::SeqCst)
    }

    /// The live bucket for the hash as it is now, perhaps locked: its place, home line and state.
    #[inline]
    pub(super) fn bucket(&self, hash: u64) -> (u64, &Line, Control) {
        let (place, line) = self.guess(hash);
        let control = line.control();
        if control.is_for(hash, place) {
            return (place, line, control);
        }
        self.walk(hash, place)
    }

    /// Continues the search from a place where something has changed.
    #[cold]
    fn walk(&self, hash: u64, mut place: u64) -> (u64, &Line, Control) {
        self.counters.add(Event::Restart);
        let mut turn = 0;
        loop {
            let line = self.homes.line(place);
            let control = line.control();
            if control.is_inactive() {
                place = parent(place).0;
            } else {
                let here = hash & control.mask();
                if here == place {
                    return (place, line, control);
                }
                // The first child that the hash belongs to.
                let beyond = here ^ place;
                place |= 1 << beyond.trailing_zeros();
            }
            // Each step goes where the last one led; the loop repeats only after concurrent
            // changes.
            turn += 1;
            if turn > 64 {
                wait(turn);
            }
        }
    }

    /// Locks the bucket for a hash.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> Bucket<'_> {
        let mut turn = 0;
        loop {
            let (place, line, control) = self.bucket(hash);
            if !control.is_locked() && line.try_lock(control) {
                return Bucket::locked(&self.overflow, place, line, control);
            }
            self.counters.add(Event::CasMiss);
            wait(turn);
            turn += 1;
        }
    }

    /// Locks the bucket at a place if it is live.
    #[inline]
    pub(super) fn lock_place(&self, place: u64) -> Option<Bucket<'_>> {
        let line = self.homes.line(place);
        let mut turn = 0;
        loop {
            let control = line.control_in_order();
            if control.is_inactive() {
                return None;
            }
            if !control.is_locked() && line.try_lock(control) {
                return Some(Bucket::locked(&self.overflow, place, line, control));
            }
            wait(turn);
            turn += 1;
        }
    }

    /// The places of all live buckets. Threads that grow or shrink the table concurrently may add
    /// or remove some.
    #[inline]
    pub(super) fn live_places(&self) -> impl Iterator<Item = u64> {
        let size = self.size.load(Ordering::Acquire);
        (0..size).filter(|place| !self.homes.line(*place).control().is_inactive())
    }

    /// Bytes of lines and stripes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.guides.bytes()
            + self.homes.bytes()
            + self.overflow.bytes()
            + self.stripes.bytes()
    }
}
