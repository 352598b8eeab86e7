//! LMDB: a copy-on-write B+-tree in a memory map, with one writer at a time.
#![expect(unsafe_code, reason = "opening an environment maps its file")]

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn, RwTxn};
use namiki::ValueBytes;

use super::one_writer::{GroupError, GroupWriter, OneWriter, Write, WriteTx, execute};
use super::store::{Handle, Promises, Setting, Store, decoded, encoded, missing, of};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const NAME: &str = "lmdb";
/// Address space per record in addition to its value: half-full pages, and copied pages.
const OVERHEAD_BYTES: u64 = 200;
const MAP_BYTES_MIN: u64 = 1 << 30;
/// Exceeds the number of threads in any run.
const READERS_MAX: u32 = 2048;

/// Keys that LMDB compares as numbers, which is its fastest comparison.
type Records = Database<U64<NativeEndian>, Bytes, IntegerComparator>;

/// An environment with one database.
pub(crate) struct LmdbStore {
    env: Env,
    records: Records,
    durable: bool,
}

impl LmdbStore {
    /// Opens the environment, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Self, BenchError> {
        let record_bytes = u64::from(setting.value_bytes) + OVERHEAD_BYTES;
        let map_bytes = setting.records.saturating_mul(4 * record_bytes);
        let map_bytes = map_bytes.max(MAP_BYTES_MIN).next_multiple_of(1 << 20);
        let mut options = EnvOpenOptions::new();
        options
            .map_size(usize::try_from(map_bytes).unwrap_or(usize::MAX))
            .max_readers(READERS_MAX);
        if !setting.durable {
            // SAFETY: the flag disables durability. It also disables integrity after a system
            // crash, if the file system does not keep the order of writes. Memory safety is
            // unaffected: the map is read-only, and a file damaged by a crash is not reopened,
            // because the folder is the run's own.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: no other process changes the mapped file. The folder is this run's alone, which
        // created it under a random name (`Scratch`). LMDB's own lock file guards it against other
        // openings. It is closed before the folder is removed: `close` waits for that.
        let env = unsafe { options.open(setting.dir) }.map_err(of(NAME))?;
        let mut tx = env.write_txn().map_err(of(NAME))?;
        let records = env
            .database_options()
            .types::<U64<NativeEndian>, Bytes>()
            .key_comparator::<IntegerComparator>()
            .create(&mut tx)
            .map_err(of(NAME))?;
        tx.commit().map_err(of(NAME))?;
        Ok(Self {
            env,
            records,
            durable: setting.durable,
        })
    }

    fn new_handle(&self) -> LmdbHandle<'_> {
        LmdbHandle {
            store: self,
            value: ValueBytes::new(),
        }
    }

    /// Runs a write transaction.
    fn write<E: From<BenchError>>(
        &self,
        body: impl FnOnce(&mut RecordsTx<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut tx = RecordsTx {
            records: self.records,
            tx: self.env.write_txn().map_err(of(NAME))?,
        };
        body(&mut tx)?;
        tx.tx.commit().map_err(of(NAME))?;
        Ok(())
    }
}

/// A write transaction on the records.
struct RecordsTx<'a> {
    records: Records,
    tx: RwTxn<'a>,
}

/// The value of a record, which is required to exist.
fn required(records: Records, tx: &RoTxn<'_>, key: u64) -> Result<Payload, BenchError> {
    let value = records.get(tx, &key).map_err(of(NAME))?;
    decoded(key, value.ok_or_else(|| missing(key))?)
}

impl WriteTx for RecordsTx<'_> {
    fn required(&self, key: u64) -> Result<Payload, BenchError> {
        required(self.records, &self.tx, key)
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError> {
        let put = self.records.put(&mut self.tx, &key, value);
        put.map_err(of(NAME))
    }
}

impl OneWriter for LmdbStore {
    const BATCHED_NAME: &'static str = "lmdb-batched";

    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }
}

impl Store for LmdbStore {
    fn promises(&self) -> Promises {
        let durability = if self.durable {
            "fdatasync, no WRITEMAP"
        } else {
            "NO_SYNC"
        };
        Promises {
            isolation: "serializable: one writer",
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut value = ValueBytes::new();
        self.write(|tx| {
            for (key, payload) in setting.loaded(0..setting.records) {
                let value = encoded(payload, &mut value);
                let put = self
                    .records
                    .put_with_flags(&mut tx.tx, PutFlags::APPEND, &key, value);
                put.map_err(of(NAME))?;
            }
            Ok::<_, BenchError>(())
        })?;
        self.env.force_sync().map_err(of(NAME))
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(self.new_handle()))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbHandle<'a> {
    store: &'a LmdbStore,
    value: ValueBytes,
}

impl GroupWriter for LmdbHandle<'_> {
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError> {
        let LmdbHandle { store, value } = self;
        store.write(|tx| execute(tx, group, value))
    }

    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError> {
        let tx = self.store.env.read_txn().map_err(of(NAME))?;
        for key in keys {
            values.push(required(self.store.records, &tx, *key)?);
        }
        Ok(())
    }

    fn scan_records(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<(), BenchError> {
        let tx = self.store.env.read_txn().map_err(of(NAME))?;
        let range = self.store.records.range(&tx, &(first..));
        for entry in range.map_err(of(NAME))?.take(count) {
            let (key, value) = entry.map_err(of(NAME))?;
            into.push((key, decoded(key, value)?));
        }
        Ok(())
    }
}
