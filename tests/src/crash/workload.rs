//! Runs that produce the events to be crashed at.

use std::io::ErrorKind;

use namiki::faults;
use namiki::{
    Database, Error, LockRelease, LogError, Session, Table, Ticket, Transaction, View, WorkerId,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;

use super::oracle::Done;
use super::shown_views::ShownView;
use super::tables::KEYS;
use super::{Oracle, Tables};
use crate::key_encoding::Numbered;

/// The reason that a run stopped early: a planned disk failure or a mismatch.
pub type Failure = Error;

/// When a client is told that a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// Once the transaction is durable.
    WhenDurable,
    /// A planted bug: writers are acknowledged at once.
    WritersTooEarly,
    /// A planted bug: readers are acknowledged at once.
    ReadersTooEarly,
    /// A planted bug: the contents of a view are flushed, and not certified.
    ViewsTooEarly,
}

/// The behaviour of the clients in a run.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// When they are told that a transaction is committed.
    pub acknowledge: Acknowledge,
    /// Whether some transactions are longer than a log buffer or a log file.
    pub large: bool,
    /// Whether the run takes backups.
    pub backs_up: bool,
}

impl From<Acknowledge> for Clients {
    fn from(acknowledge: Acknowledge) -> Self {
        Self {
            acknowledge,
            large: false,
            backs_up: false,
        }
    }
}

/// Maximum number of open views in a worker.
const VIEWS_MAX: usize = 2;

/// A session, and its commits that are not acknowledged yet.
struct Worker<K> {
    session: Session,
    /// On the same stream: flushes it in the middle of a transaction.
    flusher: Session,
    /// A transaction that has written and never commits.
    open: Option<Transaction>,
    views: Vec<View>,
    random: Random,
    waiting: Vec<(u64, Ticket)>,
    oracle: Oracle,
    clients: Clients,
    db: Database,
    /// A table created during the run, and its number.
    extra: Option<(u64, Table<K, ()>)>,
}

impl<K: Numbered> Worker<K> {
    fn new(db: &Database, number: u16, clients: Clients, random: Random) -> Result<Self, Error> {
        Ok(Self {
            clients,
            db: db.clone(),
            extra: None,
            session: db.session_on(WorkerId(number))?,
            flusher: db.session_on(WorkerId(number))?,
            open: None,
            views: Vec::new(),
            random,
            waiting: Vec::new(),
            oracle: Oracle::default(),
        })
    }

    /// Tells the disk which commits are acknowledged by now.
    fn poll(&mut self, disk: &SimDisk) {
        let session = &self.session;
        let too_early = |id| match self.clients.acknowledge {
            Acknowledge::WhenDurable | Acknowledge::ViewsTooEarly => false,
            Acknowledge::WritersTooEarly => self.oracle.stamp_of_writer(id).is_some(),
            Acknowledge::ReadersTooEarly => self.oracle.stamp_of_writer(id).is_none(),
        };
        self.waiting.retain(|(id, ticket)| {
            let acknowledged = session.is_acknowledged(ticket) || too_early(*id);
            if acknowledged {
                disk.mark(*id);
            }
            !acknowledged
        });
    }

