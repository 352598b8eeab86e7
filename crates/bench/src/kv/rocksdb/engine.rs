//! Code that all of RocksDB's database types share.

use std::ops::Range;

use ::rocksdb::{
    DBAccess, Direction, Error, ErrorKind, IteratorMode, SnapshotWithThreadMode, Transaction,
    WriteBatchWithTransaction, WriteOptions,
};
use namiki::ValueBytes;

use super::{NAME, write_options};
use crate::error::BenchError;
use crate::kv::key_bytes::{bytes_of, key_of};
use crate::kv::store::{
    Committed, Handle, Promises, Setting, Store, counted_up, decoded, encoded, missing, of,
};
use crate::txn::record_payload::Payload;

/// Records in one batch of the load.
const BATCH_RECORDS: usize = 10_000;

/// A type of database.
pub(super) trait Engine: Send + Sync {
    /// The database type of its snapshots.
    type Db: DBAccess;
    /// The isolation of its transactions.
    const ISOLATION: &'static str;

    /// A snapshot of the current state.
    fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self::Db>;

    /// Puts these records atomically.
    fn put_all<'a>(
        &self,
        pairs: impl Iterator<Item = (u64, &'a [u8])>,
        options: &WriteOptions,
    ) -> Result<(), Error>;

    /// Attempts a read-update transaction once.
    fn read_update(
        &self,
        options: &WriteOptions,
        body: impl FnOnce(&Transaction<'_, Self::Db>) -> Result<(), Failed>,
    ) -> Result<(), Failed>
    where
        Self::Db: Sized;

    /// Flushes the memtable to files.
    fn flush(&self) -> Result<(), Error>;
}

/// The reason why a transaction failed.
pub(super) enum Failed {
    /// Worth a retry if it is a conflict.
    Rocksdb(Error),
    /// A value read is wrong.
    Check(BenchError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Rocksdb(error)
    }
}

impl Failed {
    fn is_conflict(&self) -> bool {
        let Self::Rocksdb(error) = self else {
            return false;
        };
        let kind = error.kind();
        matches!(
            kind,
            ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut
        )
    }
}

impl From<Failed> for BenchError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Rocksdb(error) => of(NAME)(error),
            Failed::Check(error) => error,
        }
    }
}

/// Methods that every type has under the same names.
macro_rules! own_calls {
    () => {
        fn snapshot(&self) -> ::rocksdb::SnapshotWithThreadMode<'_, Self> {
            Self::snapshot(self)
        }

        fn put_all<'a>(
            &self,
            pairs: impl Iterator<Item = (u64, &'a [u8])>,
            options: &WriteOptions,
        ) -> Result<(), ::rocksdb::Error> {
            self.write_opt(super::engine::batch(pairs), options)
        }

        fn flush(&self) -> Result<(), ::rocksdb::Error> {
            Self::flush(self)
        }
    };
}
pub(super) use own_calls;

/// One batch of all these records.
pub(super) fn batch<'a, const OF_TRANSACTIONS: bool>(
    pairs: impl Iterator<Item = (u64, &'a [u8])>,
) -> WriteBatchWithTransaction<OF_TRANSACTIONS> {
    let mut batch = WriteBatchWithTransaction::default();
    for (key, value) in pairs {
        batch.put(bytes_of(key), value);
    }
    batch
}

/// An open database.
pub(super) struct RocksdbStore<E> {
    pub(super) engine: E,
    pub(super) durable: bool,
}

impl<E: Engine> RocksdbStore<E> {
    /// Puts the initial values of these keys, and flushes them.
    fn put(&self, setting: &Setting<'_>, keys: Range<u64>) -> Result<(), BenchError> {
        let options = WriteOptions::default();
        let mut values = Vec::with_capacity(BATCH_RECORDS);
        let mut records = setting.loaded(keys).peekable();
        while records.peek().is_some() {
            values.clear();
            for (key, payload) in records.by_ref().take(BATCH_RECORDS) {
                let mut value = ValueBytes::new();
                encoded(payload, &mut value);
                values.push((key, value));
            }
            let pairs = values.iter().map(|(key, value)| (*key, &value[..]));
            self.engine.put_all(pairs, &options).map_err(of(NAME))?;
        }
        self.engine.flush().map_err(of(NAME))
    }
}

impl<E: Engine> Store for RocksdbStore<E> {
    fn promises(&self) -> Promises {
        let durability = if self.durable {
            "WAL, sync=true (fdatasync)"
        } else {
            "no WAL"
        };
        Promises {
            isolation: E::ISOLATION,
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        // Logged, and flushed twice: the log of the first half can then be recycled, as in a store
        // that has run for a while.
        let half = setting.records / 2;
        self.put(setting, 0..half)?;
        self.put(setting, half..setting.records)
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(RocksdbHandle {
            engine: &self.engine,
            options: write_options(self.durable),
            value: ValueBytes::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct RocksdbHandle<'a, E> {
    engine: &'a E,
    options: WriteOptions,
    value: ValueBytes,
}

impl<E: Engine> RocksdbHandle<'_, E> {
    /// Runs a transaction until it has no conflict.
    fn until_done(
        mut attempt: impl FnMut() -> Result<(), Failed>,
    ) -> Result<Committed, BenchError> {
        let mut aborted = 0;
        loop {
            match attempt() {
                Ok(()) => return Ok(Committed { aborted }),
                Err(failed) if failed.is_conflict() => aborted += 1,
                Err(failed) => return Err(failed.into()),
            }
        }
    }
}

impl<E: Engine> Handle for RocksdbHandle<'_, E> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let value = encoded(payload, &mut self.value);
        Self::until_done(|| {
            let pairs = keys.iter().map(|key| (*key, value));
            Ok(self.engine.put_all(pairs, &self.options)?)
        })
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let found = self
            .engine
            .snapshot()
            .multi_get(keys.iter().map(|key| bytes_of(*key)));
        for (key, value) in keys.iter().zip(found) {
            let value = value.map_err(of(NAME))?.ok_or_else(|| missing(*key))?;
            values.push(decoded(*key, &value)?);
        }
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let buffer = &mut self.value;
        Self::until_done(|| {
            self.engine.read_update(&self.options, |tx| {
                for key in keys {
                    let value = tx.get_pinned_for_update(bytes_of(*key), true)?;
                    let value = value.ok_or_else(|| Failed::Check(missing(*key)))?;
                    let payload = decoded(*key, &value).map_err(Failed::Check)?;
                    drop(value);
                    tx.put(bytes_of(*key), encoded(counted_up(payload), buffer))?;
                }
                Ok(())
            })
        })
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        let first = bytes_of(first);
        let snapshot = self.engine.snapshot();
        let entries = snapshot.iterator(IteratorMode::From(&first, Direction::Forward));
        for entry in entries.take(count) {
            let (key, value) = entry.map_err(of(NAME))?;
            let key = key_of(&key)?;
            into.push((key, decoded(key, &value)?));
        }
        Ok(Committed::AT_ONCE)
    }
}
