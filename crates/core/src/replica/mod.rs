//! The tables of one node of a cluster: in memory, without a log of their own.
//!
//! The state of a [`Replica`] is that of a prefix of the log. It changes by
//! [applying](Replica::apply) the after-images of committed groups in the order of the log, on the
//! leader as on its followers. The leader executes commands before that: a [`GroupTransaction`] is
//! a group of commands (the paper's LogGrp) that is one transaction of strict two-phase locking. It
//! locks rows, reads them, and buffers its writes. [Sealing](GroupTransaction::seal) it leaves its
//! after-images and its [`HeldLocks`], which are released when the group is applied, or when it is
//! certain that it never will be. No undo is needed, because memory has not changed.
//!
//! ```text
//!   worker:   begin_group ─ lock, value, write … ─ encode_changes ─ seal ──> payload to the log, locks to the task store
//!   applier:  committed ──> HeldLocks::install (of its own group)  |  Replica::apply (of another node's)
//! ```
//! Commands name the keys that they touch, an absent key is locked by the absent record that is made for it, and there are
//! no scans: so there are no phantoms, and no locks of gaps. A lock is not waited for, so there are no deadlocks.
//!
//! # Invariants
//! - G1. A group's number is another group's only after the group has released all its locks.
//! - G2. Versions are installed by one thread at a time (`applied` is locked for writing), with ascending stamps: what
//!   `storage/record.rs` asks of a replica (R3).
//! - G3. Tables are never removed, so a record lives as long as the replica (R1); groups and locks keep the replica alive.
//!
//! Paper: raft-pwal §3.2, §3.3

mod apply;
mod changes;
mod error;
mod group;
mod group_pool;
mod held_locks;
mod row_lock;
mod state_hash;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki_index::{Direction, ScanRange};
use namiki_platform::Stamp;
use parking_lot::{Mutex, RwLock};

pub use self::apply::Applied;
pub use self::error::{LockError, ReplicaError, WriteError};
pub use self::group::{GroupTransaction, Slot};
pub use self::held_locks::HeldLocks;

use self::apply::ApplyState;
use self::group_pool::GroupPool;
use self::state_hash::StateHash;
use crate::storage::index::{IndexKind, TreeKind};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Owner, RawTable, Step, TableId, TableInfo};

/// Commands look keys up, and only checks and dumps scan. At a million accounts, the hash table saves a fifth of the time of a
/// transfer, and half of it if keys have any length.
const INDEX: IndexKind = IndexKind::OrderedAndHash(TreeKind::Art);

/// The inline capacity of records in tables with eight-byte keys: that of an account. Longer values
/// are boxed.
const INLINE_BYTES_FIXED: usize = 8;
/// The same of other tables. A record is 64 bytes then.
const INLINE_BYTES_VARIABLE: usize = 40;

type Tables = BTreeMap<TableId, Arc<RawTable>>;

/// The tables of one node of a cluster.
pub struct Replica {
    tables: RwLock<Tables>,
    owner: Owner,
    /// The last applied group. Written while versions are installed.
    applied: RwLock<ApplyState>,
    pool: Mutex<GroupPool>,
}