    /// Runs one transaction; conflicts and a full disk abort it.
    fn transact(&mut self, tables: &Tables<K>, id: u64) -> Result<bool, Error> {
        let release = self.db.spec().release;
        let mut done = Done {
            by_epochs: release == LockRelease::EpochEarly,
            ..Done::default()
        };
        let random = &mut self.random;
        if random.chance(0.04) {
            match self.db.table(&format!("extra {id}")) {
                Ok(table) => self.extra = Some((id, table)),
                Err(error) if is_full(&error) => self.oracle.refuse(error),
                Err(error) => return Err(error),
            }
        }
        // The run must not wait for its own transaction.
        self.open = None;
        let (extra, flusher) = (&self.extra, &self.flusher);
        let large = self.clients.large;
        let operations = self.db.spec().logs_operations();
        let ended = self.session.try_transact_async(|tx| {
            if random.chance(0.15) {
                return read_only(tx, tables, random, &mut done);
            }
            if random.chance(0.1) {
                return give_up(tx, tables, random, flusher);
            }
            if operations && random.chance(0.05) {
                write_much(tx, tables, random)?;
            }
            write(tx, tables, id, random, flusher, large, &mut done)?;
            if let Some((number, table)) = extra
                && !done.writes.is_empty()
            {
                done.extra = Some(*number);
                tx.insert(table, &K::from(id), &())?;
            }
            Ok(())
        });
        match ended {
            Ok(((), ticket)) => {
                done.stamp = Some(ticket.stamp().0);
                self.oracle.push(id, done);
                self.waiting.push((id, ticket));
                Ok(true)
            }
            Err(Error::Conflict(_) | Error::Aborted(_)) => Ok(false),
            // No room until the next checkpoint, or until the log is no longer held back.
            Err(Error::DiskFull(LogError::RegionFull { .. })) => Ok(false),
            Err(error) if is_full(&error) => {
                self.oracle.refuse(error);
                Ok(false)
            }
            Err(error) => {
                if matches!(error, Error::OutcomeUnknown(_)) {
                    self.oracle.push(id, done);
                }
                Err(error)
            }
        }
    }

