//! The one commit path. Every protocol, lock release, log layout and group runs through it.
//!
//! ```text
//!   lock the writes in address order ── failed: let go, flush the group, try again
//!   register in the epoch, take the stamp
//!   validate reads, then gaps ───────── failed: unlock, conflict
//!   append to the log ───────────────── (early release: the LSN is drawn here, under the locks)
//!     install the new versions
//!     unlock ────────────────────────── early release: now; normal: when the group is durable
//!   flush if the group is full ──────── (the single log does so before it lets anybody append)
//! ```
//! The four protocols of the paper are the two values of [`Release`] times the group's size: its
//! algorithms 2 and 3 (normal release, groups of 1 and n), 4 and 5 (early release). Where the paper
//! flushes a group on *any* failed validation (algorithm 3, line 9), we flush on a failed *lock* and
//! on a wait while reading, as its text says (§3.2.2): only these can be part of a deadlock, and a
//! failed validation gains nothing from locks being freed that nobody waits for.
//!
//! A commit that has no writes is not logged. Under early release it may have read what is not
//! durable yet, so it too waits for everything logged so far.
//!
//! Release by epochs ([`EpochEarly`]) is early release without the LSN: a commit waits for its epoch,
//! unless it is *independent*, that is has read nothing that is not durable (`durably.rs`).
//!
//! Paper: tictoc-pwal §3.2, §3.3, Algorithms 2–5

use std::time::Duration;

use namiki_log::{Entry, LogError, Stream};
use namiki_platform::{Epoch, Lsn, Stamp};

use crate::acquire::acquire;
use crate::cc::{Checks, Protocol};
use crate::codec;
use crate::engine::{Engine, GroupLocks};
use crate::epoch::{Count, SlotId};
use crate::error::{Conflict, Error};
use crate::lock::Locked;
use crate::sets::{Read, Sets};

/// How often a lock that is taken is tried again before the commit lets go of all its locks.
const SPINS: u32 = 64;
/// How often a commit that had to let go starts over before it is a conflict.
const ROUNDS: u32 = 16;
/// How long one that need not give up sleeps after so many.
const PATIENCE: Duration = Duration::from_micros(50);

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

/// What a commit has to wait for until it may be acknowledged.
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

/// A commit that went through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) stamp: Stamp,
    pub(crate) awaits: Awaits,
}

