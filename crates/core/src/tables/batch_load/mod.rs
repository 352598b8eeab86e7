//! Loading many rows into a table in memory, in batches that each commit by itself.
//!
//! ```text
//!   pull rows and encode them, until a batch is full ──► one transaction, through the log ──► wait, a few batches later
//! ```
//! A load is not atomic: other transactions see its batches as they commit, and one that stops
//! leaves those that have committed. In return it has no limit, holds no more than a few batches in
//! memory, and reports up to which row all is durable, so that it can be resumed there. (Atomic
//! loads write an image: `load.rs`.)

mod error;
mod options;
mod report;

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namiki_data::{AsKey, Key, Value, ValueBytes, encoded};

use crate::api::database::Database;
use crate::api::running_body::check_not_nested;
use crate::api::session::Session;
use crate::api::table::{Table, own};
use crate::commit::ticket::Ticket;
use crate::error::Error;
use crate::txn::stage_value::{check_length, unencodable};

pub use error::{BatchLoadError, BatchLoadStop};
pub use options::{BatchLoadOptions, ExistingRows, OnBatchLoadProgress};
pub use report::{BatchLoadProgress, BatchLoadReport};

/// The number of committed batches that may be in flight: enough to encode one while others are
/// written.
const BATCHES_WAITING_MAX: usize = 4;
/// Time between two calls of [`OnBatchLoadProgress`].
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Loading rows in batches.
impl Database {
    /// Writes many rows into a table, in batches. On return all of them are durable.
    ///
    /// Each batch is a transaction; the load as a whole is **not** atomic. Rows that exist already
    /// are overwritten ([`BatchLoadOptions::existing`]). If it stops, the error has the last
    /// durable key, from which to resume.
    ///
    /// To load rows atomically that fit into memory several times, use a transaction
    /// ([`Builder::transaction_bytes_max`](crate::Builder::transaction_bytes_max)); for a table
    /// that is only read, see [`Database::load_sorted`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// let words = db.table::<String, u64>("words")?;
    /// let text = "the quick brown fox jumps over the lazy dog";
    /// let loaded = db.load(&words, text.split(' ').zip(0..))?;
    /// assert_eq!(loaded.durable.rows, 9);
    /// assert_eq!(loaded.last_key, Some("dog"));
    /// assert_eq!(db.transact(|tx| tx.get(&words, "the"))?, Some(6));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BatchLoadError`].
    pub fn load<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K>, W: Borrow<V>>(
        &self,
        table: &Table<K, V>,
        rows: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<BatchLoadReport<Q>, BatchLoadError<Q>> {
        let rows = rows.into_iter().map(Ok::<_, Error>);
        self.load_with(table, rows, &BatchLoadOptions::default())
    }

    /// [`Database::load`] with settings, of rows from a source that can fail. Rows before the
    /// source's failure are loaded.
    ///
    /// # Errors
    /// [`BatchLoadError`].
    pub fn load_with<K, V, Q, W, E>(
        &self,
        table: &Table<K, V>,
        rows: impl IntoIterator<Item = Result<(Q, W), E>>,
        options: &BatchLoadOptions,
    ) -> Result<BatchLoadReport<Q>, BatchLoadError<Q>>
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
        Q: AsKey<K>,
        W: Borrow<V>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let began = Instant::now();
        let free = check_not_nested(self.shared.engine.owner);
        let session = match free.and_then(|()| self.session()) {
            Ok(session) => session,
            Err(error) => {
                return Err(BatchLoadError {
                    stop: BatchLoadStop::Transaction(error),
                    report: BatchLoadReport {
                        durable: BatchLoadProgress::default(),
                        last_key: None,
                    },
                });
            }
        };
        let mut load = BatchLoad {
            session,
            table,
            options,
            began,
            told: began,
            waiting: VecDeque::new(),
            report: BatchLoadReport {
                durable: BatchLoadProgress::default(),
                last_key: None,
            },
        };
        let ran = load.run(rows.into_iter());
        // Batches before the one that failed have committed.
        let stop = match (ran, load.wait_until(0)) {
            (Ok(()), Ok(())) => None,
            (Err(stop), _) | (_, Err(stop)) => Some(stop),
        };
        load.tell(true);
        match stop {
            None => Ok(load.report),
            Some(stop) => Err(BatchLoadError {
                stop,
                report: load.report,
            }),
        }
    }
}

/// Rows of one transaction, encoded.
struct Batch<Q> {
    bytes: Vec<u8>,
    /// Where each row's value begins and ends; its key begins where the value before ends.
    rows: Vec<(usize, usize)>,
    last_key: Option<Q>,
}

/// A batch that is committed.
struct Committed<Q> {
    ticket: Ticket,
    rows: u64,
    skipped: u64,
    bytes: u64,
    last_key: Option<Q>,
}

/// A running load.
struct BatchLoad<'a, K: ?Sized, V: ?Sized, Q> {
    session: Session,
    table: &'a Table<K, V>,
    options: &'a BatchLoadOptions,
    began: Instant,
    /// When progress was last reported.
    told: Instant,
    waiting: VecDeque<Committed<Q>>,
    report: BatchLoadReport<Q>,
}

