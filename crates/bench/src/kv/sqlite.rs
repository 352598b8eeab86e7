//! SQLite: a B-tree in one file with a write-ahead log, one connection per thread, one writer at a
//! time.

use std::path::PathBuf;
use std::time::Duration;

use namiki::ValueBytes;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::one_writer::{GroupError, GroupWriter, OneWriter, Write, WriteTx, execute};
use super::store::{Handle, Promises, Setting, Store, decoded, encoded, missing, of};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "sqlite";
/// Time limit of a wait for the write lock. A waiter polls, with growing delays.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// Cache size of each connection, in KiB. Other pages are read from the mapped file.
const CACHE_KIB: i64 = 64 << 10;
const MAP_BYTES: i64 = 4 << 30;

const MAKE: &str = "CREATE TABLE IF NOT EXISTS records (k INTEGER PRIMARY KEY, v BLOB NOT NULL)";
const PUT: &str = "INSERT INTO records (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = ?2";
const GET: &str = "SELECT v FROM records WHERE k = ?1";
const SCAN: &str = "SELECT k, v FROM records WHERE k >= ?1 ORDER BY k LIMIT ?2";

/// A database with one table.
pub(crate) struct SqliteStore {
    path: PathBuf,
    durable: bool,
}

impl SqliteStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Self, BenchError> {
        let store = Self {
            path: setting.dir.join("sqlite"),
            durable: setting.durable,
        };
        store.connection()?.execute(MAKE, ()).map_err(of(NAME))?;
        Ok(store)
    }

    fn new_handle(&self) -> Result<SqliteHandle, BenchError> {
        Ok(SqliteHandle {
            connection: self.connection()?,
            value: ValueBytes::new(),
        })
    }

    fn connection(&self) -> Result<Connection, BenchError> {
        let connection = Connection::open(&self.path).map_err(of(NAME))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(of(NAME))?;
        let set = |name: &str, value: &dyn rusqlite::ToSql| {
            connection
                .pragma_update(None, name, value)
                .map_err(of(NAME))
        };
        set("journal_mode", &"WAL")?;
        set("synchronous", if self.durable { &"FULL" } else { &"OFF" })?;
        set("cache_size", &-CACHE_KIB)?;
        set("mmap_size", &MAP_BYTES)?;
        Ok(connection)
    }
}

/// A key as SQLite's integer. Keys are numbers of records, far below its limit.
fn number(key: u64) -> i64 {
    key as i64
}

impl WriteTx for Transaction<'_> {
    fn required(&self, key: u64) -> Result<Payload, BenchError> {
        let mut statement = self.prepare_cached(GET).map_err(of(NAME))?;
        let found = statement
            .query_row([number(key)], |row| {
                Ok(decoded(key, row.get_ref(0)?.as_blob()?))
            })
            .optional();
        found.map_err(of(NAME))?.ok_or_else(|| missing(key))?
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError> {
        let mut statement = self.prepare_cached(PUT).map_err(of(NAME))?;
        statement.execute((number(key), value)).map_err(of(NAME))?;
        Ok(())
    }
}

impl OneWriter for SqliteStore {
    const BATCHED_NAME: &'static str = "sqlite-batched";

    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()?))
    }
}

impl Store for SqliteStore {
    fn promises(&self) -> Promises {
        let durability = if self.durable {
            "WAL, synchronous=FULL"
        } else {
            "WAL, synchronous=OFF"
        };
        Promises {
            isolation: "serializable: one writer",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut connection = self.connection()?;
        let mut value = ValueBytes::new();
        let mut tx = connection.transaction().map_err(of(NAME))?;
        for (key, payload) in setting.loaded(0..setting.records) {
            tx.put(key, encoded(payload, &mut value))?;
        }
        tx.commit().map_err(of(NAME))?;
        // Checkpoints the log into the file, as would happen over time.
        let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        done.map_err(of(NAME))
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()?))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct SqliteHandle {
    connection: Connection,
    value: ValueBytes,
}

impl SqliteHandle {
    /// Runs a transaction.
    fn run<E: From<BenchError>>(
        &mut self,
        behaviour: TransactionBehavior,
        body: impl FnOnce(&mut Transaction<'_>, &mut ValueBytes) -> Result<(), E>,
    ) -> Result<(), E> {
        let tx = self.connection.transaction_with_behavior(behaviour);
        let mut tx = tx.map_err(of(NAME))?;
        body(&mut tx, &mut self.value)?;
        tx.commit().map_err(of(NAME))?;
        Ok(())
    }

    /// Runs a transaction that only reads.
    fn run_reads(
        &mut self,
        body: impl FnOnce(&Transaction<'_>) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        self.run(TransactionBehavior::Deferred, |tx, _| body(tx))
    }
}

impl GroupWriter for SqliteHandle {
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError> {
        self.run(TransactionBehavior::Immediate, |tx, buffer| {
            execute(tx, group, buffer)
        })
    }

    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError> {
        self.run_reads(|tx| {
            for key in keys {
                values.push(tx.required(*key)?);
            }
            Ok(())
        })
    }

    fn scan_records(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<(), BenchError> {
        self.run_reads(|tx| {
            let mut statement = tx.prepare_cached(SCAN).map_err(of(NAME))?;
            let mut rows = statement
                .query((number(first), count as i64))
                .map_err(of(NAME))?;
            while let Some(row) = rows.next().map_err(of(NAME))? {
                let key: i64 = row.get(0).map_err(of(NAME))?;
                let value = row.get_ref(1).map_err(of(NAME))?;
                let bytes = value.as_blob().map_err(of(NAME))?;
                into.push((key as u64, decoded(key as u64, bytes)?));
            }
            Ok(())
        })
    }
}
