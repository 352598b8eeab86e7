//! RocksDB: a log-structured merge tree. Its modes are databases of different types.
//!
//! - plain: atomic batches, with group commit by its write threads. It has no read transactions.
//! - pipelined: as plain, with the log of one group written while the previous group goes to the
//!   memtable.
//! - pessimistic: `TransactionDB`, which locks records read for update.
//! - optimistic: `OptimisticTransactionDB`, which validates at commit.
//!
//! All have a block cache for a million records, and Bloom filters. Log files are recycled where
//! RocksDB supports it, which excludes runs without a log, and are preallocated. The writers of a
//! group fill the memtable concurrently.

mod engine;
mod plain;
mod transactional;

use ::rocksdb::{
    BlockBasedOptions, Cache, DB, OptimisticTransactionDB, Options, TransactionDB,
    TransactionDBOptions, WriteOptions,
};

use self::engine::{Engine, RocksdbStore};
use super::store::{Setting, Store, of};
use crate::error::BenchError;

const NAME: &str = "rocksdb";
const CACHE_BYTES: usize = 1 << 30;
const MEMTABLE_BYTES: usize = 256 << 20;
const BLOOM_BITS: f64 = 10.0;
/// Number of log files kept for recycling.
const LOG_FILES_KEPT: usize = 4;

/// The database type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Pipelined,
    Pessimistic,
    Optimistic,
}

/// Opens the database, or creates it.
pub(crate) fn open(setting: &Setting<'_>, mode: Mode) -> Result<Box<dyn Store>, BenchError> {
    let (options, dir) = (options(mode, setting.durable), setting.dir);
    Ok(match mode {
        Mode::Plain | Mode::Pipelined => ready(DB::open(&options, dir).map_err(of(NAME))?, setting),
        Mode::Pessimistic => {
            let opened: Result<TransactionDB, _> =
                TransactionDB::open(&options, &TransactionDBOptions::default(), dir);
            ready(opened.map_err(of(NAME))?, setting)
        }
        Mode::Optimistic => {
            let opened: Result<OptimisticTransactionDB, _> =
                OptimisticTransactionDB::open(&options, dir);
            ready(opened.map_err(of(NAME))?, setting)
        }
    })
}

fn ready<E: Engine + 'static>(engine: E, setting: &Setting<'_>) -> Box<dyn Store> {
    Box::new(RocksdbStore {
        engine,
        durable: setting.durable,
    })
}

fn options(mode: Mode, durable: bool) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    blocks.set_bloom_filter(BLOOM_BITS, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    // With recycled log files, RocksDB refuses writes without a log.
    options.set_recycle_log_file_num(if durable { LOG_FILES_KEPT } else { 0 });
    options.set_allow_concurrent_memtable_write(true);
    options.set_enable_pipelined_write(mode == Mode::Pipelined);
    options.increase_parallelism(2);
    options
}

fn write_options(durable: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    if durable {
        options.set_sync(true);
    } else {
        options.disable_wal(true);
    }
    options
}
