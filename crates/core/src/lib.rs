//! Namiki (並木): a transactional database with parallel write-ahead logs, for programs that need
//! durable, serializable transactions at the speed of the hardware they own.
//!
//! [`Database::open`] a directory, make [tables](Database::table), and run
//! [transactions](Database::transact) from as many threads as there are. A transaction that has
//! returned is durable: killed at any moment, the database opens again with it.
//!
//! The [guide] leads from the first table to the settings of production.
//!
//! # Keys and values
//!
//! Integers, texts, bytes and tuples are [keys](Key), numbers and lists [values](Value), too. Structs and enums are, by
//! `#[derive(Key)]` and `#[derive(Value)]`. A look-up takes [what stands for the key](AsKey), a `&str` for a `String`; so do
//! [ranges](KeyRange). A table remembers the shape of its types, and refuses another one; a type that changes says what it
//! was ([`Versioned`]).
//!
//! # Features
//!
//! - `derive` (default): the two macros.
//! - `serde`: types with serde's traits are values, inside `Serde`.
//! - `uuid`: UUIDs are keys and values.
//! - `tracing`: rare events (opened, recovered, closed, a table created or dropped, the log failed) go to the crate of that
//!   name.
//! - `all-indexes`: the papers' trees in addition to the default ones.
//!
//! # Isolation
//!
//! Every concurrency control promises *serializability*: each history is equivalent to one in which transactions ran
//! one by one, phantoms included.
//!
//! **Silo** (`SILO`, the default) and **strict two-phase locking** (`S2PL`) promise *strict* serializability (external
//! consistency): that order is the clock's, too. A transaction that begins after another one has returned comes
//! after it.
//!
//! **TicToc** (`TT`) does not promise that: the order need not agree with real time. An example: suppose
//! z was read at stamp 5. T_c reads z and is about to write w; T_a overwrites z at stamp 6 and returns; then T_b
//! begins, reads w as it was, and returns; then T_c commits, at stamp 1. The only serial order is
//! T_b, T_c, T_a, although T_a had returned before T_b began. Under Silo, T_c finds that z has changed when it
//! wants to commit, and runs again. Under strict two-phase locking, T_a waits until T_c has ended.
//!
//! TicToc and Silo lock records for the moment of the commit; an open transaction blocks no other, and is retried if
//! what it has read has changed. Strict two-phase locking locks what a transaction reads, and the gaps between the
//! keys, until it ends: others wait ([`WaitPolicy`]), so it should not be left open.
//!
//! # The parts
//!
//! Each folder uses only those before it:
//!
//! ```text
//!   storage       records, the indexes over them
//!   concurrency   locks, the three protocols, contention
//!   table         one table without its types: from keys to records
//!   wal_format    the bytes of a log record
//!   replica       the tables of a cluster's node
//!   commit        the one commit path, epochs, views, tickets
//!   txn           a transaction: reads, writes, savepoints
//!   catalogue     the manifest and the table journal
//!   image         the image: written by checkpoints, and read back
//!   loaded_tables tables that a load writes into segments
//!   recovery      replaying the log, loading the image
//!   live          what the parts of an open database share
//!   backup        copying a database
//!   checkpoint    writing an image and freeing the log
//!   settings      Builder
//!   api           Database, Session, View, Table, queries
//!   tables        creating, loading, changing tables
//!   stats         numbers of an open database
//!   open          opening a directory
//! ```
//! All parts may use `error`, `protocol_spec` and `thread_number`. The functions of the
//! last three parts are methods of [`Database`] and [`Builder`].
//!
//! Paper: tictoc-pwal, pwal

#[doc = include_str!("../guide.md")]
pub mod guide {}
/// Compiles the examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod api;
mod backup;
mod catalogue;
mod checkpoint;
mod commit;
mod concurrency;
mod error;
mod events;
mod image;
mod live;
mod loaded_tables;
mod open;
mod open_error;
mod protocol_spec;
mod query_error;
mod recovery;
pub mod replica;
mod settings;
mod stats;
mod storage;
mod table;
mod tables;
mod thread_number;
mod txn;
mod wal_format;

