//! The commit path of every protocol, lock release, log layout and group.
//!
//! ```text
//!   measure the log record ──────────── (one too long for a log buffer is encoded here)
//!   lock the writes in address order ── failed: release, flush the group, retry
//!   register in the epoch, take the stamp            ┐ a commit that fails in between
//!   validate reads, then gaps                        │ returns what it holds by the drop
//!   keep what is overwritten (`views/mod.rs`)        │ of a guard (`commit_guard.rs`)
//!   append to the log ───────────────── (early release: the LSN is drawn here, under the locks)
//!     install the new versions
//!     unlock ────────────────────────── early release: now; normal: when the group is durable
//!   flush if the group is full ──────── (the single log does so before the next append)
//! ```
//! The four protocols of the paper are the two values of [`Release`] times the group's size: its
//! algorithms 2 and 3 (normal release, groups of 1 and n), 4 and 5 (early release). Where the paper
//! flushes a group on *any* failed validation (algorithm 3, line 9), we flush on a failed *lock* and
//! on a wait while reading, as its text says (§3.2.2): only these can be part of a deadlock, and a
//! failed validation gains nothing from freeing locks, since it does not wait.
//!
//! A commit that has no writes is not logged (except under `+ARIES(reads)`, an experiment, where it
//! takes the whole path). Under early release it may have read what is not durable yet, so it too
//! waits for everything logged so far.
//!
//! Release by epochs ([`EpochEarly`]) is early release without the LSN: a commit waits for its epoch,
//! unless it is *independent*, that is has read nothing that is not durable (`read_durability.rs`).
//!
//! If a table is dropped while a transaction uses it, the commit fails after it has registered
//! (`drops.rs`).
//!
//! Paper: tictoc-pwal §3.2, §3.3, Algorithms 2–5

mod commit_guard;
pub(crate) mod lock_acquisition;
pub(crate) mod log_record;
mod read_durability;

use namiki_log::{Entry, LogError, Stream};
use namiki_platform::{Epoch, Lsn, Stamp};

use crate::commit::access_set::{AccessSet, Read, Write};
use crate::commit::commit_path::commit_guard::{CommitGuard, unlock_writes};
use crate::commit::commit_path::lock_acquisition::acquire;
use crate::commit::commit_path::log_record::{CommitRecord, Values};
use crate::commit::engine::{Engine, GroupLocks, publish};
use crate::commit::epoch::{Count, SlotId};
use crate::commit::held_resources::HeldResources;
use crate::concurrency::cc::{Busy, CcProtocol, Checks, ObservedVersion};
use crate::concurrency::contention::policy::{
    COMMIT_LOCK_BACKOFF, COMMIT_LOCK_ROUNDS, COMMIT_LOCK_SPINS, READ_SPINS,
};
use crate::concurrency::lock::LockMode;
use crate::error::{Conflict, Error};
use crate::storage::record::{RecordRef, VALUE_BYTES_MAX};
use crate::table::raw_table::RawTable;

/// When locks are released: a type parameter of the commit path.
pub(crate) trait Release {
    /// Before the commit is durable.
    const EARLY: bool;
    /// Acknowledged by epochs.
    const BY_EPOCH: bool;
}

/// NLR: after the commit is durable.
pub(crate) enum Normal {}
impl Release for Normal {
    const EARLY: bool = false;
    const BY_EPOCH: bool = false;
}

/// ELR: when the commit is in the log's buffer.
pub(crate) enum Early {}
impl Release for Early {
    const EARLY: bool = true;
    const BY_EPOCH: bool = false;
}

/// EPOCH: when the commit is in the log's buffer; no LSN is drawn.
pub(crate) enum EpochEarly {}
impl Release for EpochEarly {
    const EARLY: bool = true;
    const BY_EPOCH: bool = true;
}

/// The condition for which a commit waits before it may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing.
    Nothing,
    /// Its own group's flush.
    Group(namiki_log::Ticket),
    /// Every log sequence number up to this one; and first, if it is logged, its own group's flush.
    Prefix(Option<namiki_log::Ticket>, Lsn),
    /// Everything of this epoch and before; and first, if it is logged, its own group's flush.
    Epoch(Option<namiki_log::Ticket>, Epoch),
}

/// A successful commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) stamp: Stamp,
    pub(crate) awaits: Awaits,
}

