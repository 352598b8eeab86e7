//! Fault injection: the checks that make a commit correct, each of which tests can turn off.
//!
//! A history checker that has never found a cycle proves nothing. The commit path therefore takes
//! its checks as a type parameter: the database always uses [`NoFaults`], which has all of them,
//! and the test suites inject one fault at a time with the types in [`faults`], to test that it is
//! detected.

/// Which checks a commit makes.
pub trait Checks: 'static {
    /// Records that were read are validated.
    const VALIDATE_READS: bool = true;
    /// Leaves in which a scan or a look-up found a gap are validated.
    const VALIDATE_LEAVES: bool = true;
    /// A transaction fails if a table that it has used was dropped before its commit.
    const CHECK_DROPS: bool = true;
    /// Overwritten versions that a view may see are kept for it.
    const KEEP_FOR_VIEWS: bool = true;
    /// A view waits for the commits that may not have seen it.
    const VIEW_WAITS_FOR_COMMITS: bool = true;
    /// Under release by epochs, a view waits until every stream has certified its epoch. (Otherwise until each is flushed:
    /// one that is idle writes nothing then, and recovery cuts off what the view has shown.)
    const VIEW_CERTIFIES: bool = true;
    /// A record that a commit has locked has to be still that of the key that it was found for.
    const COMPARE_INCARNATIONS: bool = true;
    /// A version that was read must still be the current one when its validity is extended. (A
    /// published TicToc that keeps the previous wts accepts any overwritten version as long as the
    /// commit stamp lies below the current wts, without asking whether the version it read is the
    /// one before: it commits a write skew.)
    const REQUIRE_CURRENT: bool = true;
    /// A version that was read and is locked by another transaction is not validated (Silo).
    const REQUIRE_UNLOCKED: bool = true;
    /// A record is locked before it is read (strict two-phase locking).
    const LOCK_READS: bool = true;
    /// So are gaps.
    const LOCK_GAPS: bool = true;
    /// Amounts are added to the values of records under their write locks. (Otherwise to their
    /// values when [`Transaction::add`](crate::Transaction::add) is called, which is not recorded
    /// as a read: of two concurrent increments, one is lost.)
    const ADD_LOCKED: bool = true;
    /// A row that is changed later has to be present at the commit, whatever becomes of the change.
    const CHECK_PRESENCE: bool = true;
    /// A failed lock flushes the group and frees its locks (`tictoc-pwal` §3.2.2, first rule).
    const FLUSH_ON_FAILED_LOCK: bool = true;
    /// Waiting for a locked record while reading flushes the group and frees its locks
    /// (`tictoc-pwal` §3.2.2, second rule).
    const FLUSH_ON_READ_WAIT: bool = true;
}

/// All checks: what the database uses.
#[derive(Debug)]
pub struct NoFaults;
impl Checks for NoFaults {}

/// One fault each, and the means to inject them in tests.
pub mod faults {
    pub use super::{Checks, NoFaults};

    macro_rules! bug {
        ($(#[$doc:meta])* $name:ident, $check:ident) => {
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;
            impl Checks for $name {
                const $check: bool = false;
            }
        };
    }

    bug!(
        /// Reads are not validated.
        NoReadValidation,
        VALIDATE_READS
    );
    bug!(
        /// Gaps are not validated.
        NoPhantomCheck,
        VALIDATE_LEAVES
    );
    bug!(
        /// A transaction commits changes of a table that was dropped before the commit.
        NoDropCheck,
        CHECK_DROPS
    );
    bug!(
        /// Overwritten versions are not kept for views.
        NothingKeptForViews,
        KEEP_FOR_VIEWS
    );
    bug!(
        /// A view is opened without waiting for commits that may not have seen it.
        ViewWaitsForNoCommit,
        VIEW_WAITS_FOR_COMMITS
    );
    bug!(
        /// A view flushes all streams, and certifies none.
        ViewOnlyFlushes,
        VIEW_CERTIFIES
    );
    bug!(
        /// A commit writes a record that serves another key by now, or none.
        RecordReused,
        COMPARE_INCARNATIONS
    );
    bug!(
        /// An overwritten version is accepted when the stamp lies below the current wts.
        NoPredecessorCheck,
        REQUIRE_CURRENT
    );
    bug!(
        /// Silo takes a version that is about to be overwritten for valid.
        NoLockCheck,
        REQUIRE_UNLOCKED
    );
    bug!(
        /// Strict two-phase locking does not lock what it reads.
        NoReadLocks,
        LOCK_READS
    );
    bug!(
        /// Strict two-phase locking does not lock gaps.
        NoGapLocks,
        LOCK_GAPS
    );
    bug!(
        /// An amount is added to the value from before the record was locked.
        AddUnlocked,
        ADD_LOCKED
    );
    bug!(
        /// A row that was found to be changed later may be absent at the commit.
        NoPresenceCheck,
        CHECK_PRESENCE
    );
    bug!(
        /// A failed lock leaves the group's locks held.
        NoFlushOnFailedLock,
        FLUSH_ON_FAILED_LOCK
    );
    bug!(
        /// A wait while reading leaves the group's locks held.
        NoFlushOnReadWait,
        FLUSH_ON_READ_WAIT
    );
}
