//! redb: a copy-on-write B-tree in one file, with one writer at a time.

use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use namiki::ValueBytes;

use super::one_writer::{GroupError, GroupWriter, OneWriter, Write, WriteTx, execute};
use super::store::{Handle, Promises, Setting, Store, decoded, encoded, missing, of};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "redb";
const RECORDS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("records");

type Table<'tx> = ::redb::Table<'tx, u64, &'static [u8]>;

/// A database with one table.
pub(crate) struct RedbStore {
    db: Database,
    durability: Durability,
}

impl RedbStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Self, BenchError> {
        Ok(Self {
            db: Database::create(setting.dir.join("redb")).map_err(of(NAME))?,
            durability: if setting.durable {
                Durability::Immediate
            } else {
                Durability::None
            },
        })
    }

    fn new_handle(&self) -> RedbHandle<'_> {
        RedbHandle {
            store: self,
            value: ValueBytes::new(),
        }
    }

    /// Runs a write transaction.
    fn write<E: From<BenchError>>(
        &self,
        durability: Durability,
        body: impl FnOnce(&mut Table<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut tx = self.db.begin_write().map_err(of(NAME))?;
        tx.set_durability(durability).map_err(of(NAME))?;
        body(&mut tx.open_table(RECORDS).map_err(of(NAME))?)?;
        tx.commit().map_err(of(NAME))?;
        Ok(())
    }
}

/// The value of a record, which is required to exist.
fn required(
    table: &impl ReadableTable<u64, &'static [u8]>,
    key: u64,
) -> Result<Payload, BenchError> {
    let value = table.get(key).map_err(of(NAME))?;
    decoded(key, value.ok_or_else(|| missing(key))?.value())
}

impl WriteTx for Table<'_> {
    fn required(&self, key: u64) -> Result<Payload, BenchError> {
        required(self, key)
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError> {
        self.insert(key, value).map_err(of(NAME))?;
        Ok(())
    }
}

impl OneWriter for RedbStore {
    const BATCHED_NAME: &'static str = "redb-batched";

    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }
}

impl Store for RedbStore {
    fn promises(&self) -> Promises {
        let durability = match self.durability {
            Durability::Immediate => "Durability::Immediate (fdatasync)",
            _ => "Durability::None",
        };
        Promises {
            isolation: "serializable: one writer",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut value = ValueBytes::new();
        self.write(Durability::Immediate, |table| {
            let mut records = setting.loaded(0..setting.records);
            records.try_for_each(|(key, payload)| table.put(key, encoded(payload, &mut value)))
        })
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.db.close().map_err(of(NAME))
    }
}

struct RedbHandle<'a> {
    store: &'a RedbStore,
    value: ValueBytes,
}

impl GroupWriter for RedbHandle<'_> {
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError> {
        let RedbHandle { store, value } = self;
        store.write(store.durability, |table| execute(table, group, value))
    }

    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError> {
        let tx = self.store.db.begin_read().map_err(of(NAME))?;
        let table = tx.open_table(RECORDS).map_err(of(NAME))?;
        for key in keys {
            values.push(required(&table, *key)?);
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
        let table = tx.open_table(RECORDS).map_err(of(NAME))?;
        for entry in table.range(first..).map_err(of(NAME))?.take(count) {
            let (key, value) = entry.map_err(of(NAME))?;
            into.push((key.value(), decoded(key.value(), value.value())?));
        }
        Ok(())
    }
}