/// Commits the transaction, or changes nothing; after [`Error::OutcomeUnknown`], it is unknown
/// which.
pub(crate) fn commit<P: CcProtocol, R: Release, C: Checks>(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    slot: SlotId,
    access_set: &mut AccessSet,
    held: &mut HeldResources,
) -> Result<Committed, Error> {
    if access_set.writes.is_empty() && !is_logged_without_writes(engine, held) {
        return commit_read_only::<P, R, C>(engine, access_set);
    }
    if engine.read_only {
        return Err(Error::ReadOnly);
    }
    let mut is_independent = R::BY_EPOCH && engine.has_read_durably(access_set);
    // A transaction that holds locks already does not yield, so that it releases them.
    if held.locks.is_empty() && held.retry.yields_to(&engine.priority) {
        wait_for_priority(engine, stream)?;
    }
    // A long record is encoded before the writes are locked. Late changes are evaluated under the
    // locks.
    let has_late = access_set.has_late();
    access_set.sort_writes();
    let mut record = match stream {
        Some(stream) if !has_late => Some(prepare(engine, stream, access_set, held)?),
        _ => None,
    };
    lock_writes::<P, C>(engine, stream, slot, access_set, held)?;
    // From here on, the guard unlocks the writes on a return, and reverts the later steps.
    let mut guard = CommitGuard::<P>::locked(engine, slot, access_set);
    if !P::LOCKS_READS && C::VALIDATE_READS && own_reads_are_stale(guard.access_set) {
        return Err(Error::Conflict(Conflict::ReadChanged));
    }
    if has_late {
        if C::CHECK_PRESENCE {
            confirm_presences::<P>(engine, guard.access_set)?;
        }
        let bytes_max = value_bytes_max(stream);
        evaluate_late_changes(engine, guard.access_set, bytes_max)?;
        record = (stream.map(|it| prepare(engine, it, guard.access_set, held))).transpose()?;
        // The late changes have read their keys.
        is_independent = R::BY_EPOCH && engine.has_read_durably(guard.access_set);
    }
    let (epoch, stamp) = guard.register();
    verify::<P, C>(engine, guard.access_set, stamp)?;
    guard.keep_overwritten::<C>(epoch);
    let (Some(stream), Some(record)) = (stream, &mut record) else {
        return Ok(commit_unlogged(engine, slot, guard, held, stamp));
    };

    // The rest happens under the stream's lock: no flush can release a group's locks before the new
    // versions are in place, and where the log flushes under its lock, early release comes before.
    let mut is_wanted = false;
    let values = record.take_values();
    let entry = if is_independent {
        Entry::Independent
    } else {
        Entry::Commit
    };
    let access_set = &*guard.access_set;
    let appended = record.append(stream, entry, (stamp, epoch), access_set, |group| {
        if R::BY_EPOCH {
            access_set.note_presence_changes(epoch);
        }
        guard.hand_over();
        install(engine, access_set, held, stamp, values);
        if R::EARLY {
            publish_all::<P>(engine, access_set, stamp);
        } else {
            for write in &access_set.writes {
                is_wanted |= P::hand_over(write.record, stream.worker());
                group.hold::<P>(write.record, stamp, &engine.lock_wait_list);
            }
        }
        if P::LOCKS_READS {
            held.hand_over(access_set);
        }
    });
    let appended = appended.map_err(not_appended)?;
    engine.epochs.deregister(slot);
    if P::LOCKS_READS {
        // Locks of records that were only read need not wait for the device (unless the single log
        // has just written the group).
        held.release_locks(&engine.lock_wait_list);
    }
    engine.views.enforce_limit(&engine.epochs);
    if is_wanted {
        // A waiter for a lock of the group flushes nothing.
        stream.flush().map_err(Error::OutcomeUnknown)?;
    } else if appended.group_is_full {
        stream
            .begin_flush(appended.ticket)
            .map_err(Error::OutcomeUnknown)?;
    }
    let awaits = if R::BY_EPOCH && !is_independent {
        Awaits::Epoch(Some(appended.ticket), epoch)
    } else if R::EARLY && !R::BY_EPOCH {
        Awaits::Prefix(Some(appended.ticket), appended.ticket.lsn)
    } else {
        Awaits::Group(appended.ticket)
    };
    Ok(Committed { stamp, awaits })
}

