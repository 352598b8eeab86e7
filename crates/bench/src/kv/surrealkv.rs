//! SurrealKV: a log-structured merge tree with a commit pipeline that is awaited.
//!
//! Its transactions are snapshot-isolated: concurrent writes of one key conflict, and write skew is
//! possible. Its background tasks run on a tokio runtime of its own with tokio's default number of
//! threads, one for each processor. A caller's thread parks until its commit is done.

use std::time::Duration;

use ::surrealkv::{Durability, Error, LSMIterator, Mode, Options, Transaction, Tree, TreeBuilder};
use namiki::ValueBytes;
use tokio::runtime::{Builder, Runtime};

use super::key_bytes::{bytes_of, key_of};
use super::store::{
    Committed, Handle, Promises, Setting, Store, counted_up, decoded, encoded, missing, of,
};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "surrealkv";
/// Cache size for a million records, so that reads are served from memory, as in the other stores.
const CACHE_BYTES: u64 = 1 << 30;
/// Delay of a retry. A conflicting commit stays a conflict until it is durable and visible, so an
/// immediate retry fails again.
const RETRY_AFTER: Duration = Duration::from_micros(100);
/// Records in one transaction of the load.
const BATCH_RECORDS: usize = 10_000;

/// A database, and the runtime of its background tasks.
pub(crate) struct SurrealkvStore {
    tree: Tree,
    runtime: Runtime,
    durability: Durability,
}

impl SurrealkvStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(of(NAME))?;
        let options = Options::new()
            .with_path(setting.dir.join(NAME))
            .with_block_cache_capacity(CACHE_BYTES)
            .with_wal_preallocation(true);
        let guard = runtime.enter();
        let tree = TreeBuilder::with_options(options)
            .build()
            .map_err(of(NAME))?;
        drop(guard);
        Ok(Box::new(Self {
            tree,
            runtime,
            durability: if setting.durable {
                Durability::Immediate
            } else {
                Durability::Eventual
            },
        }))
    }

    /// Runs a transaction until it commits.
    fn write(
        &self,
        mode: Mode,
        durability: Durability,
        mut body: impl FnMut(&mut Transaction) -> Result<(), BenchError>,
    ) -> Result<Committed, BenchError> {
        let mut aborted = 0;
        loop {
            let tx = self.tree.begin_with_mode(mode).map_err(of(NAME))?;
            let mut tx = tx.with_durability(durability);
            body(&mut tx)?;
            match self.runtime.block_on(tx.commit()) {
                Ok(()) => return Ok(Committed { aborted }),
                Err(Error::TransactionWriteConflict | Error::TransactionRetry) => {
                    aborted += 1;
                    std::thread::sleep(RETRY_AFTER);
                }
                Err(error) => return Err(of(NAME)(error)),
            }
        }
    }

    /// Begins a transaction that only reads.
    fn snapshot(&self) -> Result<Transaction, BenchError> {
        self.tree.begin_with_mode(Mode::ReadOnly).map_err(of(NAME))
    }
}

fn required(tx: &Transaction, key: u64) -> Result<Payload, BenchError> {
    let value = tx.get(&bytes_of(key)).map_err(of(NAME))?;
    decoded(key, &value.ok_or_else(|| missing(key))?)
}

impl Store for SurrealkvStore {
    fn promises(&self) -> Promises {
        let durability = match self.durability {
            Durability::Immediate => "Durability::Immediate, WAL preallocated (fdatasync)",
            _ => "Durability::Eventual (page cache)",
        };
        Promises {
            isolation: "snapshot",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut value = ValueBytes::new();
        for first in (0..setting.records).step_by(BATCH_RECORDS) {
            let end = setting.records.min(first + BATCH_RECORDS as u64);
            self.write(Mode::WriteOnly, Durability::Eventual, |tx| {
                for (key, payload) in setting.loaded(first..end) {
                    let put = tx.set(&bytes_of(key), encoded(payload, &mut value));
                    put.map_err(of(NAME))?;
                }
                Ok(())
            })?;
        }
        self.tree.flush_wal(true).map_err(of(NAME))
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(SurrealkvHandle {
            store: self,
            value: ValueBytes::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.runtime.block_on(self.tree.close()).map_err(of(NAME))
    }
}

struct SurrealkvHandle<'a> {
    store: &'a SurrealkvStore,
    value: ValueBytes,
}

impl Handle for SurrealkvHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let value = encoded(payload, &mut self.value);
        let store = self.store;
        store.write(Mode::WriteOnly, store.durability, |tx| {
            keys.iter()
                .try_for_each(|key| tx.set(&bytes_of(*key), value))
                .map_err(of(NAME))
        })
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let tx = self.store.snapshot()?;
        for key in keys {
            values.push(required(&tx, *key)?);
        }
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let buffer = &mut self.value;
        let store = self.store;
        store.write(Mode::ReadWrite, store.durability, |tx| {
            for key in keys {
                let payload = counted_up(required(tx, *key)?);
                let put = tx.set(&bytes_of(*key), encoded(payload, buffer));
                put.map_err(of(NAME))?;
            }
            Ok(())
        })
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        let tx = self.store.snapshot()?;
        let first = bytes_of(first);
        let mut rows = tx.scan(&first..).map_err(of(NAME))?;
        let mut is_at_row = rows.seek_first().map_err(of(NAME))?;
        for _ in 0..count {
            if !is_at_row {
                break;
            }
            let key = key_of(rows.key().user_key())?;
            let value = rows.value_ref().map_err(of(NAME))?;
            into.push((key, decoded(key, &value)?));
            drop(value);
            is_at_row = rows.next().map_err(of(NAME))?;
        }
        Ok(Committed::AT_ONCE)
    }
}
