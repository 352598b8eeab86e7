//! redb: a copy-on-write B-tree in one file, with one writer at a time.

use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use namiki::ValueBytes;

use super::store::{
    Committed, Handle, Promises, Setting, Store, counted_up, decoded, encoded, missing, of,
};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "redb";
const RECORDS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("records");

/// A database with one table.
pub(crate) struct RedbStore {
    db: Database,
    durability: Durability,
}

impl RedbStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
        Ok(Box::new(Self {
            db: Database::create(setting.dir.join("redb")).map_err(of(NAME))?,
            durability: if setting.durable {
                Durability::Immediate
            } else {
                Durability::None
            },
        }))
    }

    /// Runs a write transaction.
    fn write(
        &self,
        durability: Durability,
        body: impl FnOnce(&mut ::redb::Table<'_, u64, &[u8]>) -> Result<(), BenchError>,
    ) -> Result<Committed, BenchError> {
        let mut tx = self.db.begin_write().map_err(of(NAME))?;
        tx.set_durability(durability).map_err(of(NAME))?;
        body(&mut tx.open_table(RECORDS).map_err(of(NAME))?)?;
        tx.commit().map_err(of(NAME))?;
        Ok(Committed::AT_ONCE)
    }
}

impl Store for RedbStore {
    fn promises(&self) -> Promises {
        let durability = match self.durability {
            Durability::Immediate => "Durability::Immediate (fsync)",
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
            for (key, payload) in setting.loaded(0..setting.records) {
                let value = encoded(payload, &mut value);
                table.insert(key, value).map_err(of(NAME))?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(RedbHandle {
            store: self,
            value: ValueBytes::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.db.close().map_err(of(NAME))
    }
}

struct RedbHandle<'a> {
    store: &'a RedbStore,
    value: ValueBytes,
}

impl Handle for RedbHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let value = encoded(payload, &mut self.value);
        self.store.write(self.store.durability, |table| {
            for key in keys {
                table.insert(key, value).map_err(of(NAME))?;
            }
            Ok(())
        })
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let tx = self.store.db.begin_read().map_err(of(NAME))?;
        let table = tx.open_table(RECORDS).map_err(of(NAME))?;
        for key in keys {
            let value = table.get(key).map_err(of(NAME))?;
            let value = value.ok_or_else(|| missing(*key))?;
            values.push(decoded(*key, value.value())?);
        }
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let buffer = &mut self.value;
        self.store.write(self.store.durability, |table| {
            for key in keys {
                let payload = match table.get(key).map_err(of(NAME))? {
                    Some(value) => decoded(*key, value.value())?,
                    None => return Err(missing(*key)),
                };
                let value = encoded(counted_up(payload), buffer);
                table.insert(key, value).map_err(of(NAME))?;
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
        let tx = self.store.db.begin_read().map_err(of(NAME))?;
        let table = tx.open_table(RECORDS).map_err(of(NAME))?;
        for entry in table.range(first..).map_err(of(NAME))?.take(count) {
            let (key, value) = entry.map_err(of(NAME))?;
            into.push((key.value(), decoded(key.value(), value.value())?));
        }
        Ok(Committed::AT_ONCE)
    }
}