/// Installs the versions of a commit of a database without a log.
fn commit_unlogged<P: CcProtocol>(
    engine: &Engine,
    slot: SlotId,
    guard: CommitGuard<'_, P>,
    held: &mut HeldResources,
    stamp: Stamp,
) -> Committed {
    guard.hand_over();
    let access_set = &*guard.access_set;
    install(engine, access_set, held, stamp, None);
    publish_all::<P>(engine, access_set, stamp);
    if P::LOCKS_READS {
        held.hand_over(access_set);
    }
    engine.epochs.deregister(slot);
    engine.views.enforce_limit(&engine.epochs);
    Committed {
        stamp,
        awaits: Awaits::Nothing,
    }
}

/// Whether a commit with this stamp may be logged: validates what was read, and the tables that were used.
#[inline]
fn verify<P: CcProtocol, C: Checks>(
    engine: &Engine,
    access_set: &AccessSet,
    stamp: Stamp,
) -> Result<(), Error> {
    if stamp > Stamp::MAX {
        return Err(Error::StampsExhausted);
    }
    if C::CHECK_DROPS
        && let Some(raw_table) = access_set.dropped_table(engine.drops.count())
    {
        return Err(dropped(raw_table));
    }
    validate::<P, C>(access_set, stamp, true).map_err(Error::Conflict)
}

/// Whether all reads are valid at one moment: the commit of a read-only transaction, and the check
/// before a failure may be reported.
pub(crate) fn commit_read_only<P: CcProtocol, R: Release, C: Checks>(
    engine: &Engine,
    access_set: &AccessSet,
) -> Result<Committed, Error> {
    // No floor: it would cause a write to every record that was not read in this epoch.
    let of_reads = access_set
        .reads
        .iter()
        .map(|read| read.seen.from)
        .max()
        .unwrap_or_default();
    // Its stamp follows the deletion of every key that it has missed (`removal.rs`).
    let stamp = if P::VALIDATES_AT_STAMP && !access_set.has_gaps() {
        of_reads
    } else {
        of_reads.max(engine.removed_keys.through())
    };
    validate::<P, C>(access_set, stamp, false).map_err(Error::Conflict)?;
    // After the last read: what was read may have come after the drop.
    if C::CHECK_DROPS
        && let Some(raw_table) = access_set.dropped_table(engine.drops.count())
    {
        return Err(dropped(raw_table));
    }
    let awaits = match &engine.log {
        Some(log) if R::BY_EPOCH => (engine.epoch_to_await(log, access_set))
            .map_or(Awaits::Nothing, |epoch| Awaits::Epoch(None, epoch)),
        // The versions that were read were written before now, so their LSNs are at most the last
        // one drawn.
        Some(log) if R::EARLY => Awaits::Prefix(None, log.last_drawn()),
        _ => Awaits::Nothing,
    };
    Ok(Committed { stamp, awaits })
}

/// Whether a transaction without writes has logged its begin, and so is to log its end.
fn is_logged_without_writes(engine: &Engine, held: &HeldResources) -> bool {
    engine.spec.logs_reads() && held.undo_list.end().is_some()
}

#[cold]
fn dropped(raw_table: &RawTable) -> Error {
    Error::TableDropped {
        table: raw_table.name(),
    }
}

/// Waits while another transaction has exclusive commit priority, without a group that holds locks it may want.
#[cold]
fn wait_for_priority(engine: &Engine, stream: Option<&Stream<GroupLocks>>) -> Result<(), Error> {
    if let Some(stream) = stream
        && engine.groups_hold_locks()
        && stream.has_pending()
    {
        stream.flush().map_err(Error::LogFailed)?;
    }
    engine.priority.wait();
    Ok(())
}

fn prepare(
    engine: &Engine,
    stream: &Stream<GroupLocks>,
    access_set: &AccessSet,
    held: &HeldResources,
) -> Result<CommitRecord, Error> {
    // Where operations are logged, the changes are in the log, and in the records.
    let end = held.undo_list.end();
    CommitRecord::prepare(stream, access_set, end, engine.format).map_err(not_appended)
}