pub use api::byte_rows::{ByteTable, RowScan};
pub use api::database::Database;
pub use api::rows::Rows;
pub use api::session::Session;
pub use api::table::{LockSet, Table};
pub use api::view::View;
pub use backup::error::{BackupError, KeptFileFault};
pub use backup::followed_backup::BackupStats;
pub use backup::options_and_reports::{
    BackupOptions, BackupProgress, BackupReport, OnBackupProgress,
};
pub use checkpoint::horizon_stats::HorizonStats;
pub use checkpoint::settings_and_reports::{CheckpointReport, CheckpointStats};
pub use commit::engine::LockCounters;
pub use commit::late_changes::{ChangeRefused, RowProgram};
pub use commit::latency::CommitLatency;
pub use commit::ticket::{Acknowledged, Ticket};
pub use commit::views::ViewStats;
pub use concurrency::cc::faults;
pub use error::{Conflict, Error, OpenError};
pub use loaded_tables::load_error::LoadError;
pub use loaded_tables::table_writer::NewTable;
#[doc(hidden)]
pub use namiki_data::__derive;
#[cfg(feature = "serde")]
pub use namiki_data::Serde;
pub use namiki_data::{
    AsKey, Key, KeyBytes, KeyPrefix, KeyRange, Number, RowLayout, SchemaVersions, TypeLayout,
    TypeLayouts, Value, ValueBytes, ValueView, VariantLayout, Versioned,
};
pub use namiki_index::{Direction, ScanRange};
pub use namiki_log::{LogCounters, LogError, Prepare, ReadError, RegionUse, SequencerKind};
pub use namiki_platform::disk::DeviceProfile;
pub use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};
pub use protocol_spec::{
    ConcurrencyControl, Group, Layout, LockRelease, LogStyle, Logging, ParseSpecError,
    ProtocolSpec, WaitPolicy,
};
pub use recovery::{LoadingProgress, OnProgress, RecoveryProgress, RecoveryReport, ReplayOrder};
pub use settings::autotune::{Isolation, ProtocolChoice, TunedConfig};
pub use settings::builder::Builder;
pub use stats::counters::{ConflictCounters, Counters};
pub use stats::{DiskUse, Stats, TableStats};
#[doc(hidden)]
pub use storage::index;
pub use storage::index::{IndexKind, IndexNotInBuild, TreeKind};
pub use table::raw_table::{TableId, TableInfo};
pub use tables::batch_load::{
    BatchLoadError, BatchLoadOptions, BatchLoadProgress, BatchLoadReport, BatchLoadStop,
    ExistingRows, OnBatchLoadProgress,
};
pub use tables::load::{LoadOptions, LoadProgress, OnLoadProgress};
pub use tables::untyped::UntypedTable;
pub use txn::{Savepoint, Transaction, Version};
pub use wal_format::encoding_primitives::RecordFormat;
pub use wal_format::restore_point::RestorePoint;

/// The types that describe tables with columns and their rows.
pub mod query {
    pub use crate::api::query::{Query, RowOf};
    pub use crate::query_error::QueryError;
    pub use namiki_data::columns::key_codec::{EncodeError, encode as encode_key};
    pub use namiki_data::columns::row_codec::{decode as decode_row, encode as encode_row};
    pub use namiki_data::columns::{
        Column, ColumnType, Datum, Float, NullOrder, Schema, SchemaError, Value,
    };
    pub use namiki_exec::plan::*;
    pub use namiki_exec::{
        AnswerRow, Canceller, Degree, ExecError, ExplainedOperator, Explanation, LiveCounters,
        Mode, Options, PlanError, Price, Prices, Rows, Statistics,
    };
}

/// Where a database keeps its files: for tests that want none on a real disk, and for programs with a disk of their own.
/// Given to [`Builder::disk`].
pub mod disk {
    pub use namiki_platform::disk::{
        AlignedBuf, Appender, BUFFER_ALIGN_BYTES, DirLock, DirectDisk, Disk, DiskFile, FileEntry,
        FileKind, FramePool, MemoryDisk, PendingWrite, ReadQueue, SyncedDisk, open_best,
    };
}

/// The files of a database, for programs that look into them without opening it.
pub mod files {
    pub use crate::backup::retention::{EarlierBackup, earlier_backups};
    pub use crate::catalogue::backup_mark::{BackupMark, CopiedLog};
    pub use crate::catalogue::image_files::{FileNumber, image_dir};
    pub use crate::catalogue::image_list::{ImageList, ListedRun, ListedTable, NamedList};
    pub use crate::catalogue::loaded_tables::{LoadedIndex, LoadedTable, LoadedTables};
    pub use crate::catalogue::manifest::{FORMAT, Manifest};
    pub use crate::catalogue::opened_backup::announces_all;
    pub use crate::catalogue::segment_file::SegmentFile;
    pub use crate::catalogue::table_journal::unknown_table;
    pub use crate::image::leftovers::{ImageSurvey, read_image};
    pub use crate::image::read::run_reader::{RunToRead, RunVisitor, read_run, runs_to_read};
    pub use crate::loaded_tables::index_digests::IndexDigests;
    pub use crate::wal_format::aries_operation::{Image, Operation};
    pub use crate::wal_format::commit_changes::{Change, Changes};
    pub use crate::wal_format::encoding_primitives::DecodeError;
    pub use crate::wal_format::transaction_table::{Followed, TransactionTable};
    pub use namiki_data::varint::VarintError;
    pub use namiki_exec::statistics::{ColumnStatistics, Histogram, TableStatistics};
}
