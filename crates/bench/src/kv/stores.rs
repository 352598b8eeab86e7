//! The stores by their names, and the check which of them this program was built with.

use clap::ValueEnum;

use super::log_only_baseline::Floor;
use super::namiki::{NamikiSetting, NamikiStore};
#[cfg(feature = "compare-rocksdb")]
use super::rocksdb::{self, Mode};
use super::store::{Setting, Store};
use super::workload::KvWorkload;
#[cfg(feature = "compare")]
use super::{fjall::FjallStore, lmdb::LmdbStore, redb::RedbStore, sqlite::SqliteStore};
use crate::error::BenchError;

/// A store's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreName {
    /// Namiki.
    Namiki,
    /// A log without an index, with group commit: the minimal cost of durable commits.
    Floor,
    /// redb.
    Redb,
    /// fjall, with optimistic transactions.
    Fjall,
    /// LMDB, through heed.
    Lmdb,
    /// SQLite, through rusqlite.
    Sqlite,
    /// RocksDB with atomic batches.
    Rocksdb,
    /// RocksDB with atomic batches and pipelined writes.
    RocksdbPipelined,
    /// RocksDB's `TransactionDB`.
    RocksdbPessimistic,
    /// RocksDB's `OptimisticTransactionDB`.
    RocksdbOptimistic,
}

/// A store, with its configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen {
    Namiki(NamikiSetting),
    Other(StoreName),
}

impl StoreName {
    /// The flag's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Namiki => "namiki",
            Self::Floor => "floor",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Lmdb => "lmdb",
            Self::Sqlite => "sqlite",
            Self::Rocksdb => "rocksdb",
            Self::RocksdbPipelined => "rocksdb-pipelined",
            Self::RocksdbPessimistic => "rocksdb-pessimistic",
            Self::RocksdbOptimistic => "rocksdb-optimistic",
        }
    }

    /// Fails if this program was built without the store; the error tells how to build it.
    pub(crate) fn check_built(self) -> Result<(), BenchError> {
        let (built, how) = match self {
            Self::Namiki | Self::Floor => return Ok(()),
            Self::Redb | Self::Fjall | Self::Lmdb | Self::Sqlite => {
                (cfg!(feature = "compare"), "compare`")
            }
            Self::Rocksdb
            | Self::RocksdbPipelined
            | Self::RocksdbPessimistic
            | Self::RocksdbOptimistic => (
                cfg!(feature = "compare-rocksdb"),
                "compare-rocksdb`, which needs a C++ compiler and libclang",
            ),
        };
        if built {
            Ok(())
        } else {
            Err(BenchError::Usage(format!(
                "{} is not in this program: build it with `cargo build --profile measured -p namiki-bench \
                 --features {how}",
                self.name()
            )))
        }
    }

    /// The reason why the store does not support a workload, if it does not.
    pub(crate) fn left_out(self, workload: KvWorkload, durable: bool) -> Option<&'static str> {
        match self {
            Self::Floor if !workload.is_blind() => Some("it has no index"),
            Self::Floor if !durable => Some("all that it does is to be durable"),
            Self::Rocksdb | Self::RocksdbPipelined if workload == KvWorkload::U5r5 => {
                Some("it has no transactions that read")
            }
            _ => None,
        }
    }
}

impl Chosen {
    /// The store's name.
    pub(crate) fn store(self) -> StoreName {
        match self {
            Self::Namiki(_) => StoreName::Namiki,
            Self::Other(store) => store,
        }
    }

    /// Opens the store, or creates it.
    pub(crate) fn open(self, setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
        let store = match self {
            Self::Namiki(namiki) => return NamikiStore::open(setting, namiki),
            Self::Other(store) => store,
        };
        match store {
            StoreName::Floor => Floor::open(setting),
            #[cfg(feature = "compare")]
            StoreName::Redb => RedbStore::open(setting),
            #[cfg(feature = "compare")]
            StoreName::Fjall => FjallStore::open(setting),
            #[cfg(feature = "compare")]
            StoreName::Lmdb => LmdbStore::open(setting),
            #[cfg(feature = "compare")]
            StoreName::Sqlite => SqliteStore::open(setting),
            #[cfg(feature = "compare-rocksdb")]
            StoreName::Rocksdb => rocksdb::open(setting, Mode::Plain),
            #[cfg(feature = "compare-rocksdb")]
            StoreName::RocksdbPipelined => rocksdb::open(setting, Mode::Pipelined),
            #[cfg(feature = "compare-rocksdb")]
            StoreName::RocksdbPessimistic => rocksdb::open(setting, Mode::Pessimistic),
            #[cfg(feature = "compare-rocksdb")]
            StoreName::RocksdbOptimistic => rocksdb::open(setting, Mode::Optimistic),
            other => {
                other.check_built()?;
                unreachable!("{} is chosen with its protocol and its index", other.name())
            }
        }
    }
}