fn lock_writes<P: CcProtocol, C: Checks>(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    slot: SlotId,
    access_set: &mut AccessSet,
    held: &mut HeldResources,
) -> Result<(), Error> {
    if P::LOCKS_READS {
        return access_set.writes.iter_mut().try_for_each(|write| {
            acquire(
                engine,
                stream,
                &mut held.locks,
                &mut held.retry.wait_age,
                write.record,
                LockMode::EXCLUSIVE,
            )?;
            require_current::<C>(write)
        });
    }
    let groups_hold = engine.groups_hold_locks();
    // Under early release, locks are held only briefly, and without reads a wait cannot invalidate
    // the attempt. (A task does not sleep in the middle of an attempt.)
    let is_patient = !groups_hold
        && access_set.reads.is_empty()
        && !access_set.has_gaps()
        && !held.retry.is_in_task();
    for round in 0.. {
        let Some(failed) = lock_each::<P>(access_set) else {
            return require_all_current::<P, C>(access_set);
        };
        for write in &access_set.writes[..failed] {
            P::unlock(write.record, write.before);
        }
        require_current::<C>(&mut access_set.writes[failed])?;
        let is_stale = |write: &Write| !write.record.is_current();
        if C::COMPARE_INCARNATIONS && access_set.writes[..failed].iter().any(is_stale) {
            // Perhaps the record is another key of this transaction now, which would wait for its
            // own lock.
            return Err(Error::Conflict(Conflict::ReadChanged));
        }
        engine.epochs.count(slot, Count::FailedLock);
        let is_dead = |read: &Read| P::is_dead(read.record, read.seen);
        if round >= COMMIT_LOCK_ROUNDS && !is_patient || access_set.reads.iter().any(is_dead) {
            break;
        }
        if round >= COMMIT_LOCK_ROUNDS {
            // The holder of the lock was preempted, or is writing to the device.
            if held.retry.yields_to(&engine.priority) {
                engine.priority.wait();
            }
            std::thread::sleep(COMMIT_LOCK_BACKOFF);
            engine.check_poison()?;
            continue;
        }
        // Deadlock rule 1: a commit that cannot acquire a lock holds none while it waits, nor does its group.
        // Otherwise two workers could each wait for a lock in the other's group.
        match stream {
            Some(stream) if C::FLUSH_ON_FAILED_LOCK && groups_hold && stream.has_pending() => {
                stream.flush().map_err(Error::LogFailed)?;
            }
            _ => engine.yield_to_locks()?,
        }
    }
    Err(Error::Conflict(Conflict::WriteLocked))
}

/// Locks all writes, or returns the position of the one that stayed locked.
fn lock_each<P: CcProtocol>(access_set: &mut AccessSet) -> Option<usize> {
    for at in 0..access_set.writes.len() {
        let write = &mut access_set.writes[at];
        let locked = (0..COMMIT_LOCK_SPINS).find_map(|_| {
            P::try_lock(write.record)
                .map_err(|_| std::hint::spin_loop())
                .ok()
        });
        match locked {
            Some(before) => write.before = before,
            None => return Some(at),
        }
    }
    None
}

/// Fails if one of the records, which are locked, is another key's by now; without a lock then.
#[inline]
fn require_all_current<P: CcProtocol, C: Checks>(access_set: &mut AccessSet) -> Result<(), Error> {
    let mut writes = access_set.writes.iter_mut();
    let current = writes.try_for_each(require_current::<C>);
    if current.is_err() {
        unlock_writes::<P>(access_set);
    }
    current
}

/// Fails if a record is another key's by now (`storage/record.rs`, R5).
#[inline]
fn require_current<C: Checks>(write: &mut Write) -> Result<(), Error> {
    if !write.record.is_current() {
        if C::COMPARE_INCARNATIONS {
            return Err(Error::Conflict(Conflict::ReadChanged));
        }
        write.record = write.record.as_it_is();
    }
    Ok(())
}

/// The longest value that the log of a stream, or a record, can hold.
fn value_bytes_max(stream: Option<&Stream<GroupLocks>>) -> usize {
    let of_log = stream.map_or(usize::MAX, Stream::payload_bytes_max);
    of_log.min(VALUE_BYTES_MAX)
}

/// Reads the records that have to have a value, whichever it is. Those that are written are locked, and stay as they are;
/// the others are validated with all reads.
fn confirm_presences<P: CcProtocol>(
    engine: &Engine,
    access_set: &mut AccessSet,
) -> Result<(), Error> {
    let mut value = Vec::new();
    for at in 0..access_set.presence_count() {
        let (record, raw_table) = access_set.presence(at);
        let is_locked = access_set.writes_sorted(record).is_some();
        let seen = if is_locked {
            let creation = record.creation();
            ObservedVersion {
                creation,
                absent: record.is_absent(),
                from: creation,
                until: creation,
            }
        } else {
            read_unlocked::<P>(record, &mut value)?
        };
        if seen.absent {
            return Err(Error::Conflict(Conflict::ReadChanged));
        }
        // After the version.
        let is_known_durable = engine.has_durable_presence(raw_table);
        access_set.read_presence(record, seen, is_locked, is_known_durable);
    }
    Ok(())
}