impl<K: Key + ?Sized, V: Value + ?Sized, Q: AsKey<K>> BatchLoad<'_, K, V, Q> {
    fn run<W: Borrow<V>, E: Into<Box<dyn StdError + Send + Sync>>>(
        &mut self,
        mut rows: impl Iterator<Item = Result<(Q, W), E>>,
    ) -> Result<(), BatchLoadStop> {
        let mut batch = Batch {
            bytes: Vec::new(),
            rows: Vec::new(),
            last_key: None,
        };
        let mut value = ValueBytes::new();
        loop {
            let row = rows.next();
            let taken = match row {
                Some(Ok((key, row))) => self.take(&mut batch, &mut value, key, row.borrow()),
                // Rows that were taken before the failure are still loaded.
                Some(Err(source)) => {
                    self.commit(&mut batch)?;
                    return Err(BatchLoadStop::Source(Arc::from(source.into())));
                }
                None => return self.commit(&mut batch),
            };
            if let Err(error) = taken {
                self.commit(&mut batch)?;
                return Err(BatchLoadStop::Transaction(error));
            }
            let is_full = batch.rows.len() >= self.options.batch_rows
                || batch.bytes.len() >= self.options.batch_bytes;
            if is_full {
                self.commit(&mut batch)?;
            }
        }
    }

    /// Takes a row into the batch. On an error the batch is as before.
    fn take(
        &self,
        batch: &mut Batch<Q>,
        value: &mut ValueBytes,
        key: Q,
        row: &V,
    ) -> Result<(), Error> {
        let tx = self.session.transaction();
        // Whether the transaction may use it is asked when the batch is committed.
        let raw_table = self.table.raw_table();
        let key_bytes = encoded::<K, _>(&key);
        let max_bytes = tx.value_bytes_max();
        check_length(raw_table, &key_bytes, row.encoded_bytes_min(), max_bytes)?;
        value.clear();
        row.encode(value);
        if let Some(why) = value.take_refusal() {
            return Err(unencodable(raw_table, &why));
        }
        batch.bytes.extend_from_slice(&key_bytes);
        let from = batch.bytes.len();
        batch.bytes.extend_from_slice(value);
        batch.rows.push((from, batch.bytes.len()));
        batch.last_key = Some(key);
        Ok(())
    }

    /// Commits the batch, and empties it.
    fn commit(&mut self, batch: &mut Batch<Q>) -> Result<(), BatchLoadStop> {
        let interrupt = self.options.interrupt.as_ref();
        if interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Err(BatchLoadStop::Interrupted);
        }
        if batch.rows.is_empty() {
            return Ok(());
        }
        let (table, existing) = (self.table, self.options.existing);
        let written = self.session.transact_async(|tx| {
            let raw_table = own(tx, table)?;
            let (mut skipped, mut skipped_bytes, mut at) = (0_u64, 0, 0);
            for &(from, end) in &batch.rows {
                let (key, value) = (&batch.bytes[at..from], &batch.bytes[from..end]);
                let encode = |into: &mut ValueBytes| into.extend_from_slice(value);
                match existing {
                    ExistingRows::Overwrite => tx.put_bytes(raw_table, key, encode)?,
                    ExistingRows::Keep => {
                        if !tx.insert_bytes(raw_table, key, encode)? {
                            skipped += 1;
                            skipped_bytes += end - at;
                        }
                    }
                }
                at = end;
            }
            Ok((skipped, skipped_bytes))
        });
        let ((skipped, skipped_bytes), ticket) = written.map_err(BatchLoadStop::Transaction)?;
        self.waiting.push_back(Committed {
            ticket,
            rows: batch.rows.len() as u64 - skipped,
            skipped,
            bytes: (batch.bytes.len() - skipped_bytes) as u64,
            last_key: batch.last_key.take(),
        });
        batch.bytes.clear();
        batch.rows.clear();
        self.wait_until(BATCHES_WAITING_MAX)?;
        self.tell(false);
        Ok(())
    }

    /// Waits until at most `waiting_max` batches may not be durable.
    fn wait_until(&mut self, waiting_max: usize) -> Result<(), BatchLoadStop> {
        while let Some(first) = self.waiting.front() {
            if self.waiting.len() > waiting_max {
                let waited = self.session.wait(&first.ticket);
                waited.map_err(BatchLoadStop::Transaction)?;
            } else if !self.session.is_acknowledged(&first.ticket) {
                break;
            }
            if let Some(first) = self.waiting.pop_front() {
                let durable = &mut self.report.durable;
                durable.rows += first.rows;
                durable.skipped += first.skipped;
                durable.bytes += first.bytes;
                durable.batches += 1;
                self.report.last_key = first.last_key;
            }
        }
        Ok(())
    }

    /// Reports progress, if it is due.
    fn tell(&mut self, is_end: bool) {
        self.report.durable.elapsed = self.began.elapsed();
        if let Some(on_progress) = &self.options.on_progress
            && (is_end || self.told.elapsed() >= PROGRESS_INTERVAL)
        {
            self.told = Instant::now();
            on_progress(&self.report.durable);
        }
    }
}
