//! The handle of a database: opening, transactions, sessions, and closing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;
use std::{fmt, io};

use crossbeam_utils::CachePadded;
use namiki_log::{LogError, remove_generations};
use namiki_platform::WorkerId;
use namiki_platform::disk::{DirLock, Disk, MemoryDisk};
use parking_lot::Mutex;

use crate::api::session::Session;
use crate::catalogue::catalogue_files::NotWritten;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::commit::engine::Engine;
use crate::commit::ticket::{self, Acknowledged, Ticket};
use crate::error::{Error, OpenError};
use crate::events;
use crate::image::write::image_writer::PresentImage;
use crate::live::catalogue::{Catalogue, CatalogueCell, ReleaseOnDrop, catalogue_error};
use crate::live::opened_tables::OpenedTables;
use crate::live::tables_in_segments::TablesInSegments;
use crate::protocol_spec::{LockRelease, Logging, ProtocolSpec};
use crate::recovery::{ImageLoader, RecoveryReport};
use crate::settings::autotune::TunedConfig;
use crate::settings::builder::Builder;
use crate::settings::config::Indexes;
use crate::thread_number;
use crate::txn::Transaction;

/// The number of pools of idle sessions, so that threads rarely share one.
const POOLS: usize = 16;
/// An open database.
///
/// A handle: cloning it is cheap, and all clones are the same database. It is closed by
/// [`Database::close`], or when the last handle is dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("data");
/// let db = namiki::Database::open(&dir)?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// db.transact(|tx| {
///     tx.put(&accounts, &1, &100)?;
///     tx.put(&accounts, &2, &0)
/// })?;
/// db.transact(|tx| {
///     let from = tx.get(&accounts, &1)?.unwrap_or(0);
///     if from < 10 {
///         return tx.abort("insufficient funds");
///     }
///     tx.put(&accounts, &1, &(from - 10))?;
///     tx.update(&accounts, &2, |to| to + 10)?;
///     Ok(())
/// })?; // returns when the commit is durable
/// # assert_eq!(db.transact(|tx| tx.scan(&accounts, ..))?, [(1, 90), (2, 10)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) indexes: Indexes,
    pub(crate) tuned_config: Option<TunedConfig>,
    pub(crate) recovery: RecoveryReport,
    pub(crate) catalogue: CatalogueCell,
    /// Loads the tables of the image.
    pub(crate) loader: Arc<ImageLoader>,
    /// `None` for a database without a log.
    pub(crate) checkpointer: Option<Checkpointer>,
    /// The present image of a replica. Locked while one is written.
    pub(crate) replica_image: Mutex<Option<PresentImage>>,
    /// Held until the directory is free: closing can take as long as a backup.
    pub(crate) closing: Mutex<()>,
    /// `None` once the database is closed. Locked only briefly: a forked child has to release the
    /// directory whatever the state of the catalogue.
    pub(crate) dir_lock: Mutex<Option<DirLock>>,
    pub(crate) pools: [CachePadded<Mutex<Vec<Session>>>; POOLS],
    pub(crate) next_worker: AtomicU16,
    /// The page cache, the executor and the open segments, which queries share.
    pub(crate) opened: OpenedTables,
    pub(crate) in_segments: TablesInSegments,
    /// How many threads load a table.
    pub(crate) loading_threads: usize,
    pub(crate) opened_at: Instant,
}