/// Reads a record. Its lock is waited for no longer than other commits hold it: this one has its own locks.
fn read_unlocked<P: CcProtocol>(
    record: RecordRef,
    value: &mut Vec<u8>,
) -> Result<ObservedVersion, Error> {
    for _ in 0..READ_SPINS {
        match P::read(record, value) {
            Ok(seen) => return Ok(seen),
            Err(Busy) => std::hint::spin_loop(),
        }
    }
    Err(Error::Conflict(Conflict::ReadLocked))
}

/// Evaluates the late changes, under the locks of their records: other late changes of the same record
/// wait for the lock, and the transaction has no read that could be stale.
fn evaluate_late_changes(
    engine: &Engine,
    access_set: &mut AccessSet,
    bytes_max: usize,
) -> Result<(), Error> {
    let mut value = Vec::new();
    for at in 0..access_set.writes.len() {
        if !access_set.is_late_at(at) {
            continue;
        }
        let (record, table) = (access_set.writes[at].record, access_set.writes[at].table);
        let Some(present) = record.copy_if(&mut value, |_| true) else {
            unreachable!("the record is locked, so it does not change");
        };
        access_set.has_read_locked(record, present);
        access_set
            .evaluate(at, (!present.absent).then_some(&value[..]), bytes_max)
            .map_err(|error| engine.not_evaluated(table, error))?;
    }
    Ok(())
}

/// Whether a record that is both read and written has changed in between. It is locked now, so the
/// answer stands.
fn own_reads_are_stale(access_set: &AccessSet) -> bool {
    access_set.reads.iter().any(|read| {
        !read.record.has_version(read.seen.creation)
            && access_set.writes_sorted(read.record).is_some()
    })
}

/// Whether all that was read is valid at `stamp`, the versions of records apart that we have locked to write
/// them, if we have: those are as they were, see [`own_reads_are_stale`].
fn validate<P: CcProtocol, C: Checks>(
    access_set: &AccessSet,
    stamp: Stamp,
    writes_are_locked: bool,
) -> Result<(), Conflict> {
    if C::VALIDATE_READS {
        for read in &access_set.reads {
            if writes_are_locked && read.is_written {
                continue;
            }
            let valid = P::validate::<C>(read.record, read.seen, stamp);
            let is_ours = || writes_are_locked && access_set.writes_sorted(read.record).is_some();
            if !valid && !is_ours() {
                return Err(Conflict::ReadChanged);
            }
        }
    }
    if C::VALIDATE_LEAVES {
        for (raw_table, leaf) in access_set.gaps() {
            if !raw_table.extend_leaf(leaf, P::gap_stamp(stamp)) {
                return Err(Conflict::Phantom);
            }
        }
    }
    Ok(())
}

/// Installs the new versions; `values` are those of the writes, if they were copied before.
fn install(
    engine: &Engine,
    access_set: &AccessSet,
    held: &HeldResources,
    stamp: Stamp,
    values: Option<Values>,
) {
    if held.undo_list.end().is_some() {
        // The values are in memory.
        for write in &access_set.writes {
            write.record.restamp(stamp);
            engine.views.uncommitted.remove(write.record);
        }
        return;
    }
    if let Some(values) = values {
        return install_copied(access_set, stamp, values);
    }
    for write in &access_set.writes {
        write.record.install(access_set.value(write), stamp);
    }
}

#[cold]
fn install_copied(access_set: &AccessSet, stamp: Stamp, values: Values) {
    for (write, value) in access_set.writes.iter().zip(values) {
        match value {
            Some(value) => write.record.install_box(value, stamp),
            None => write.record.install(None, stamp),
        }
    }
}

fn publish_all<P: CcProtocol>(engine: &Engine, access_set: &AccessSet, stamp: Stamp) {
    for write in &access_set.writes {
        publish::<P>(write.record, stamp, &engine.lock_wait_list);
    }
}

/// A failed append has left no bytes.
pub(crate) fn not_appended(error: LogError) -> Error {
    match error {
        LogError::CommitTooLarge { bytes, bytes_max } => Error::TransactionTooLarge {
            len_bytes: bytes,
            max_bytes: bytes_max,
        },
        LogError::DiskFull { .. } | LogError::RegionFull { .. } => Error::DiskFull(error),
        LogError::NotPrepared { .. } => Error::NoLogFile(error),
        LogError::Closed => Error::Closed,
        LogError::Forked => Error::Forked,
        other => Error::LogFailed(other),
    }
}
