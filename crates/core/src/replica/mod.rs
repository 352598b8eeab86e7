//! The state of one node of a cluster: a database with the applier as the only committer.
//!
//! A [`Replica`] is a [`Database`] in replica mode: its tables, [views](Replica::view), queries and images are the
//! library's, and it has no log of its own. Its state is that of a prefix of the cluster's log. It changes by
//! [applying](Replica::apply) the after-images of committed groups in the order of the log, on the leader as on its
//! followers. The leader executes commands before that: a [`GroupTransaction`] is a group of commands (the paper's
//! LogGrp) that is one transaction of strict two-phase locking. It locks rows, reads them, and buffers its writes.
//! [Sealing](GroupTransaction::seal) it leaves its after-images and its [`HeldLocks`], which are released when the group
//! is applied, or when it is certain that it never will be. No undo is needed, because memory has not changed.
//!
//! ```text
//!   worker:   begin_group ─ lock, value, write … ─ encode_changes ─ seal ──> payload to the log, locks to the task store
//!   applier:  committed ──> HeldLocks::install (of its own group)  |  Replica::apply (of another node's)
//!             between two groups ──> Replica::view, take_out_removed, create_table, drop_table
//! ```
//! Commands name the keys that they touch, an absent key is locked by the absent record that is made for it, and there are
//! no scans: so there are no phantoms, and no locks of gaps. A lock is not waited for, so there are no deadlocks.
//!
//! **A group's stamp is the index of its entry**, and each group is an epoch of its own. So a view between two groups knows
//! its stamp at once, and the rules of views (`commit/views`) and of removal (`commit/removal.rs`) hold as they are: a
//! group's epoch is over when it is installed, and certified, since only what a quorum has made durable is installed.
//!
//! # Invariants
//! - RG1. A group's number is another group's only after the group has released all its locks.
//! - RG2. Versions are installed by one thread at a time (`Engine::installed` is locked for writing), with ascending stamps:
//!   what `storage/record.rs` asks of a replica (R3).
//! - RG3. A group keeps the tables in memory that it has used, until its locks are released: a table may be dropped before
//!   (R1). Rows of a dropped table are not installed, here or on any other node: its number is never used again.
//! - RG4. A record is taken out of the index only while its lock is held by `REMOVER` (`row_lock.rs`), which is no group. A group that has
//!   locked a record compares its incarnation after that, and looks the key up again if it has ended.
//!
//! Paper: raft-pwal §3.2, §3.3

mod apply;
mod changes;
mod error;
mod fault_injection;
mod group;
mod group_pool;
mod held_locks;
mod image_copy;
mod replica_image;
mod replica_view;
mod row_lock;
mod state_hash;
mod take_out;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_platform::Stamp;
use namiki_platform::disk::MemoryDisk;
use parking_lot::{Mutex, RwLock};

pub use self::apply::Applied;
pub use self::error::{LockError, ReplicaError, WriteError};
#[cfg(feature = "simulation")]
pub use self::fault_injection::ReplicaFault;
pub use self::group::{GroupTransaction, Slot};
pub use self::held_locks::HeldLocks;
pub use self::image_copy::{ImageCopy, ImageCopyError, PinnedImage};
pub use self::replica_image::ImageReport;
pub use self::replica_view::ReplicaView;

use self::apply::Applier;
use self::fault_injection::FaultInjection;
use self::group_pool::GroupPool;
use crate::api::database::Database;
use crate::catalogue::image_files::FileNumber;
use crate::catalogue::manifest::{RESERVED, RESERVED_NAME};
use crate::commit::engine::Engine;
use crate::error::{Error, OpenError};
use crate::live::catalogue::Catalogue;
use crate::protocol_spec::{ConcurrencyControl, LockRelease, Logging, ProtocolSpec};
use crate::settings::builder::Builder;
use crate::storage::index::{IndexKind, TreeKind};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, TableId, TableInfo};
use crate::tables::create_table::check_name;

/// Commands look keys up, and only views scan. At a million accounts, the hash table saves a fifth of the time of a
/// transfer, and half of it if keys have any length.
const INDEX: IndexKind = IndexKind::OrderedAndHash(TreeKind::Art);