impl Database {
    /// Opens the database in a directory, which is created if it does not exist, and recovers it.
    /// It returns when the log is replayed; tables are then loaded in the background, see
    /// [`Database::loading`].
    ///
    /// The process that opens it uses it: a forked child is refused ([`Error::Forked`]). A program
    /// that needs a database in its children forks before it opens one, or starts another program
    /// (`exec`). A child that was forked later has a copy of memory that other threads may have
    /// been changing, including the shared state of this library, and it does not have those
    /// threads.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing that the database holds is changed then.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::builder().open(dir)
    }

    /// A database in memory, which is lost when its last handle is dropped: for tests, and for data
    /// that need not be durable. Transactions have the same guarantees otherwise; they write no
    /// log, and never wait for a disk.
    ///
    /// For one with a log that can be closed and opened again, give [`Builder::disk`] a
    /// [`MemoryDisk`](crate::disk::MemoryDisk).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = namiki::Database::in_memory()?;
    /// let names = db.table::<u64, String>("names")?;
    /// db.transact(|tx| tx.put(&names, &1, &"Alice".to_owned()))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OpenError`], if memory is short.
    pub fn in_memory() -> Result<Self, OpenError> {
        let spec = ProtocolSpec {
            release: LockRelease::Normal,
            logging: Logging::None,
            ..ProtocolSpec::DEFAULT
        };
        Self::builder()
            .disk(Arc::new(MemoryDisk::new()))
            .spec(spec)
            .open("/memory")
    }

    /// Settings to open a database with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn from_shared(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Runs a transaction and returns when it is durable.
    ///
    /// `body` is retried after a conflict, so it must have no effects other than through its
    /// transaction. Its reads may be inconsistent; such an attempt is retried, even if `body`
    /// returns an error. An error that is passed on rolls the transaction back, and so does a
    /// panic. Every `Ok` commits: `Ok(Err(refused))` commits what was written before the refusal,
    /// so a body that refuses with an error of its own is run by [`Database::transact_with`].
    /// `body` should not block: memory that tables retire is not reused while it runs.
    ///
    /// The body hands its [`Transaction`] to the functions that it calls. One that runs another
    /// transaction of this database instead, on the same thread, gets [`Error::NestedTransaction`]
    /// at once: it would commit each time that the body is run. Views, and transactions that are
    /// [begun](Database::begin), are allowed.
    ///
    /// Starvation avoidance: after 64 conflicts in a row it requests exclusive commit priority,
    /// which is granted in the order of requests, for 32 attempts. While it has priority, all other
    /// transactions wait before they write, for 50 ms, or for up to 1.6 s if that was not enough.
    /// (Under strict two-phase locking, the oldest transaction that waits for a lock is granted it
    /// first.) Under concurrency control that validates, a body that takes longer than that can
    /// starve: writers of the records that it reads may invalidate every attempt.
    ///
    /// # Errors
    /// What `body` returns, other than a conflict; [`Error::TooManyConflicts`]; [`Error::NestedTransaction`]; and the errors of
    /// [`Transaction::commit`].
    pub fn transact<T>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_session(|session| session.transact(body))
    }

    /// [`Database::transact`] for a body that refuses with an error of its own. Any `Err` rolls
    /// back; errors of the engine are converted to `E`.
    ///
    /// A conflict that the transaction has met is retried, whatever `body` makes of it: the refusal
    /// of an attempt that met one, or has read a version that was no longer current, is not
    /// returned. (A conflict of another transaction, begun inside the body, is not this one's, and
    /// is returned as the body returns it.)
    ///
    /// ```
    /// #[derive(Debug, PartialEq)]
    /// enum PaymentError {
    ///     /// The account lacks so much.
    ///     Refused { missing: i64 },
    ///     Database(String),
    /// }
    ///
    /// impl From<namiki::Error> for PaymentError {
    ///     fn from(error: namiki::Error) -> Self {
    ///         Self::Database(error.to_string())
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(&dir.path().join("data"))?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &3))?;
    ///
    /// // Right: the refusal is the transaction's error, and nothing of it has happened.
    /// let paid = db.transact_with(|tx| {
    ///     tx.put(&accounts, &2, &10)?;
    ///     let from = tx.get(&accounts, &1)?.unwrap_or(0);
    ///     if from < 10 {
    ///         return Err(PaymentError::Refused { missing: 10 - from });
    ///     }
    ///     tx.put(&accounts, &1, &(from - 10))?;
    ///     Ok(())
    /// });
    /// assert_eq!(paid, Err(PaymentError::Refused { missing: 7 }));
    /// assert_eq!(db.transact(|tx| tx.get(&accounts, &2))?, None);
    ///
    /// // Wrong: the transaction ends with `Ok`, so it commits what was written before the refusal.
    /// let refused = db.transact(|tx| {
    ///     tx.put(&accounts, &2, &10)?;
    ///     Ok(Err::<(), _>("insufficient funds"))
    /// })?;
    /// assert!(refused.is_err());
    /// assert_eq!(db.transact(|tx| tx.get(&accounts, &2))?, Some(10)); // from nowhere
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `body` returns, unless a conflict was met; and the errors of [`Database::transact`], as an `E`.
    pub fn transact_with<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.with_session(|session| session.transact_with(body))
    }

    /// Runs this in a session of the pool.
    fn with_session<T, E: From<Error>>(
        &self,
        run: impl FnOnce(&mut Session) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut session = self.pooled_session()?;
        let result = run(&mut session);
        self.return_session(session);
        result
    }

    /// A session of the pool, or a new one.
    pub(crate) fn pooled_session(&self) -> Result<Session, Error> {
        // Checked before the pool is locked: in a forked child, a thread that does not exist there
        // may hold the lock.
        self.shared.engine.check_process()?;
        let pooled = self.pool().lock().pop();
        pooled.map_or_else(|| self.session(), Ok)
    }

    /// Returns a session to the pool.
    pub(crate) fn return_session(&self, session: Session) {
        // As above: in a forked child, the session is not touched.
        if self.shared.engine.is_own() {
            self.pool().lock().push(session);
        } else {
            std::mem::forget(session);
        }
    }

    fn pool(&self) -> &Mutex<Vec<Session>> {
        &self.shared.pools[thread_number::number() % POOLS]
    }

    /// A session for a thread that runs many transactions. Sessions use the log's streams round-robin.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::TooManySessions`].
    pub fn session(&self) -> Result<Session, Error> {
        self.session_on(self.shared.next_worker())
    }

    /// A session on a stream of the caller's choice, counted from 0 and modulo their number.
    ///
    /// # Errors
    /// As [`Database::session`].
    pub fn session_on(&self, worker: WorkerId) -> Result<Session, Error> {
        let seed = u64::from(worker.0) + 1;
        Ok(Session::new(self.transaction_on(worker)?, seed))
    }

    /// Begins a transaction that its owner ends, with [`Transaction::commit`] or by dropping it.
    /// Each such transaction registers in a list that all threads share; a [`Session`] registers
    /// once for many transactions, and so does [`Database::transact`], which pools sessions. A
    /// manual retry after a conflict has no retry priority: only `transact` knows how often a
    /// transaction has been aborted.
    ///
    /// # Errors
    /// As [`Database::session`].
    pub fn begin(&self) -> Result<Transaction, Error> {
        let mut transaction = self.transaction_on(self.shared.next_worker())?;
        transaction.hold();
        Ok(transaction)
    }

    fn transaction_on(&self, worker: WorkerId) -> Result<Transaction, Error> {
        Transaction::begin(&self.shared.engine, worker)
    }

    /// Whether the transaction is durable, and everything it depends on. This does not flush; the
    /// flusher does, so repeated calls return true eventually. If the system allows no thread for
    /// the flusher, this call flushes overdue groups in its place, and waits for that. With a
    /// [`Builder::group_wait_max`](crate::Builder::group_wait_max) of `Duration::MAX` there is no
    /// flusher, and another caller has to flush, under early release every stream. Under release by
    /// epochs (`EPOCH`) that may not suffice: there, a caller has to wait for the transaction.
    #[must_use]
    pub fn is_acknowledged(&self, ticket: &Ticket) -> bool {
        ticket::is_acknowledged(&self.shared.engine, ticket)
    }

    /// Returns when the transaction is durable, and everything it depends on.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the log failed. [`Error::Forked`] in a forked child of the process that has
    /// the database open, unless it was durable before.
    pub fn wait(&self, ticket: &Ticket) -> Result<(), Error> {
        ticket::wait(&self.shared.engine, ticket)
    }

    /// A future that ends when the transaction is durable, and everything it depends on. It needs no
    /// particular runtime. Its first poll calls the log's own thread, which flushes what the transaction needs
    /// as [`Database::wait`] would: automatic groups at once, others when they are full, and at the latest
    /// after [`Builder::group_wait_max`]. No poll waits for the disk, unless there is no such thread: if that is
    /// `Duration::MAX`, or the system allows none.
    ///
    /// Its output is that of [`Database::wait`]. Wakers are called by the thread that made the
    /// transaction durable: one that commits or waits, or the log's own. The future keeps the
    /// tables' contents in memory, but does not keep the database open.
    ///
    /// [`Builder::group_wait_max`]: crate::Builder::group_wait_max
    pub fn acknowledged(&self, ticket: Ticket) -> Acknowledged {
        Acknowledged::new(Arc::clone(&self.shared.engine), ticket)
    }

    /// Makes the group durable now that a stream of the log gathers, counted from 0 and modulo their
    /// number, and wakes the tasks that wait for its commits. Returns at once if nothing is pending;
    /// otherwise it waits for one write to the device, or two.
    ///
    /// For a runtime with a stream for each of its threads: a thread calls this when it has nothing
    /// else to do (tokio's `on_thread_park`), and from time to time if that never happens. So the
    /// commits of all tasks that were ready share a group. The tasks await
    /// [`Acknowledged::flushed_by_caller`].
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the log fails, or has failed; [`Error::Forked`].
    pub fn flush_stream(&self, worker: WorkerId) -> Result<(), Error> {
        let Some(log) = &self.shared.engine.log else {
            return Ok(());
        };
        let flushed = log.stream(worker).flush();
        flushed.map_err(ticket::not_acknowledged)
    }

    /// As [`Database::flush_stream`], but the log's own thread flushes, and the call does not wait: for a thread that may
    /// have something else to do soon. A poll of [`Acknowledged::flushed_by_caller`] waits for its group itself if there
    /// is no such thread.
    pub fn request_flush(&self, worker: WorkerId) {
        if let Some(log) = &self.shared.engine.log {
            log.stream(worker).request_flush();
        }
    }

    /// The protocol with which the database runs its transactions.
    #[must_use]
    pub fn spec(&self) -> ProtocolSpec {
        self.shared.engine.spec
    }

    /// The protocol that was chosen for the database, and the reason, if it was opened with
    /// [`ProtocolChoice::Auto`](crate::ProtocolChoice::Auto).
    #[must_use]
    pub fn tuned_config(&self) -> Option<&TunedConfig> {
        self.shared.tuned_config.as_ref()
    }

    /// The directory of the database.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The report of the recovery at opening.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.shared.recovery
    }

    /// Makes everything that was committed durable, and releases the directory. Transactions that
    /// have not committed by now fail with [`Error::Closed`], and so do loads, shortly after; the
    /// directory stays locked until they have removed their files. Closing again returns the same
    /// result.
    ///
    /// # Errors
    /// [`Error::NotClosed`] says whether all that was committed is durable; [`Error::AnotherWriter`]: the
    /// directory is free then, too, and the next opening recovers it as after a crash. [`Error::BackupBehind`]: the database
    /// is closed in order, and the backup that follows it is not up to date. [`Error::Forked`]
    /// in a forked child of the process that opened it; it stays open there.
    pub fn close(&self) -> Result<(), Error> {
        self.shared.close()
    }
}