impl Replica {
    /// Without tables.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tables: RwLock::default(),
            owner: Owner::new(),
            applied: RwLock::default(),
            pool: Mutex::default(),
        }
    }

    /// Creates a table. Keys and values are bytes; keys of exactly eight bytes (`fixed_keys`) are the faster case. Nothing
    /// happens if it exists just so.
    ///
    /// # Errors
    /// [`ReplicaError::TableExists`]
    pub fn create_table(
        &self,
        id: TableId,
        name: &str,
        fixed_keys: bool,
    ) -> Result<(), ReplicaError> {
        let mut tables = self.tables.write();
        let same_id = tables.get(&id);
        if same_id.is_some_and(|it| *it.name() == *name && it.fixed_keys == fixed_keys) {
            return Ok(());
        }
        if same_id.is_some() || tables.values().any(|it| *it.name() == *name) {
            let name = name.to_owned();
            return Err(ReplicaError::TableExists { id, name });
        }
        let info = TableInfo {
            id,
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
        let raw_table = RawTable::new(info, INDEX, self.owner)
            .expect("ART and the hash table are in every build");
        tables.insert(id, Arc::new(raw_table));
        Ok(())
    }

    /// The number of a table.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        let tables = self.tables.read();
        let mut of_name = tables.values().filter(|it| *it.name() == *name);
        of_name.next().map(|it| it.id)
    }

    /// All tables with their names, by number.
    #[must_use]
    pub fn tables(&self) -> Vec<(TableId, String)> {
        let tables = self.tables.read();
        let tables = tables.values();
        tables.map(|it| (it.id, it.name())).collect()
    }

    fn raw_table(&self, id: TableId) -> Option<Arc<RawTable>> {
        self.tables.read().get(&id).cloned()
    }

    /// The stamp of the last group that was applied.
    #[must_use]
    pub fn applied_through(&self) -> Stamp {
        self.applied.read().through
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
        let (_, absent) = copy(record, into);
        if absent {
            into.clear();
        }
        Ok(!absent)
    }

    /// Visits the rows of a table in the order of their keys, until the visitor stops: key, value,
    /// and the stamp of the group that wrote it. All rows are of one moment: no group is applied
    /// during the scan.
    ///
    /// # Errors
    /// [`ReplicaError::NoSuchTable`]
    pub fn scan(
        &self,
        table: TableId,
        visit: impl FnMut(&[u8], &[u8], Stamp) -> ControlFlow<()>,
    ) -> Result<(), ReplicaError> {
        let raw_table = self
            .raw_table(table)
            .ok_or(ReplicaError::NoSuchTable(table))?;
        let _no_apply = self.applied.read();
        scan(&raw_table, visit);
        Ok(())
    }

    /// A hash of all tables and of every key with its value and the stamp of the group that wrote it, at one moment. Replicas
    /// that have applied the same groups have the same.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        let _no_apply = self.applied.read();
        let mut hash = StateHash::default();
        for (id, raw_table) in &*self.tables.read() {
            hash.add_table(*id, &raw_table.name(), raw_table.fixed_keys);
            scan(raw_table, |key, value, stamp| {
                hash.add_row(*id, key, value, stamp);
                ControlFlow::Continue(())
            });
        }
        hash.finish()
    }

    /// Begins a group of commands.
    #[must_use]
    pub fn begin_group(self: &Arc<Self>) -> GroupTransaction {
        GroupTransaction::begin(self)
    }
}

impl Default for Replica {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("tables", &self.tables())
            .finish_non_exhaustive()
    }
}

/// Visits the rows that are present. The caller keeps groups from being applied.
fn scan(raw_table: &RawTable, mut visit: impl FnMut(&[u8], &[u8], Stamp) -> ControlFlow<()>) {
    let all = ScanRange {
        start: Bound::Unbounded,
        end: Bound::Unbounded,
        direction: Direction::Forward,
    };
    let mut value = Vec::new();
    let scanned = raw_table.scan(all, |step| match step {
        Step::Leaf(_) => ControlFlow::Continue(()),
        Step::Entry(key, record) => match copy(record, &mut value) {
            (_, true) => ControlFlow::Continue(()),
            (stamp, false) => visit(key, &value, stamp),
        },
    });
    scanned.expect("the index is ordered, and there are no bounds");
}

/// Copies a record's version: its stamp, and whether it says that the key is not there.
#[inline]
fn copy(record: RecordRef, into: &mut Vec<u8>) -> (Stamp, bool) {
    loop {
        if let Some(copied) = record.copy_installed(into) {
            return (copied.creation, copied.absent);
        }
        std::hint::spin_loop();
    }
}
