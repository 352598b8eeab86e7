//! Running transactions that have logged operations: the log is kept from the beginning of the
//! oldest.
//!
//! A transaction that logs operations has a *mark*, a lower bound of its number while it runs, in a word that no other
//! thread writes: beginning and ending cost a store each. A checkpoint, which asks seldom, looks at all marks.
//!
//! # Invariants
//! - V1. A mark is lowered before the transaction draws its number, to a bound at or below it, and raised after its last
//!   operation is in the log's buffer.
//! - V2. The next number is read before the marks. A thread that sees a number as drawn sees the mark that was lowered
//!   before (`log/src/horizon/sequencer.rs`, Q2). So no transaction that runs has a smaller number than the result.

use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use namiki_platform::Lsn;
use namiki_platform::sync::{Mutex, Ordering, SeqCstU64 as AtomicU64};

/// No transaction runs.
const IDLE: u64 = u64::MAX;

/// The mark of a transaction, and of those that use its buffers after it.
#[derive(Debug)]
pub(crate) struct OperationMark(CachePadded<AtomicU64>);

impl OperationMark {
    /// A transaction is about to draw its number, at or above `bound`.
    pub(crate) fn begin(&self, bound: Lsn) {
        // The draw publishes it (V2).
        self.0.store(bound.0, Ordering::Release);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        // Release: what it has logged, and its registration as a committer, come before.
        self.0.store(IDLE, Ordering::Release);
    }
}

/// The marks of all transactions.
#[derive(Default)]
pub(crate) struct LiveOperations {
    marks: Mutex<Vec<Weak<OperationMark>>>,
}

impl LiveOperations {
    /// A new mark, which counts until it is dropped.
    pub(crate) fn mark(&self) -> Arc<OperationMark> {
        let mark = Arc::new(OperationMark(CachePadded::new(AtomicU64::new(IDLE))));
        let mut marks = self.marks.lock();
        if marks.len() == marks.capacity() {
            marks.retain(|mark| mark.strong_count() > 0);
        }
        marks.push(Arc::downgrade(&mark));
        mark
    }

    /// The LSN from which on the log has all operations of transactions that have not ended. `next` is the next LSN, as it
    /// was read before (V2).
    pub(crate) fn oldest(&self, next: Lsn) -> Lsn {
        let marks = self.marks.lock();
        let live = marks.iter().filter_map(Weak::upgrade);
        live.fold(next, |oldest, mark| {
            oldest.min(Lsn(mark.0.load(Ordering::Acquire)))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mark_counts_until_it_ends_or_goes() {
        let live = LiveOperations::default();
        assert_eq!(live.oldest(Lsn(7)), Lsn(7));
        let (one, other) = (live.mark(), live.mark());
        assert_eq!(live.oldest(Lsn(7)), Lsn(7));
        one.begin(Lsn(3));
        other.begin(Lsn(5));
        assert_eq!(live.oldest(Lsn(9)), Lsn(3));
        one.end();
        assert_eq!(live.oldest(Lsn(9)), Lsn(5));
        one.begin(Lsn(8));
        drop(other);
        assert_eq!(live.oldest(Lsn(9)), Lsn(8));
        // Removed marks do not take memory for ever.
        for _ in 0..10_000 {
            drop(live.mark());
        }
        assert!(live.marks.lock().capacity() < 100);
        assert_eq!(live.oldest(Lsn(9)), Lsn(8));
    }
}