/// The inline capacity of records in tables with eight-byte keys: that of an account. Longer values
/// are boxed.
const INLINE_BYTES_FIXED: usize = 8;
/// The same of other tables. A record is 64 bytes then.
const INLINE_BYTES_VARIABLE: usize = 40;

/// Names of clients' tables do not begin so.
const RESERVED_PREFIX: &str = "namiki.";

/// Replicas lock rows by themselves, and have no log.
const SPEC: ProtocolSpec = ProtocolSpec {
    concurrency: ConcurrencyControl::TwoPhase,
    release: LockRelease::Normal,
    logging: Logging::None,
};

/// The state of one node of a cluster.
pub struct Replica {
    db: Database,
    applier: Mutex<Applier>,
    pool: Mutex<GroupPool>,
    /// How many tables were dropped. Groups compare it before each command.
    drops: AtomicU64,
    /// Files of the image that are damaged: the next image does without them.
    damaged_files: Mutex<BTreeSet<FileNumber>>,
    faults: FaultInjection,
}

impl Replica {
    /// One in memory, without tables.
    ///
    /// # Errors
    /// [`OpenError`], if memory is short.
    pub fn in_memory() -> Result<Self, OpenError> {
        let builder = Database::builder().disk(Arc::new(MemoryDisk::new()));
        Self::open(builder, "/replica")
    }

