//! The log sequence number: one order over the commits of all streams.
//!
//! # Invariants
//! - Q1. Every number is drawn exactly once, in increasing order.
//! - Q2. Drawing is a release, and loading is an acquire: a thread that sees a number as drawn sees
//!   everything its drawer did before drawing, its published lower bound above all. (Draws are
//!   read-modify-writes, so each continues the release sequences of all draws before it.)
//!
//! Paper: pwal §4.3.1, §4.3.2, Algorithm 3

use crossbeam_utils::CachePadded;
use namiki_platform::Lsn;
use namiki_platform::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

/// The source of log sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequencerKind {
    /// Nowhere: normal lock release needs none, and no worker touches a shared counter.
    None,
    /// One atomic addition.
    FetchAdd,
    /// The paper's compare-and-swap loop; misses are counted.
    ///
    /// Paper: pwal Algorithm 3
    CompareAndSwap,
}

impl SequencerKind {
    /// Whether LSNs are drawn at all.
    #[must_use]
    pub fn draws(self) -> bool {
        self != Self::None
    }
}

pub(crate) struct Sequencer {
    kind: SequencerKind,
    /// The number that will be drawn next.
    next: CachePadded<AtomicU64>,
}

impl Sequencer {
    pub(crate) fn new(kind: SequencerKind, first: Lsn) -> Self {
        Self {
            kind,
            next: CachePadded::new(AtomicU64::new(first.0)),
        }
    }

    /// Whether numbers are drawn at all.
    pub(crate) fn draws(&self) -> bool {
        self.kind != SequencerKind::None
    }

    /// A number at or below every one that the caller draws afterwards.
    pub(crate) fn lower_bound(&self) -> u64 {
        // Relaxed: a value out of date is lower still.
        self.next.load(Ordering::Relaxed)
    }

    /// The number that comes next, with everything that preceded the draws below it (Q2).
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Draws a number and counts the attempts that another thread won. Lsn(0) if none are drawn.
    pub(crate) fn draw(&self, misses: &mut u64) -> Lsn {
        match self.kind {
            SequencerKind::None => Lsn(0),
            SequencerKind::FetchAdd => Lsn(self.next.fetch_add(1, Ordering::AcqRel)),
            SequencerKind::CompareAndSwap => {
                let mut old = self.next.load(Ordering::Relaxed);
                loop {
                    match self.next.compare_exchange(
                        old,
                        old + 1,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    ) {
                        Ok(drawn) => return Lsn(drawn),
                        Err(newer) => {
                            *misses += 1;
                            old = newer;
                        }
                    }
                }
            }
        }
    }
}
