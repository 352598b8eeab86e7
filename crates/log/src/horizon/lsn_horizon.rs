//! The horizon: below it, every LSN is hardened.
//!
//! Each stream has a *mark*, a lower bound of its smallest LSN that is drawn and not hardened, or
//! [`IDLE`] if it has none. The horizon is the smallest of all marks and of the next LSN to draw.
//! An idle stream does not hold it back, and no LSN is jumped between its draw and its buffer.
//!
//! # Invariants
//! - H1. A stream's mark moves only under that stream's lock.
//! - H2. A mark that is idle is lowered to [`Sequencer::lower_bound`] *before* the draw, and raised to
//!   the LSN after it.
//! - H3. A mark is raised past an LSN only after its frame is durable.
//! - H4. The sequencer is read before the marks.
//!
//! Why this suffices: let `l` be below the horizon that a reader computed, drawn by stream `s`. The
//! reader saw `l` as drawn (H4, `l < next`), so by Q2 of the sequencer it sees the lower bound that
//! `s` published before (H2) or a later mark. All of those are at or below `l` until `l` is
//! durable (H1, H3), and the reader saw one above `l`.
//!
//! Paper: tictoc-pwal §3.2.1 (the minimum of the workers' flushed LSNs)

use crossbeam_utils::CachePadded;
use namiki_platform::Lsn;
use namiki_platform::sync::{AtomicU64, Ordering};

use crate::horizon::sequencer::{Sequencer, SequencerKind};

/// The mark of a stream that has drawn nothing it has not hardened.
pub(crate) const IDLE: u64 = u64::MAX;

pub(crate) struct Horizon {
    pub(crate) sequencer: Sequencer,
    marks: Box<[CachePadded<AtomicU64>]>,
    /// The last horizon that was computed, so that most checks need no scan.
    known: CachePadded<AtomicU64>,
}

impl Horizon {
    pub(crate) fn new(kind: SequencerKind, first: Lsn, streams: usize) -> Self {
        Self {
            sequencer: Sequencer::new(kind, first),
            marks: (0..streams)
                .map(|_| CachePadded::new(AtomicU64::new(IDLE)))
                .collect(),
            known: CachePadded::new(AtomicU64::new(first.0)),
        }
    }

    /// Draws an LSN, under the stream's lock.
    pub(crate) fn draw(&self, stream: usize, misses: &mut u64) -> Lsn {
        let mark = &self.marks[stream];
        // Relaxed: only the stream's lock holder writes the mark (H1).
        if mark.load(Ordering::Relaxed) != IDLE {
            return self.sequencer.draw(misses);
        }
        // The draw publishes this (`sequencer.rs`, Q2); release is for threads that load the mark
        // without it, and rely on what the stream hardened before.
        mark.store(self.sequencer.lower_bound(), Ordering::Release);
        let drawn = self.sequencer.draw(misses);
        // The exact value is known now. The lower bound would hold up other streams that have
        // passed it, although none of their commits is missing.
        mark.store(drawn.0, Ordering::Release);
        drawn
    }

    /// Under the stream's lock, after a flush: the smallest LSN it has not hardened, or [`IDLE`].
    pub(crate) fn hardened_below(&self, stream: usize, mark: u64) {
        // Release pairs with the acquire in `scan`: a thread that sees the new mark sees the durable frame.
        self.marks[stream].store(mark, Ordering::Release);
    }

    /// Whether a stream may hold an LSN at or below `lsn` that is not hardened.
    pub(crate) fn lags(&self, stream: usize, lsn: Lsn) -> bool {
        self.marks[stream].load(Ordering::Acquire) <= lsn.0
    }

    /// Computes the horizon.
    pub(crate) fn scan(&self) -> Lsn {
        let mut lowest = self.sequencer.next();
        for mark in &self.marks {
            lowest = lowest.min(mark.load(Ordering::Acquire));
        }
        // A stale lower bound can make a scan return less than an earlier one did; what was
        // hardened stays hardened, so the largest ever computed holds.
        if lowest > self.known.load(Ordering::Relaxed) {
            // Release passes on what the scan's acquires saw.
            self.known.fetch_max(lowest, Ordering::AcqRel);
            Lsn(lowest)
        } else {
            Lsn(self.known.load(Ordering::Acquire))
        }
    }

    /// Whether `lsn` is below the horizon.
    pub(crate) fn covers(&self, lsn: Lsn) -> bool {
        self.known.load(Ordering::Acquire) > lsn.0 || self.scan() > lsn
    }
}