    /// Opens the replica in a directory, which is created if it does not exist: its state is that of its image. The
    /// builder's settings for recovery, views, the page cache and the disk apply.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(mut builder: Builder, dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        builder.tuning.recovery.loads_image = true;
        Self::open_unloaded(builder, dir)
    }

    /// The same, but its tables come into memory in the background. Views read those that are not there yet from the image.
    /// Nothing is applied before [`Replica::wait_until_loaded`] has returned.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_unloaded(builder: Builder, dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        let mut builder = builder.spec(SPEC).index(INDEX);
        builder.is_replica = true;
        let db = builder.open(dir)?;
        let replica = Self {
            applier: Mutex::new(Applier::default()),
            pool: Mutex::default(),
            drops: AtomicU64::new(0),
            damaged_files: Mutex::default(),
            faults: FaultInjection::default(),
            db,
        };
        {
            let mut applier = replica.applier.lock();
            let mut catalogue = replica.db.shared.catalogue.lock();
            if catalogue.manifest.next_table() == RESERVED {
                replica.add_table(&mut catalogue, RESERVED_NAME, false);
            }
            replica.note_tables(&mut applier, &catalogue);
        }
        Ok(replica)
    }

    /// Whether there were tables to bring into memory when it was opened.
    #[must_use]
    pub fn began_with_tables(&self) -> bool {
        self.db.shared.loader.progress().tables_total > 0
    }

    /// Waits until all tables are in memory.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`] if the image of a table cannot be read; [`Error::Closed`].
    pub fn wait_until_loaded(&self) -> Result<(), Error> {
        self.db.shared.loader.wait()
    }

    /// Ends the loading of tables that are not in memory yet: those that wait for them get [`Error::Closed`].
    pub fn stop_loading(&self) {
        self.db.shared.loader.stop();
    }

    /// The database, for views and queries. It takes no transactions, and its tables are changed by the log alone. A view that is
    /// opened while a table is created or dropped may have the change, and not its stamp: the applier opens those for which
    /// that matters.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.db
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.db.shared.engine
    }

    /// The stamp through which groups are installed.
    fn installed(&self) -> &RwLock<Stamp> {
        let installed = &self.engine().installed;
        let Some(installed) = installed else {
            unreachable!("the database was opened as a replica");
        };
        installed
    }

    /// Creates a table with the next number. Keys and values are bytes; keys of exactly eight bytes (`fixed_keys`) are the
    /// faster case. Nothing happens if it exists just so. The name was [checked](check_table_name) before it came to the log.
    ///
    /// # Errors
    /// [`ReplicaError::TableExists`]; [`ReplicaError::TableName`] for the one name that is taken.
    pub fn create_table(&self, name: &str, fixed_keys: bool) -> Result<TableId, ReplicaError> {
        let mut applier = self.applier.lock();
        let mut catalogue = self.db.shared.catalogue.lock();
        if name == RESERVED_NAME {
            return Err(reserved(name));
        }
        if let Some(id) = catalogue.ids.get(name) {
            let has_such_keys = |table: &Arc<RawTable>| table.fixed_keys == fixed_keys;
            if applier.tables.get(&id).is_some_and(has_such_keys) {
                return Ok(id);
            }
            let name = name.to_owned();
            return Err(ReplicaError::TableExists { id, name });
        }
        let id = self.add_table(&mut catalogue, name, fixed_keys);
        self.note_tables(&mut applier, &catalogue);
        Ok(id)
    }

    /// Drops a table, if there is one. Groups that have used it, and are applied later, change nothing of it. Views that are
    /// open read it as before. Its memory is freed with what is returned, unless it is still used.
    pub fn drop_table(&self, id: TableId) -> Option<DroppedTable> {
        let mut applier = self.applier.lock();
        let mut catalogue = self.db.shared.catalogue.lock();
        let info = catalogue.manifest.table(id).filter(|_| id != RESERVED);
        let name = info.map(|info| info.name.clone())?;
        let gone = self.remove_table(&mut applier, &mut catalogue, (id, &name));
        Some(self.end_drop(gone))
    }

    /// Drops a table, if there is one, and creates another one in its place, with its name and its kind of keys, and with the
    /// next number: no reader finds neither or both. Groups that have used the table, and are applied later, change nothing of
    /// either. As [`Replica::drop_table`] otherwise.
    pub fn clear_table(&self, id: TableId) -> Option<(TableId, DroppedTable)> {
        let mut applier = self.applier.lock();
        let mut catalogue = self.db.shared.catalogue.lock();
        let info = catalogue.manifest.table(id).filter(|_| id != RESERVED);
        let (name, fixed_keys) = info.map(|info| (info.name.clone(), info.fixed_keys))?;
        let gone = self.remove_table(&mut applier, &mut catalogue, (id, &name));
        let new = self.add_table(&mut catalogue, &name, fixed_keys);
        self.note_tables(&mut applier, &catalogue);
        Some((new, self.end_drop(gone)))
    }

    /// Takes a table out of the catalogue in memory.
    fn remove_table(
        &self,
        applier: &mut Applier,
        catalogue: &mut Catalogue,
        (id, name): (TableId, &str),
    ) -> DroppedTable {
        let shared = &self.db.shared;
        let gone = DroppedTable {
            raw_tables: applier.tables.get(&id).cloned().into_iter().collect(),
        };
        shared.begin_change(catalogue, name);
        if let Some(raw_table) = applier.tables.get(&id) {
            shared.keep_dropped(catalogue, raw_table);
            raw_table.dropped().store(true, Ordering::SeqCst);
            self.engine().views.keep_dropped_table(raw_table);
        }
        catalogue.manifest.drop_table(id);
        catalogue.ids.remove(name);
        self.faults.note_dropped(name, id);
        self.engine().raw_tables.lock().remove(&id);
        shared.loader.forget(id);
        self.note_tables(applier, catalogue);
        gone
    }

    /// Groups learn of a drop: those that see it find the table gone.
    fn end_drop(&self, mut gone: DroppedTable) -> DroppedTable {
        self.drops.fetch_add(1, Ordering::SeqCst);
        // Buffers that no group uses for long.
        self.pool.lock().forget_dropped(&mut gone.raw_tables);
        gone
    }

    /// Adds a table to the catalogue in memory. The manifest on the disk names it with the next image.
    fn add_table(&self, catalogue: &mut Catalogue, name: &str, fixed_keys: bool) -> TableId {
        let shared = &self.db.shared;
        let info = TableInfo {
            id: self.faults.new_number(&mut catalogue.manifest, name),
            name: name.to_owned(),
            key_type: String::new(),
            value_type: String::new(),
            fixed_keys,
            inline_bytes: if fixed_keys {
                INLINE_BYTES_FIXED
            } else {
                INLINE_BYTES_VARIABLE
            },
            layout: None,
        };
        let id = info.id;
        let change = shared.begin_change(catalogue, name);
        let tables = &mut catalogue.manifest.tables;
        let place = tables.partition_point(|it| it.id < info.id);
        tables.insert(place, info.clone());
        catalogue.ids.add(name.to_owned(), id);
        shared.add_raw_table(info, change);
        id
    }

    /// The applier's copy of the catalogue.
    fn note_tables(&self, applier: &mut Applier, catalogue: &Catalogue) {
        let raw_tables = self.engine().raw_tables.lock().clone();
        applier.tables = raw_tables;
        applier.next_table = catalogue.manifest.next_table();
    }

    /// The number of a table.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        let id = self.db.shared.catalogue.lock().ids.get(name);
        id.filter(|id| *id != RESERVED)
    }

    /// All tables, by number.
    #[must_use]
    pub fn tables(&self) -> Vec<TableInfo> {
        let catalogue = self.db.shared.catalogue.lock();
        let tables = catalogue.manifest.tables.iter();
        tables.filter(|info| info.id != RESERVED).cloned().collect()
    }

    /// Whether there is such a table of clients.
    #[must_use]
    pub fn has_table(&self, id: TableId) -> bool {
        self.raw_table(id).is_some()
    }

    /// A table of clients.
    fn raw_table(&self, id: TableId) -> Option<Arc<RawTable>> {
        let raw_tables = self.engine().raw_tables.lock();
        raw_tables.get(&id).filter(|_| id != RESERVED).cloned()
    }

    /// The stamp of the last group that was applied.
    #[must_use]
    pub fn applied_through(&self) -> Stamp {
        *self.installed().read()
    }

    /// Reads the last applied value of a key into `into`; returns whether the key has one. It takes
    /// no lock and may be called at any time: a value is whole, but two calls may return values of
    /// different groups if a group is applied in between.
    ///
    /// # Errors
    /// [`ReplicaError::NoSuchTable`]
    pub fn read(
        &self,
        table: TableId,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<bool, ReplicaError> {
        let raw_table = self
            .raw_table(table)
            .ok_or(ReplicaError::NoSuchTable(table))?;
        into.clear();
        // A key that the table cannot hold is not there.
        let Ok(Ok(record)) = raw_table.find(key) else {
            return Ok(false);
        };
        // If its key has left the index since, it is absent.
        let present = copy(record, into).is_some_and(|(_, absent)| !absent);
        if !present {
            into.clear();
        }
        Ok(present)
    }

    /// The state as it is now: that of all groups that were applied, and of none after them.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    pub fn view(&self) -> Result<ReplicaView, Error> {
        ReplicaView::open(&self.db, true)
    }

    /// Begins a group of commands.
    #[must_use]
    pub fn begin_group(self: &Arc<Self>) -> GroupTransaction {
        GroupTransaction::begin(self)
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

/// A table that was dropped. The last of its users frees its memory, which takes long if it is large.
#[derive(Default)]
pub struct DroppedTable {
    /// The same, as often as it was kept.
    raw_tables: Vec<Arc<RawTable>>,
}

impl DroppedTable {
    /// Whether something else keeps it in memory: groups, or views.
    #[must_use]
    pub fn is_used(&self) -> bool {
        let raw_table = self.raw_tables.first();
        raw_table.is_some_and(|raw_table| Arc::strong_count(raw_table) > self.raw_tables.len())
    }
}

impl std::fmt::Debug for DroppedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.raw_tables.first().map(|raw_table| raw_table.id);
        write!(f, "DroppedTable({id:?})")
    }
}

/// Whether clients may have a table of this name.
///
/// # Errors
/// [`ReplicaError::TableName`]
pub fn check_table_name(name: &str) -> Result<(), ReplicaError> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(reserved(name));
    }
    check_name(name).map_err(|error| ReplicaError::TableName {
        name: name.to_owned(),
        why: error.to_string(),
    })
}

fn reserved(name: &str) -> ReplicaError {
    ReplicaError::TableName {
        name: name.to_owned(),
        why: format!("{RESERVED_PREFIX:?} begins those of the cluster itself"),
    }
}

/// Copies a record's version: its stamp, and whether it says that the key is not there. `None` if the key has left the
/// index.
#[inline]
fn copy(record: RecordRef, into: &mut Vec<u8>) -> Option<(Stamp, bool)> {
    loop {
        if let Some(copied) = record.copy_installed(into) {
            return Some((copied.creation, copied.absent));
        }
        if !record.is_current() {
            return None;
        }
        std::hint::spin_loop();
    }
}