/// The reason why the database was not closed in order.
enum Unsealed {
    Log(LogError),
    /// The log is closed.
    Manifest(io::Error),
    AnotherWriter(Error),
}

impl Shared {
    /// The log's streams, round-robin.
    pub(crate) fn next_worker(&self) -> WorkerId {
        WorkerId(self.next_worker.fetch_add(1, Ordering::Relaxed))
    }

    fn close(&self) -> Result<(), Error> {
        self.engine.check_process()?;
        let _closing = self.closing.lock();
        self.engine.shut();
        // Before the checkpointer, which may wait for it.
        self.loader.stop();
        let last_checkpoint = self.checkpointer.as_ref().and_then(Checkpointer::close);
        let mut catalogue = self.catalogue.lock();
        if let Some(closed) = &catalogue.closed {
            return closed.clone();
        }
        let _release = ReleaseOnDrop(&self.dir_lock);
        for pool in &self.pools {
            pool.lock().clear();
        }
        let not_closed = |(is_durable, source)| Error::NotClosed {
            dir: self.dir.clone(),
            is_durable,
            last_checkpoint: last_checkpoint.clone().map(Box::new),
            source,
        };
        let panicked = io::Error::other("a panic in the middle of closing");
        catalogue.closed = Some(Err(not_closed((false, Arc::new(panicked)))));
        let mut closed = self.seal(&mut catalogue).map_err(|error| match error {
            Unsealed::Log(error) => not_closed((false, Arc::new(error))),
            Unsealed::Manifest(source) => not_closed((true, Arc::new(source))),
            Unsealed::AnotherWriter(error) => error,
        });
        events::closed(&self.dir, &closed);
        catalogue.closed = Some(closed.clone());
        if let (Ok(()), Some(checkpointer)) = (&closed, &self.checkpointer) {
            let manifest = catalogue.manifest.clone();
            // It may take long, and statistics lock the catalogue.
            drop(catalogue);
            closed = checkpointer.back_up_at_the_end(&manifest);
            catalogue = self.catalogue.lock();
            catalogue.closed = Some(closed.clone());
        }
        if !catalogue.loading.names.is_empty() {
            catalogue.loading.dir_lock = self.dir_lock.lock().take();
        }
        closed
    }

