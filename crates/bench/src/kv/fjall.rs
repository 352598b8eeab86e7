//! fjall: a log-structured merge tree, with optimistic transactions.

use ::fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx,
    PersistMode, Readable,
};
use namiki::ValueBytes;

use super::key_bytes::{bytes_of, key_of};
use super::store::{
    Committed, Handle, Promises, Setting, Store, counted_up, decoded, encoded, missing, of,
};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "fjall";
/// Cache size for a million records, so that reads are served from memory, as in the other stores.
const CACHE_BYTES: u64 = 1 << 30;
/// Records in one transaction of the load.
const BATCH_RECORDS: usize = 10_000;

/// A database with one keyspace.
pub(crate) struct FjallStore {
    db: OptimisticTxDatabase,
    records: OptimisticTxKeyspace,
    persist: PersistMode,
}

impl FjallStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
        let builder = OptimisticTxDatabase::builder(setting.dir).cache_size(CACHE_BYTES);
        let db = builder.open().map_err(of(NAME))?;
        let records = db
            .keyspace("records", KeyspaceCreateOptions::default)
            .map_err(of(NAME))?;
        Ok(Box::new(Self {
            db,
            records,
            persist: if setting.durable {
                PersistMode::SyncData
            } else {
                PersistMode::Buffer
            },
        }))
    }

    /// Runs a transaction until it commits.
    fn write(
        &self,
        persist: PersistMode,
        mut body: impl FnMut(&mut OptimisticWriteTx) -> Result<(), BenchError>,
    ) -> Result<Committed, BenchError> {
        let mut aborted = 0;
        loop {
            let tx = self.db.write_tx().map_err(of(NAME))?;
            let mut tx = tx.durability(Some(persist));
            body(&mut tx)?;
            match tx.commit().map_err(of(NAME))? {
                Ok(()) => return Ok(Committed { aborted }),
                Err(_) => aborted += 1,
            }
        }
    }
}

impl Store for FjallStore {
    fn promises(&self) -> Promises {
        let durability = match self.persist {
            PersistMode::Buffer => "PersistMode::Buffer (page cache)",
            _ => "PersistMode::SyncData (fdatasync)",
        };
        Promises {
            isolation: "serializable, optimistic",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut value = ValueBytes::new();
        let mut records = setting.loaded(0..setting.records).peekable();
        while records.peek().is_some() {
            let mut tx = self.db.write_tx().map_err(of(NAME))?;
            for (key, payload) in records.by_ref().take(BATCH_RECORDS) {
                let value = encoded(payload, &mut value);
                tx.insert(&self.records, bytes_of(key), value);
            }
            // No other transaction runs that could conflict.
            tx.commit().map_err(of(NAME))?.map_err(of(NAME))?;
        }
        self.db.persist(PersistMode::SyncAll).map_err(of(NAME))
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(FjallHandle {
            store: self,
            value: ValueBytes::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.db.persist(PersistMode::SyncAll).map_err(of(NAME))
    }
}

struct FjallHandle<'a> {
    store: &'a FjallStore,
    value: ValueBytes,
}

impl Handle for FjallHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let value = encoded(payload, &mut self.value);
        self.store.write(self.store.persist, |tx| {
            for key in keys {
                tx.insert(&self.store.records, bytes_of(*key), value);
            }
            Ok(())
        })
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let tx = self.store.db.read_tx();
        for key in keys {
            let value = tx.get(&self.store.records, bytes_of(*key));
            let value = value.map_err(of(NAME))?.ok_or_else(|| missing(*key))?;
            values.push(decoded(*key, &value)?);
        }
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let buffer = &mut self.value;
        let records = &self.store.records;
        self.store.write(self.store.persist, |tx| {
            for key in keys {
                let value = tx.get(records, bytes_of(*key)).map_err(of(NAME))?;
                let value = value.ok_or_else(|| missing(*key))?;
                let payload = counted_up(decoded(*key, &value)?);
                tx.insert(records, bytes_of(*key), encoded(payload, buffer));
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
        let tx = self.store.db.read_tx();
        for entry in tx.range(&self.store.records, bytes_of(first)..).take(count) {
            let (key, value) = entry.into_inner().map_err(of(NAME))?;
            let key = key_of(&key)?;
            into.push((key, decoded(key, &value)?));
        }
        Ok(Committed::AT_ONCE)
    }
}
