//! Versions and stamps against phantoms: a fixed number of *stripes* of the keys, by their hashes.
//!
//! A stripe plays the role of a leaf in the traits. It has a counter of the changes of its key set,
//! and an rts. Stripes do not depend on how many buckets there are, so growing and shrinking change
//! no version.
//!
//! # Invariants
//! - V1. The counter is changed by an insert or delete while the key's bucket is locked and already
//!   changed. That is the instant at which it takes effect. As long as a bucket's control word
//!   stays the same, no key is added to it or removed; so a reader that finds the same word before
//!   and after, and reads the counter between, has read the counter at an instant at which its key
//!   was absent.
//! - V2. A reader raises the rts and **then** reads the counter; an inserter changes the counter and
//!   **then** reads the rts. All four are `SeqCst`: either the reader sees the counter changed, or the
//!   inserter sees the rts raised.
//! - V3. Stripes are made in groups, when one of a group is first raised or bumped. Until then their counters and rts are
//!   zero. A reader that has to see a bump by V1 has read a control word that was stored after it, and so finds the group. A
//!   raise or a bump makes the group first, so V2 is about existing stripes.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, total_order};

use crate::LeafVersion;

/// See above. Counter and rts share a cache line: an inserter wants both.
#[derive(Debug)]
struct Stripe {
    counter: AtomicU64,
    rts: AtomicU64,
}

impl Stripe {
    fn new() -> Self {
        Self {
            counter: AtomicU64::new(0),
            rts: AtomicU64::new(0),
        }
    }
}

/// Stripes that are made together, 16 KiB of them.
const GROUP_BITS: u32 = 10;

/// All stripes of a table.
#[derive(Debug)]
pub(super) struct Stripes {
    groups: Box<[OnceLock<Box<[Stripe]>>]>,
    bits: u32,
}

impl Stripes {
    /// `2^bits` of them, at most `2^20`.
    pub(super) fn new(bits: u32) -> Self {
        let groups = std::iter::repeat_with(OnceLock::new);
        let stripes = Self {
            groups: groups.take(1 << bits.saturating_sub(GROUP_BITS)).collect(),
            bits,
        };
        if cfg!(loom) {
            // The checker does not see that a `OnceLock` orders what is in it.
            let numbers = (0..stripes.groups.len()).map(|group| group << GROUP_BITS);
            numbers.for_each(|number| _ = stripes.stripe_to_change(number));
        }
        stripes
    }

    /// The stripe of a hash: its highest bits but the first, which is always set.
    #[inline]
    fn number(&self, hash: u64) -> usize {
        (hash << 1 >> 1 >> (63 - self.bits)) as usize
    }

    /// A stripe, unless all of its group are as they were at first (V3).
    #[inline]
    fn stripe(&self, number: usize) -> Option<&Stripe> {
        let group = self.groups.get(number >> GROUP_BITS)?.get()?;
        group.get(number & ((1 << GROUP_BITS) - 1))
    }

    /// The stripe of a number, for a change; `None`: the number is out of range.
    #[inline]
    fn stripe_to_change(&self, number: usize) -> Option<&Stripe> {
        let group = self.groups.get(number >> GROUP_BITS)?;
        let stripes = group.get_or_init(|| {
            let stripes = std::iter::repeat_with(Stripe::new);
            stripes.take(1 << self.bits.min(GROUP_BITS)).collect()
        });
        stripes.get(number & ((1 << GROUP_BITS) - 1))
    }

    fn counter(stripe: Option<&Stripe>) -> u64 {
        stripe.map_or(0, |stripe| stripe.counter.load(Ordering::SeqCst))
    }

    /// The version of the stripe of a hash.
    #[inline]
    pub(super) fn version(&self, hash: u64) -> LeafVersion {
        let number = self.number(hash);
        LeafVersion {
            leaf: number as u64,
            counter: Self::counter(self.stripe(number)),
        }
    }

    /// Counts an insert or delete of a key with this hash, and returns the version before. Call it
    /// with the key's bucket locked (V1).
    #[inline]
    pub(super) fn bump(&self, hash: u64) -> LeafVersion {
        let number = self.number(hash);
        let Some(stripe) = self.stripe_to_change(number) else {
            unreachable!("a hash has a stripe")
        };
        let counter = stripe.counter.fetch_add(1, Ordering::SeqCst);
        total_order();
        LeafVersion {
            leaf: number as u64,
            counter,
        }
    }

    /// See [`leaf_rts`](crate::PointIndex::leaf_rts).
    #[inline]
    pub(super) fn rts(&self, leaf: u64) -> u64 {
        total_order();
        self.stripe(leaf as usize)
            .map_or(0, |stripe| stripe.rts.load(Ordering::SeqCst))
    }

    /// See [`raise_and_check`](crate::PointIndex::raise_and_check).
    #[inline]
    pub(super) fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        let Some(stripe) = self.stripe_to_change(seen.leaf as usize) else {
            return false;
        };
        // The common case under many readers: large enough already. A load suffices, as it is in
        // the same total order as the raise that it saw.
        if stripe.rts.load(Ordering::SeqCst) < rts {
            stripe.rts.fetch_max(rts, Ordering::SeqCst);
        }
        total_order();
        stripe.counter.load(Ordering::SeqCst) == seen.counter
    }

    /// See [`current`](crate::PointIndex::current).
    #[inline]
    pub(super) fn current(&self, leaf: u64) -> Option<LeafVersion> {
        let exists = leaf >> self.bits == 0;
        let counter = Self::counter(self.stripe(leaf as usize));
        exists.then_some(LeafVersion { leaf, counter })
    }

    pub(super) fn bytes(&self) -> usize {
        let made = self.groups.iter().filter_map(OnceLock::get);
        size_of_val(&*self.groups) + made.map(|it| size_of_val(&**it)).sum::<usize>()
    }
}