    fn seal(&self, catalogue: &mut Catalogue) -> Result<(), Unsealed> {
        let Some(log) = &self.engine.log else {
            return self.write_closed(catalogue);
        };
        let seal = log.close().map_err(Unsealed::Log)?;
        let frames = seal.last_sequences.iter().sum();
        catalogue.manifest.history.end_with_frames(frames);
        if let Some(last) = catalogue.manifest.generations.last_mut() {
            last.seal = Some(seal);
        }
        self.write_closed(catalogue)
    }

    fn write_closed(&self, catalogue: &mut Catalogue) -> Result<(), Unsealed> {
        if self.engine.read_only {
            return Ok(());
        }
        let Catalogue {
            manifest, files, ..
        } = catalogue;
        manifest.closed = true;
        if let Some(image) = &manifest.image_list {
            // If the last checkpoint contains the whole log, the next opening reads no log.
            manifest.drop_superfluous_generations(image.stamp);
        }
        let closed = files.close(&*self.disk, &self.dir, manifest);
        closed.map_err(|why| match why {
            NotWritten::Device(source) => Unsealed::Manifest(source),
            NotWritten::AnotherWriter => {
                Unsealed::AnotherWriter(catalogue_error(&self.dir, why, false))
            }
        })?;
        // The next opening removes the generations that remain.
        let removed = remove_generations(
            &*self.disk,
            &self.dir.join("wal"),
            manifest.oldest_generation,
        );
        events::superfluous_removed(&removed);
        Ok(())
    }