/// Commits the transaction, or changes nothing; except that after [`Error::OutcomeUnknown`] nobody
/// knows.
pub(crate) fn commit<P: Protocol, R: Release, C: Checks>(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    slot: SlotId,
    sets: &mut Sets,
) -> Result<Committed, Error> {
    if sets.writes.is_empty() {
        return commit_read_only::<P, R, C>(engine, sets);
    }
    let mut is_independent = R::BY_EPOCH && engine.has_read_durably(sets);
    // Whoever holds locks already goes on, and lets go of them.
    if sets.locks.is_empty() && sets.waits_for_turn(&engine.turn) {
        wait_for_turn(engine, stream)?;
    }
    lock_writes::<P, C>(engine, stream, slot, sets)?;
    if !P::LOCKS_READS && C::VALIDATE_READS && own_reads_are_stale(sets) {
        unlock_writes::<P>(sets);
        return Err(Error::Conflict(Conflict::ReadChanged));
    }

    if sets.has_adds() {
        if let Err(error) = add_up(engine, sets) {
            unlock_writes::<P>(sets);
            return Err(error);
        }
        // What was added to has been read.
        is_independent = R::BY_EPOCH && engine.has_read_durably(sets);
    }

    let (epoch, stamp) = engine
        .epochs
        .register(slot, |floor| stamp_of::<P>(sets, floor));
    let verdict = if stamp > Stamp::MAX {
        Err(Error::StampsExhausted)
    } else {
        validate::<P, C>(sets, stamp, true).map_err(Error::Conflict)
    };
    if let Err(error) = verdict {
        unlock_writes::<P>(sets);
        engine.epochs.deregister(slot);
        return Err(error);
    }

    let Some(stream) = stream else {
        install(sets, stamp);
        publish::<P>(sets, stamp);
        engine.epochs.deregister(slot);
        forget_what_is_logged::<P>(sets);
        return Ok(Committed {
            stamp,
            awaits: Awaits::Nothing,
        });
    };

    // Where operations are logged, the changes are in the log, and in the records.
    let end = sets.undo_list.end();
    let payload_bytes = match &end {
        None => codec::encoded_bytes(sets, engine.format),
        Some(end) => end.encoded_bytes(engine.format),
    };
    let encode = |into: &mut [u8], _: Lsn| match &end {
        None => codec::encode(sets, engine.format, into),
        Some(end) => end.encode(into),
    };
    // The rest happens under the stream's lock: no flush can release a group's locks before the new
    // versions are in place, and where the log flushes under its lock, early release comes before.
    let mut is_wanted = false;
    let hold = |group: &mut GroupLocks| {
        install(sets, stamp);
        sets.is_logged.set(true);
        if R::EARLY {
            publish::<P>(sets, stamp);
        } else {
            for write in &sets.writes {
                is_wanted |= P::hand_over(write.record, stream.worker());
                group.hold::<P>(write.record, stamp);
            }
        }
    };
    let entry = match is_independent {
        true => Entry::Independent,
        false => Entry::Commit,
    };
    let appended = stream.append(entry, stamp, epoch, payload_bytes, encode, hold);
    let appended = match appended {
        Ok(appended) => appended,
        Err(error) => {
            unlock_writes::<P>(sets);
            engine.epochs.deregister(slot);
            return Err(not_appended(error));
        }
    };
    engine.epochs.deregister(slot);
    forget_what_is_logged::<P>(sets);
    if P::LOCKS_READS {
        // Those of what was only read need not wait for the device (unless the single log has just written the group).
        sets.release_locks();
    }
    if is_wanted {
        // Whoever sleeps for a lock of the group flushes nothing.
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

/// Whether all that was read may stand, as of one moment: what a transaction without writes commits
/// with, and what one that fails has to pass before its failure may be told to anybody.
pub(crate) fn commit_read_only<P: Protocol, R: Release, C: Checks>(
    engine: &Engine,
    sets: &Sets,
) -> Result<Committed, Error> {
    // No floor: it would have every record that was not read in this epoch touched.
    let stamp = sets
        .reads
        .iter()
        .map(|read| read.seen.from)
        .max()
        .unwrap_or_default();
    validate::<P, C>(sets, stamp, false).map_err(Error::Conflict)?;
    let awaits = match &engine.log {
        Some(log) if R::BY_EPOCH => (engine.epoch_to_await(log, sets))
            .map_or(Awaits::Nothing, |epoch| Awaits::Epoch(None, epoch)),
        // What was read was written before now, so its LSN is at most the last one drawn.
        Some(log) if R::EARLY => Awaits::Prefix(None, log.last_drawn()),
        _ => Awaits::Nothing,
    };
    Ok(Committed { stamp, awaits })
}

/// Waits while somebody else has the turn, with no group that holds locks they may want.
#[cold]
fn wait_for_turn(engine: &Engine, stream: Option<&Stream<GroupLocks>>) -> Result<(), Error> {
    if let Some(stream) = stream
        && engine.groups_hold_locks()
        && stream.has_pending()
    {
        stream.flush().map_err(Error::LogFailed)?;
    }
    engine.turn.wait();
    Ok(())
}

fn lock_writes<P: Protocol, C: Checks>(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    slot: SlotId,
    sets: &mut Sets,
) -> Result<(), Error> {
    sets.sort_writes();
    if P::LOCKS_READS {
        return sets.writes.iter().try_for_each(|write| {
            acquire(
                engine,
                stream,
                &mut sets.locks,
                write.record,
                Locked::EXCLUSIVE,
            )
        });
    }
    let groups_hold = engine.groups_hold_locks();
    // Early release holds locks for a moment only, and what was not looked at cannot change meanwhile.
    let is_patient = !groups_hold && sets.reads.is_empty() && !sets.has_gaps();
    for round in 0.. {
        let Some(failed) = lock_each::<P>(sets) else {
            return Ok(());
        };
        for write in &sets.writes[..failed] {
            P::unlock(write.record, write.before);
        }
        engine.epochs.count(slot, Count::FailedLock);
        let is_dead = |read: &Read| P::is_dead(read.record, read.seen);
        if round >= ROUNDS && !is_patient || sets.reads.iter().any(is_dead) {
            break;
        }
        if round >= ROUNDS {
            // Whoever has the lock has lost the processor, or writes to the device.
            if sets.waits_for_turn(&engine.turn) {
                engine.turn.wait();
            }
            std::thread::sleep(PATIENCE);
            engine.check_poison()?;
            continue;
        }
        // Deadlock rule 1: whoever cannot get a lock holds none while waiting, nor does their
        // group. Otherwise two workers could each wait for a lock in the other's group.
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
fn lock_each<P: Protocol>(sets: &mut Sets) -> Option<usize> {
    for at in 0..sets.writes.len() {
        let write = &mut sets.writes[at];
        let locked = (0..SPINS).find_map(|_| {
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

/// Takes the locks of a commit back that did not come about. Where reads are locked, the transaction's end does.
fn unlock_writes<P: Protocol>(sets: &Sets) {
    if P::LOCKS_READS {
        return;
    }
    for write in &sets.writes {
        P::unlock(write.record, write.before);
    }
}

/// Makes the sums of the amounts that are to be added, to records that are locked: whoever wanted the same has
/// waited for the lock, and nobody has read what could have changed.
fn add_up(engine: &Engine, sets: &mut Sets) -> Result<(), Error> {
    let mut value = Vec::new();
    for at in 0..sets.writes.len() {
        if !sets.adds_at(at) {
            continue;
        }
        let (record, table) = (sets.writes[at].record, sets.writes[at].table);
        let Some(present) = record.copy_if(&mut value, |_| true) else {
            unreachable!("the record is locked, so nobody changes it");
        };
        sets.has_read_locked(record, present);
        sets.add_up(at, (!present.absent).then_some(&value[..]))
            .map_err(|error| engine.not_added(table, error))?;
    }
    Ok(())
}

/// Whether a record that is both read and written has changed in between. It is locked now, so the
/// answer stands.
fn own_reads_are_stale(sets: &Sets) -> bool {
    sets.reads.iter().any(|read| {
        read.record.creation() != read.seen.creation && sets.writes_sorted(read.record).is_some()
    })
}

fn stamp_of<P: Protocol>(sets: &Sets, floor: Stamp) -> Stamp {
    let reads = sets.reads.iter().map(|read| read.seen.from);
    let writes = sets
        .writes
        .iter()
        .map(|write| P::write_floor(write.record, write.before));
    reads.chain(writes).fold(floor, Stamp::max)
}

/// Whether all that was read is valid at `stamp`, the versions of records apart that we have locked to write
/// them, if we have: those are as they were, see [`own_reads_are_stale`].
fn validate<P: Protocol, C: Checks>(
    sets: &Sets,
    stamp: Stamp,
    writes_are_locked: bool,
) -> Result<(), Conflict> {
    if C::VALIDATE_READS {
        for read in &sets.reads {
            if writes_are_locked && read.is_written {
                continue;
            }
            let valid = P::validate::<C>(read.record, read.seen, stamp);
            let is_ours = || writes_are_locked && sets.writes_sorted(read.record).is_some();
            if !valid && !is_ours() {
                return Err(Conflict::ReadChanged);
            }
        }
    }
    if C::VALIDATE_LEAVES {
        for (space, leaf) in sets.gaps() {
            if !space.extend_leaf(leaf, P::gap_stamp(stamp)) {
                return Err(Conflict::Phantom);
            }
        }
    }
    Ok(())
}

fn install(sets: &Sets, stamp: Stamp) {
    if sets.undo_list.end().is_some() {
        // The values are there.
        sets.writes.iter().for_each(|it| it.record.restamp(stamp));
        return;
    }
    for write in &sets.writes {
        write.record.install(sets.value(write), stamp);
    }
}

fn publish<P: Protocol>(sets: &Sets, stamp: Stamp) {
    for write in &sets.writes {
        P::publish(write.record, stamp);
    }
}

/// The locks of what was written are released, or a group's, and nothing of it is to be undone.
pub(crate) fn forget_what_is_logged<P: Protocol>(sets: &mut Sets) {
    sets.is_logged.set(false);
    if P::LOCKS_READS {
        sets.undo_list.clear();
        for write in &sets.writes {
            sets.locks.forget(write.record, Locked::EXCLUSIVE);
        }
    }
}

/// An append that failed left nothing behind.
pub(crate) fn not_appended(error: LogError) -> Error {
    match error {
        LogError::CommitTooLarge { bytes, bytes_max } => Error::TransactionTooLarge {
            len_bytes: bytes,
            max_bytes: bytes_max,
        },
        LogError::DiskFull { .. } | LogError::RegionFull { .. } => Error::DiskFull(error),
        LogError::Closed => Error::Closed,
        other => Error::LogFailed(other),
    }
}
