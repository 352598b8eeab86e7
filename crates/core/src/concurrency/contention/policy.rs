//! The constants of contention management: how often, and for how long, each kind of wait takes a
//! step before the next one.
//!
//! A wait begins with the cheapest step and ends with the most expensive: spin (most locks are held
//! for less time than a context switch takes), yield (the holder may need this processor), sleep or
//! park, abort and retry. Counts are plain numbers of the step that the name ends with; times are
//! durations. None of them is needed for correctness: a wait that is too short costs an abort or a
//! look, one that is too long costs its time.

use std::time::Duration;

// A lock that is taken, under optimistic concurrency control.

/// Tries of one lock of a commit before the commit releases all its locks. Under early release, locks are held for a
/// moment only.
pub(crate) const COMMIT_LOCK_SPINS: u32 = 64;
/// Rounds over all locks of a commit before it is a conflict, with a flush of the own group or a yield in between. In
/// the paper, the first round without success is one (tictoc-pwal §3.2.2, Algorithm 3).
pub(crate) const COMMIT_LOCK_ROUNDS: u32 = 16;
/// The sleep between further rounds, of a commit that has read nothing and so never has to abort: the holder was
/// preempted, or writes to the device.
pub(crate) const COMMIT_LOCK_BACKOFF: Duration = Duration::from_micros(50);
/// The longest time in which the commit of a held transaction (`api/held_session.rs`) tries its locks again: its client
/// would have to repeat all statements.
pub(crate) const HELD_COMMIT_WAIT_MAX: Duration = Duration::from_millis(50);
/// Looks of a reader at a locked record without giving up the processor: most locks are held for a moment only.
pub(crate) const READ_SPINS: u32 = 64;
/// Looks with a yield in between, before the locked record is a conflict.
pub(crate) const READ_YIELDS: u32 = 64;

// A lock that is taken, under strict two-phase locking.

/// Tries of a lock before the transaction parks: most locks are held for a moment only.
pub(crate) const LOCK_SPINS: u32 = 128;
/// The wait after which barging is disabled for a record. Until then a released lock goes to the transaction that has
/// a processor, not to the waiter that needs one first.
pub(crate) const HANDOFF_AFTER: Duration = Duration::from_millis(1);
/// The wait after which a waiter is boosted: hand-offs by rank have not helped it.
pub(crate) const BOOST_AFTER: Duration = Duration::from_millis(10);
/// The longest park before a waiter looks whether the database is still open: closing it wakes no waiter.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_millis(50);
/// Wounds after which a transaction is boosted in all its retries.
pub(crate) const BOOST_AFTER_WOUNDS: u32 = 8;

// Back-off between the attempts of a transaction. The first retry is immediate: most often something has changed that
// was read, and its writer is done.

/// Conflicts in a row up to which a retry is preceded by a yield, not by a sleep.
pub(crate) const RETRY_YIELDS: u32 = 8;
/// The bound of the first sleep. It doubles with each conflict.
pub(crate) const RETRY_BACKOFF_MIN: Duration = Duration::from_micros(2);
/// The bound of any sleep.
pub(crate) const RETRY_BACKOFF_MAX: Duration = Duration::from_millis(1);

// Exclusive commit priority (`priority.rs`).

/// Conflicts in a row after which a transaction requests priority: back-off has long reached its bound.
pub(crate) const PRIORITY_AFTER: u32 = 64;
/// Attempts that a transaction has priority for. If they do not help, the cause is another one, and
/// the other transactions continue.
pub(crate) const PRIORITY_ATTEMPTS: u32 = 32;
/// Conflicts from then on until it requests priority again.
pub(crate) const PRIORITY_AGAIN_AFTER: u32 = 192;
/// The longest wait for the holder, and the longest wait in the queue at a time: longer than most transactions, and
/// short enough for a holder that itself waits for another transaction.
pub(crate) const PRIORITY_WAIT_MAX: Duration = Duration::from_millis(50);
/// Doublings of that wait for one holder, to 1.6 seconds; no wait for several holders is longer.
pub(crate) const PRIORITY_WAIT_SHIFT_MAX: usize = 5;
/// Looks at the token with a yield in between, before the first sleep.
pub(crate) const PRIORITY_YIELDS: u32 = 16;
/// The sleep between further looks. All transactions wait so, and they do not queue: a holder that is done must not
/// have to wake each.
pub(crate) const PRIORITY_RECHECK_AFTER: Duration = Duration::from_micros(100);

// Admission control (`admission.rs`).

/// The least number of transactions for which admission is limited after a wound. The limit lasts
/// while more than one in this number is wounded.
pub(crate) const LIMITED_AFTER_WOUND: usize = 256;
/// The same for each permit: all permits are used before the limit ends.
pub(crate) const LIMITED_AFTER_WOUND_PER_PERMIT: usize = 4;
/// Wounds that count at most: the limit ends soon after the wounds do.
pub(crate) const WOUNDS_COUNTED_MAX: usize = 16;
/// The sleep before a waiter queues for a permit, times the waiters per permit. A permit that is
/// released during the sleep goes to a running transaction: a hand-off to a parked thread costs
/// more than most transactions do.
pub(crate) const ADMISSION_BACKOFF: Duration = Duration::from_micros(200);
/// How long a waiter queues, while no permit is released, before outstanding permits expire; and the longest sleep
/// before it queues. It is what a transaction costs the others that holds a permit and waits for its user.
pub(crate) const ADMISSION_STALL_TIMEOUT: Duration = Duration::from_millis(2);

const _: () = {
    assert!(HANDOFF_AFTER.as_nanos() < BOOST_AFTER.as_nanos());
    assert!(BOOST_AFTER.as_nanos() < RECHECK_AFTER.as_nanos());
    assert!(RETRY_YIELDS < PRIORITY_AFTER);
    assert!(RETRY_BACKOFF_MIN.as_nanos() < RETRY_BACKOFF_MAX.as_nanos());
    assert!(ADMISSION_BACKOFF.as_nanos() < ADMISSION_STALL_TIMEOUT.as_nanos());
};