    /// In a forked child: releases only the resources that the child shares with its parent. Memory
    /// is left as the fork found it: a thread that does not exist in the child may have been
    /// changing it.
    fn abandon(&mut self) {
        let is_whole = !self.dir_lock.is_locked();
        let lock = self.dir_lock.get_mut().take();
        if is_whole {
            // Without this, the child would keep the directory locked after the end of its parent.
            drop(lock);
        } else {
            // The parent is closing: it unlocks the directory.
            std::mem::forget(lock);
        }
        std::mem::forget(Arc::clone(&self.catalogue));
        std::mem::forget(Arc::clone(&self.loader));
        if let Some(checkpointer) = self.checkpointer.take() {
            checkpointer.abandon();
        }
        for pool in &mut self.pools {
            std::mem::forget(std::mem::take(pool.get_mut()));
        }
        // Its threads do not exist in the child, and the locks that they share may be held.
        std::mem::forget(std::mem::replace(&mut self.opened, OpenedTables::new(0)));
        std::mem::forget(std::mem::take(&mut self.in_segments));
        std::mem::forget(Arc::clone(&self.engine));
        std::mem::forget(Arc::clone(&self.disk));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.engine.is_own() {
            return self.abandon();
        }
        // A caller that needs the result calls `Database::close`.
        let _ = self.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("dir", &self.shared.dir)
            .field("spec", &self.shared.engine.spec)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::error::Conflict;
    use crate::storage::free_large_buffers::LARGE_BYTES;

    /// An allocation of a megabyte for each attempt would make conflicts slower, which makes more of them.
    #[test]
    fn large_buffers_are_kept_until_the_last_attempt() {
        let db = Database::builder()
            .disk(Arc::new(SimDisk::new()))
            .attempts_max(NonZeroU32::new(3).unwrap())
            .buffer_bytes(4 << 20)
            .open("/db")
            .unwrap();
        let table = db.table::<u64, [u8]>("values").unwrap();
        let mut session = db.session().unwrap();
        let large = vec![7; LARGE_BYTES];
        let mut kept = Vec::new();
        let done = session.transact(|tx| {
            kept.push(tx.has_large_buffers());
            tx.put(&table, &1, &large)?;
            Err::<(), _>(Error::Conflict(Conflict::ReadChanged))
        });
        assert!(matches!(done, Err(Error::TooManyConflicts { .. })));
        for _ in 0..2 {
            let tried = session.try_transact_async(|tx| {
                kept.push(tx.has_large_buffers());
                tx.put(&table, &1, &large)
            });
            tried.unwrap();
        }
        assert_eq!(kept, [false, true, true, false, false]);
    }
}