    /// Sometimes opens a view, which is read for a while; sometimes takes a checkpoint, even with
    /// transactions open. `id` is that of the previous transaction.
    fn look(&mut self, tables: &Tables<K>, disk: &SimDisk, id: u64) -> Result<(), Error> {
        if self.views.len() < VIEWS_MAX && self.random.chance(0.06) {
            let view = match self.clients.acknowledge {
                Acknowledge::ViewsTooEarly => self.db.faulty_view::<faults::ViewOnlyFlushes>(),
                _ => self.db.view(),
            };
            match view {
                Ok(view) => self.views.push(view),
                Err(error) if is_full(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.views.is_empty() {
            let at = self.random.index(self.views.len());
            let shown = ShownView::read(&self.views[at], tables)?;
            disk.mark(self.oracle.show(id, shown));
            if self.random.chance(0.3) {
                self.views.swap_remove(at);
            }
        }
        if self.clients.backs_up && self.random.chance(0.025) {
            self.oracle.backups.take(&self.db, disk)?;
        }
        let region = self.db.stats().checkpoints.region;
        let is_half_full = region.is_some_and(|it| it.kept_bytes > it.bytes / 2);
        if !is_half_full && !self.random.chance(0.05) {
            return Ok(());
        }
        // The image may then have rows of keys that no index has any more.
        if self.random.chance(0.5) {
            match self.db.take_out_deleted_keys() {
                Err(error) if !is_full(&error) => return Err(error),
                _ => {}
            }
        }
        self.oracle.checkpoints.take(&self.db, disk)
    }

    /// Sometimes flushes, sometimes waits, sometimes leaves a transaction open.
    fn idle(&mut self, tables: &Tables<K>, percent: u64) -> Result<(), Error> {
        if self.random.below(100) < percent {
            self.session.flush()?;
        }
        if self.random.below(100) < percent
            && let Some((_, ticket)) = self.waiting.last()
        {
            self.session.wait(ticket)?;
        }
        if self.random.chance(0.05) {
            self.open = leave_open(&self.db, tables, &mut self.random)?;
        }
        Ok(())
    }
}

fn read<K: Numbered>(
    tx: &mut Transaction,
    tables: &Tables<K>,
    key: u64,
    done: &mut Done,
) -> Result<(), Error> {
    if !done.writes.contains_key(&key) {
        let version = tx.version(&tables.data, &K::from(key))?;
        done.reads.push((key, version.stamp.0));
    }
    Ok(())
}

fn read_only(
    tx: &mut Transaction,
    tables: &Tables<impl Numbered>,
    random: &mut Random,
    done: &mut Done,
) -> Result<(), Error> {
    for _ in 0..1 + random.below(3) {
        read(tx, tables, random.below(KEYS), done)?;
    }
    Ok(())
}

fn write<K: Numbered>(
    tx: &mut Transaction,
    tables: &Tables<K>,
    id: u64,
    random: &mut Random,
    flusher: &Session,
    large: bool,
    done: &mut Done,
) -> Result<(), Error> {
    for _ in 0..1 + random.below(3) {
        if random.chance(0.1) {
            let savepoint = tx.savepoint();
            scribble(tx, tables, random)?;
            flush_sometimes(flusher, random)?;
            tx.rollback_to(&savepoint)?;
        }
        flush_sometimes(flusher, random)?;
        let key = random.below(KEYS);
        if random.chance(0.6) {
            read(tx, tables, key, done)?;
        }
        let read_before = done.reads.iter().any(|(read, _)| *read == key);
        if read_before && random.chance(0.2) {
            // Deleting an absent key leaves no trace, so the result must be known.
            if tx.delete(&tables.data, &K::from(key))? {
                done.writes.insert(key, None);
            }
            continue;
        }
        let filler = match random.below(12) {
            // A log buffer holds 8 KiB, and a log file 16 KiB.
            _ if large && random.chance(0.15) => 5_000 + random.index(40_000),
            0 => 500 + random.index(1200),
            1..5 => 0,
            _ => random.index(40),
        };
        let mut value = vec![0; 8 + filler];
        random.fill(&mut value[8..]);
        value[..8].copy_from_slice(&id.to_le_bytes());
        tx.put(&tables.data, &K::from(key), &value[..])?;
        done.writes.insert(key, Some(value));
    }
    if done.writes.is_empty() {
        return Ok(());
    }
    let writes = done.writes.len() as u64;
    tx.put(&tables.first, &K::from(id), &writes)?;
    tx.put(&tables.last, &K::from(id), &writes)
}

/// Where operations are logged, flushes the work of an open transaction to the disk.
fn flush_sometimes(flusher: &Session, random: &mut Random) -> Result<(), Error> {
    if random.chance(0.1) {
        flusher.flush()
    } else {
        Ok(())
    }
}

/// Writes values that must never be seen.
fn scribble<K: Numbered>(
    tx: &mut Transaction,
    tables: &Tables<K>,
    random: &mut Random,
) -> Result<(), Error> {
    for _ in 0..1 + random.below(3) {
        let key = K::from(random.below(KEYS));
        if random.chance(0.2) {
            tx.delete(&tables.data, &key)?;
        } else {
            let scribbled = vec![0xee; random.index(60)];
            tx.put(&tables.data, &key, &scribbled[..])?;
        }
    }
    tx.put(&tables.first, &K::from(u64::MAX - 1), &u64::MAX)
}

/// A transaction that is rolled back, perhaps after a partial rollback.
fn give_up<K: Numbered>(
    tx: &mut Transaction,
    tables: &Tables<K>,
    random: &mut Random,
    flusher: &Session,
) -> Result<(), Error> {
    scribble(tx, tables, random)?;
    if random.chance(0.5) {
        let savepoint = tx.savepoint();
        scribble(tx, tables, random)?;
        flush_sometimes(flusher, random)?;
        tx.rollback_to(&savepoint)?;
        scribble(tx, tables, random)?;
    }
    if random.chance(0.5) {
        flusher.flush()?;
    }
    tx.abort("as planned")
}

/// Leaves a transaction open; `None` if a lock prevents it.
fn leave_open<K: Numbered>(
    db: &Database,
    tables: &Tables<K>,
    random: &mut Random,
) -> Result<Option<Transaction>, Error> {
    let mut tx = db.begin()?;
    match scribble(&mut tx, tables, random) {
        Ok(()) => Ok(Some(tx)),
        Err(Error::Conflict(_)) => Ok(None),
        Err(error) if is_full(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the error says that the disk or a region has no room, so that the transaction had no
/// effect.
fn is_full(error: &Error) -> bool {
    match error {
        Error::DiskFull(LogError::DiskFull { .. } | LogError::RegionFull { .. }) => true,
        Error::Manifest { source, .. } => source.kind() == ErrorKind::StorageFull,
        _ => false,
    }
}

/// Writes one key repeatedly, more than a log buffer holds, and rolls back.
fn write_much<K: Numbered>(
    tx: &mut Transaction,
    tables: &Tables<K>,
    random: &mut Random,
) -> Result<(), Error> {
    let savepoint = tx.savepoint();
    let key = K::from(random.below(KEYS));
    for n in 0..10 + random.below(10) {
        tx.put(&tables.data, &key, &[n as u8; 1000][..])?;
    }
    tx.rollback_to(&savepoint)
}

/// Runs `transactions` transactions with ids from `first_id` on, on one thread, in an order and on
/// `sessions` sessions chosen by `random`. Every acknowledgement is marked on the disk.
///
/// Returns the transactions, and the error that ended the run early, if one did.
pub fn run_shuffled<K: Numbered>(
    db: &Database,
    disk: &SimDisk,
    sessions: u16,
    first_id: u64,
    transactions: u64,
    clients: impl Into<Clients>,
    random: &mut Random,
) -> (Oracle, Option<Failure>) {
    let mut workers = Vec::new();
    let outcome = shuffle::<K>(
        &mut workers,
        db,
        disk,
        sessions,
        first_id,
        transactions,
        clients.into(),
        random,
    );
    let mut oracle = Oracle::default();
    for worker in &mut workers {
        oracle.absorb(std::mem::take(&mut worker.oracle));
    }
    (oracle, outcome.err())
}

#[expect(clippy::too_many_arguments, reason = "those of its only caller")]
fn shuffle<K: Numbered>(
    workers: &mut Vec<Worker<K>>,
    db: &Database,
    disk: &SimDisk,
    sessions: u16,
    first_id: u64,
    transactions: u64,
    clients: Clients,
    random: &mut Random,
) -> Result<(), Error> {
    let tables = Tables::<K>::of(db)?;
    let flush_percent = random.below(30);
    for number in 0..sessions {
        let of_its_own = Random::seeded(random.next_u64());
        workers.push(Worker::new(db, number, clients, of_its_own)?);
    }
    for id in first_id..first_id + transactions {
        let chosen = random.index(workers.len());
        let committed = workers[chosen].transact(&tables, id)?;
        workers[chosen].look(&tables, disk, id)?;
        // Another worker's group may hold the lock, and no other thread runs.
        let to_flush = random.index(workers.len());
        let percent = if committed { flush_percent } else { 60 };
        workers[to_flush].idle(&tables, percent)?;
        for worker in workers.iter_mut() {
            worker.poll(disk);
        }
    }
    for worker in workers.iter_mut() {
        // Not all workers: some crash with a group that is not full.
        if random.chance(0.7) {
            worker.session.flush()?;
            worker.poll(disk);
        }
    }
    Ok(())
}

/// Runs `transactions` transactions on each of several threads, so that several writes are under way
/// at a time.
///
/// # Errors
/// Errors of the engine other than conflicts.
pub fn run_threads<K: Numbered>(
    db: &Database,
    disk: &SimDisk,
    threads: u16,
    transactions: u64,
    seed: u64,
) -> Result<Oracle, Failure> {
    let tables = Tables::<K>::of(db)?;
    let one = |thread: u16| -> Result<Oracle, Error> {
        let random = Random::stream(seed, u64::from(thread));
        let mut worker = Worker::new(db, thread, Acknowledge::WhenDurable.into(), random)?;
        let first_id = 1 + u64::from(thread) * 100_000;
        for id in first_id..first_id + transactions {
            let committed = worker.transact(&tables, id)?;
            worker.look(&tables, disk, id)?;
            worker.idle(&tables, if committed { 10 } else { 50 })?;
            worker.poll(disk);
            if worker.random.chance(0.3) {
                std::thread::yield_now();
            }
        }
        worker.session.flush()?;
        worker.poll(disk);
        Ok(worker.oracle)
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let mut oracle = Oracle::default();
        for thread in threads {
            let done = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            oracle.absorb(done?);
        }
        Ok(oracle)
    })
}
