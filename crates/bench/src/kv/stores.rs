//! The stores by their names, and the check which of them this program was built with.

use clap::ValueEnum;

use super::log_only_baseline::Floor;
use super::namiki::{NamikiSetting, NamikiStore};
#[cfg(feature = "compare-rocksdb")]
use super::rocksdb::{self, Mode};
use super::store::{Setting, Store};
use super::workload::KvWorkload;
#[cfg(feature = "compare")]
use super::{
    batched::Batched, fjall::FjallStore, lmdb::LmdbStore, redb::RedbStore, sqlite::SqliteStore,
};
#[cfg(feature = "compare-more")]
use super::{canopydb::CanopydbStore, surrealkv::SurrealkvStore};
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
    /// redb behind a batching writer.
    RedbBatched,
    /// fjall, with optimistic transactions.
    Fjall,
    /// LMDB, through heed.
    Lmdb,
    /// LMDB behind a batching writer.
    LmdbBatched,
    /// SQLite, through rusqlite.
    Sqlite,
    /// SQLite behind a batching writer.
    SqliteBatched,
    /// SurrealKV.
    Surrealkv,
    /// canopydb, with exclusive write transactions.
    Canopydb,
    /// canopydb behind a batching writer.
    CanopydbBatched,
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
            Self::RedbBatched => "redb-batched",
            Self::Fjall => "fjall",
            Self::Lmdb => "lmdb",
            Self::LmdbBatched => "lmdb-batched",
            Self::Sqlite => "sqlite",
            Self::SqliteBatched => "sqlite-batched",
            Self::Surrealkv => "surrealkv",
            Self::Canopydb => "canopydb",
            Self::CanopydbBatched => "canopydb-batched",
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
            Self::Redb
            | Self::RedbBatched
            | Self::Fjall
            | Self::Lmdb
            | Self::LmdbBatched
            | Self::Sqlite
            | Self::SqliteBatched => (cfg!(feature = "compare"), "compare`"),
            Self::Surrealkv | Self::Canopydb | Self::CanopydbBatched => {
                (cfg!(feature = "compare-more"), "compare-more`")
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

    /// Namiki's configuration.
    pub(crate) fn namiki(self) -> Option<NamikiSetting> {
        match self {
            Self::Namiki(setting) => Some(setting),
            Self::Other(_) => None,
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
            StoreName::Redb => Ok(Box::new(RedbStore::open(setting)?)),
            #[cfg(feature = "compare")]
            StoreName::RedbBatched => Batched::start(RedbStore::open(setting)?),
            #[cfg(feature = "compare")]
            StoreName::Fjall => FjallStore::open(setting),
            #[cfg(feature = "compare")]
            StoreName::Lmdb => Ok(Box::new(LmdbStore::open(setting)?)),
            #[cfg(feature = "compare")]
            StoreName::LmdbBatched => Batched::start(LmdbStore::open(setting)?),
            #[cfg(feature = "compare")]
            StoreName::Sqlite => Ok(Box::new(SqliteStore::open(setting)?)),
            #[cfg(feature = "compare")]
            StoreName::SqliteBatched => Batched::start(SqliteStore::open(setting)?),
            #[cfg(feature = "compare-more")]
            StoreName::Surrealkv => SurrealkvStore::open(setting),
            #[cfg(feature = "compare-more")]
            StoreName::Canopydb => Ok(Box::new(CanopydbStore::open(setting)?)),
            #[cfg(feature = "compare-more")]
            StoreName::CanopydbBatched => Batched::start(CanopydbStore::open(setting)?),
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
