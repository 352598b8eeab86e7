//! canopydb: a B+-tree with a write-ahead log and checkpoints, with one writer at a time.
//!
//! Its concurrent write transactions are snapshot-isolated, conflict on pages, and hold the commit
//! lock until the log is synced, so they share no sync. The exclusive ones are used, which are
//! serializable.

use ::canopydb::{Database, DbOptions, EnvOptions, Transaction, Tree};
use namiki::ValueBytes;

use super::key_bytes::{bytes_of, key_of};
use super::one_writer::{GroupError, GroupWriter, OneWriter, Write, WriteTx, execute};
use super::store::{Handle, Promises, Setting, Store, decoded, encoded, missing, of};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "canopydb";
const RECORDS: &[u8] = b"records";
/// Records in one transaction of the load.
const BATCH_RECORDS: usize = 10_000;

/// A database with one tree. Its page cache has 1 GB by default, which all records fit into.
pub(crate) struct CanopydbStore {
    db: Database,
    durable: bool,
}

impl CanopydbStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Self, BenchError> {
        let db = Database::with_options(EnvOptions::new(setting.dir), DbOptions::new());
        Ok(Self {
            db: db.map_err(of(NAME))?,
            durable: setting.durable,
        })
    }

    fn new_handle(&self) -> CanopydbHandle<'_> {
        CanopydbHandle {
            store: self,
            value: ValueBytes::new(),
        }
    }

    /// Runs a write transaction. `sync` waits until it is durable.
    fn write<E: From<BenchError>>(
        &self,
        sync: bool,
        body: impl FnOnce(&mut Tree<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let tx = self.db.begin_write().map_err(of(NAME))?;
        let mut tree = tx.get_or_create_tree(RECORDS).map_err(of(NAME))?;
        body(&mut tree)?;
        drop(tree);
        tx.commit_with(sync).map_err(of(NAME))?;
        Ok(())
    }
}

/// The records as a transaction sees them.
fn records(tx: &Transaction) -> Result<Tree<'_>, BenchError> {
    let found = tx.get_tree(RECORDS).map_err(of(NAME))?;
    found.ok_or_else(|| BenchError::Check("there is no tree of records".to_owned()))
}

impl WriteTx for Tree<'_> {
    fn required(&self, key: u64) -> Result<Payload, BenchError> {
        let value = self.get(&bytes_of(key)).map_err(of(NAME))?;
        decoded(key, &value.ok_or_else(|| missing(key))?)
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError> {
        self.insert(&bytes_of(key), value).map_err(of(NAME))
    }
}

impl OneWriter for CanopydbStore {
    const BATCHED_NAME: &'static str = "canopydb-batched";

    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }
}

impl Store for CanopydbStore {
    fn promises(&self) -> Promises {
        let durability = if self.durable {
            "WAL, synced commit"
        } else {
            "WAL (page cache)"
        };
        Promises {
            isolation: "serializable: one writer",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut value = ValueBytes::new();
        for first in (0..setting.records).step_by(BATCH_RECORDS) {
            let end = setting.records.min(first + BATCH_RECORDS as u64);
            self.write(false, |tree| {
                let mut records = setting.loaded(first..end);
                records.try_for_each(|(key, payload)| tree.put(key, encoded(payload, &mut value)))
            })?;
        }
        // Moves the records from memory into the file, as would happen over time.
        self.db.checkpoint().map_err(of(NAME))
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.db.sync().map_err(of(NAME))
    }
}

struct CanopydbHandle<'a> {
    store: &'a CanopydbStore,
    value: ValueBytes,
}

impl GroupWriter for CanopydbHandle<'_> {
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError> {
        let CanopydbHandle { store, value } = self;
        store.write(store.durable, |tree| execute(tree, group, value))
    }

    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError> {
        let tx = self.store.db.begin_read().map_err(of(NAME))?;
        let tree = records(&tx)?;
        for key in keys {
            values.push(tree.required(*key)?);
        }
        Ok(())
    }

    fn scan_records(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<(), BenchError> {
        let tx = self.store.db.begin_read().map_err(of(NAME))?;
        let tree = records(&tx)?;
        let rows = tree.range(bytes_of(first)..).map_err(of(NAME))?;
        for row in rows.take(count) {
            let (key, value) = row.map_err(of(NAME))?;
            let key = key_of(&key)?;
            into.push((key, decoded(key, &value)?));
        }
        Ok(())
    }
}
