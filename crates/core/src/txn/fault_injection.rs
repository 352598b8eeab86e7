//! Faults that tests inject into a transaction's own calls, to test that their checkers detect
//! them.
//!
//! The commit path takes its faults as a type parameter. That would make all of `txn` generic here, to be compiled anew
//! in every program that has a [`Transaction`](super::Transaction). So it is the feature `fault-injection`, which only
//! the dev-dependencies of the suites turn on: a build of the workspace's programs has it off. Then all checks are
//! constants, and to plant one of these faults does not compile.

use crate::concurrency::cc::Checks;
#[cfg(not(feature = "fault-injection"))]
use crate::concurrency::cc::NoFaults;

/// The checks that a transaction makes.
#[derive(Clone, Copy)]
pub(super) struct TxnChecks {
    /// Deadlock rule 2, see `wait_for_lock`.
    pub(super) flush_on_read_wait: bool,
    pub(super) lock_reads: bool,
    pub(super) lock_gaps: bool,
    pub(super) add_locked: bool,
}

impl TxnChecks {
    const fn of<C: Checks>() -> Self {
        Self {
            flush_on_read_wait: C::FLUSH_ON_READ_WAIT,
            lock_reads: C::LOCK_READS,
            lock_gaps: C::LOCK_GAPS,
            add_locked: C::ADD_LOCKED,
        }
    }

    #[cfg(not(feature = "fault-injection"))]
    const fn are_all(self) -> bool {
        self.flush_on_read_wait && self.lock_reads && self.lock_gaps && self.add_locked
    }
}

/// The faults of a transaction; empty without the feature.
#[derive(Clone, Copy)]
pub(super) struct FaultInjection {
    #[cfg(feature = "fault-injection")]
    checks: TxnChecks,
}

impl FaultInjection {
    /// The fault of `C`.
    pub(super) const fn of<C: Checks>() -> Self {
        #[cfg(not(feature = "fault-injection"))]
        const {
            assert!(
                TxnChecks::of::<C>().are_all(),
                "to plant this fault, turn on the feature `fault-injection` of `namiki`"
            );
        }
        Self {
            #[cfg(feature = "fault-injection")]
            checks: TxnChecks::of::<C>(),
        }
    }

    /// The checks that are made.
    #[cfg(feature = "fault-injection")]
    #[inline(always)]
    pub(super) const fn checks(self) -> TxnChecks {
        self.checks
    }

    /// The checks that are made: all.
    #[cfg(not(feature = "fault-injection"))]
    #[inline(always)]
    pub(super) const fn checks(self) -> TxnChecks {
        TxnChecks::of::<NoFaults>()
    }
}
