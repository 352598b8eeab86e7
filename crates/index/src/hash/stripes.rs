//! Versions and stamps against phantoms: a fixed number of *stripes* of the keys, by their hashes.
//!
//! A stripe is what the traits call a leaf. It has a counter of the changes of its key set, and its rts.
//! Stripes do not depend on how many buckets there are, so growing and shrinking change no version.
//!
//! # Invariants
//! - V1. The counter is changed by an insert or delete while the key's bucket is locked and already
//!   changed. That is the instant at which it takes effect. As long as a bucket's control word stays the
//!   same, no key in it comes or goes; so a reader that finds the same word before and after, and reads
//!   the counter between, has read the counter at an instant at which its key was absent.
//! - V2. A reader raises the rts and **then** reads the counter; an inserter changes the counter and
//!   **then** reads the rts. All four are `SeqCst`: either the reader sees the counter changed, or the
//!   inserter sees the rts raised.

use std::sync::atomic::Ordering;

use crate::LeafVersion;
use crate::shared::sync::{AtomicU64, total_order};

/// See above. Counter and rts share a cache line: an inserter wants both.
#[derive(Debug)]
struct Stripe {
    counter: AtomicU64,
    rts: AtomicU64,
}

/// All stripes of a table.
#[derive(Debug)]
pub(super) struct Stripes {
    stripes: Box<[Stripe]>,
    bits: u32,
}

impl Stripes {
    /// `2^bits` of them, at most `2^20`.
    pub(super) fn new(bits: u32) -> Self {
        let stripe = || Stripe {
            counter: AtomicU64::new(0),
            rts: AtomicU64::new(0),
        };
        Self {
            stripes: std::iter::repeat_with(stripe).take(1 << bits).collect(),
            bits,
        }
    }

    /// The stripe of a hash: its highest bits but the first, which is always set.
    #[inline]
    fn number(&self, hash: u64) -> usize {
        (hash << 1 >> 1 >> (63 - self.bits)) as usize
    }

    #[inline]
    fn stripe(&self, leaf: u64) -> Option<&Stripe> {
        self.stripes.get(usize::try_from(leaf).ok()?)
    }

    /// The version of the stripe of a hash.
    #[inline]
    pub(super) fn version(&self, hash: u64) -> LeafVersion {
        let number = self.number(hash);
        LeafVersion {
            leaf: number as u64,
            counter: self.stripes[number].counter.load(Ordering::SeqCst),
        }
    }

    /// A key with this hash has come or gone: call with its bucket locked (V1). The version before.
    #[inline]
    pub(super) fn bump(&self, hash: u64) -> LeafVersion {
        let number = self.number(hash);
        let counter = self.stripes[number].counter.fetch_add(1, Ordering::SeqCst);
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
        self.stripe(leaf)
            .map_or(0, |stripe| stripe.rts.load(Ordering::SeqCst))
    }

    /// See [`raise_and_check`](crate::PointIndex::raise_and_check).
    #[inline]
    pub(super) fn raise_and_check(&self, seen: LeafVersion, rts: u64) -> bool {
        let Some(stripe) = self.stripe(seen.leaf) else {
            return false;
        };
        // The common case under many readers: large enough already. A load suffices, it stands in
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
        let counter = self.stripe(leaf)?.counter.load(Ordering::SeqCst);
        Some(LeafVersion { leaf, counter })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.stripes)
    }
}
