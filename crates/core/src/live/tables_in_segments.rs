//! Tables that were loaded into segments: which of them stay there, and how much memory the others
//! take.

use std::collections::BTreeMap;
use std::sync::Arc;

use namiki_platform::available_memory_bytes;
use parking_lot::Mutex;

use crate::catalogue::image_list::ImageList;
use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::manifest::Manifest;
use crate::table::raw_table::{ChangeNumber, RawTable, TableId};

/// The approximate memory overhead of a row, in bytes, in addition to its key and its value: a
/// record, its place in the index, and what allocations round up.
const BYTES_BESIDE_ROW: u64 = 64;

/// The first number for tables that stay in segments; the manifest assigns none of these.
const FIRST_NUMBER: u32 = u32::MAX;

/// The tables of a database that were loaded into segments.
#[derive(Default)]
pub(crate) struct TablesInSegments {
    /// Memory limit of the tables that are taken into memory.
    bytes_max: u64,
    /// Locked while a table is taken into memory: one after the other.
    pub(crate) taking: Mutex<()>,
    /// The handles of those that stay, by the identities of their segments. Locked only briefly,
    /// after the catalogue.
    staying: Mutex<BTreeMap<String, Arc<RawTable>>>,
    /// The changes that have made those that were loaded since the opening, by the identities of
    /// their segments. Locked only briefly, after the catalogue.
    made_by: Mutex<BTreeMap<String, ChangeNumber>>,
    /// The approximate memory of each table that was taken into memory. Locked only briefly, after
    /// the catalogue.
    taken: Mutex<BTreeMap<TableId, u64>>,
}

impl TablesInSegments {
    /// For a database with this image of its tables in memory.
    pub(crate) fn new(
        bytes_max: Option<u64>,
        manifest: &Manifest,
        image: Option<&ImageList>,
    ) -> Self {
        let taken = manifest.tables.iter().filter_map(|table| {
            table.columns()?;
            let runs = &image?.table(table.id)?.runs;
            let bytes = runs.iter().map(|run| memory_bytes(run.rows, run.bytes));
            Some((table.id, bytes.sum()))
        });
        // Computed once: the memory that is available later lacks the part that tables have taken.
        let half = || available_memory_bytes().map_or(u64::MAX, |bytes| bytes / 2);
        Self {
            bytes_max: bytes_max.unwrap_or_else(half),
            taking: Mutex::default(),
            staying: Mutex::default(),
            made_by: Mutex::default(),
            taken: Mutex::new(taken.collect()),
        }
    }

    /// The memory limit, in bytes, of all of them that take part in transactions.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The memory that these take.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken.lock().values().sum()
    }

    /// Records the memory that one table takes now.
    pub(crate) fn take(&self, id: TableId, bytes: u64) {
        self.taken.lock().insert(id, bytes);
    }

    /// A table was dropped.
    pub(crate) fn release(&self, id: TableId) {
        self.taken.lock().remove(&id);
    }

    /// The handle of a table that stays, if it has one.
    pub(crate) fn staying(&self, table: &LoadedTable) -> Option<Arc<RawTable>> {
        let staying = self.staying.lock();
        staying.get(&table.segment.identity).cloned()
    }

    /// The identity of the segments of a table that stays, by its handle.
    pub(crate) fn segments_of(&self, raw_table: &Arc<RawTable>) -> Option<String> {
        let staying = self.staying.lock();
        let mut all = staying.iter();
        let (identity, _) = all.find(|(_, own)| Arc::ptr_eq(own, raw_table))?;
        Some(identity.clone())
    }

    /// A table was loaded, by this change of the catalogue.
    pub(crate) fn note_load(&self, table: &LoadedTable, change: ChangeNumber) {
        let identity = table.segment.identity.clone();
        self.made_by.lock().insert(identity, change);
    }

    /// The change of the catalogue that has made a table.
    pub(crate) fn made_by(&self, table: &LoadedTable) -> ChangeNumber {
        let made_by = self.made_by.lock();
        (made_by.get(&table.segment.identity).copied()).unwrap_or_default()
    }

    /// The number for one more table that stays.
    pub(crate) fn next_number(&self) -> TableId {
        TableId(FIRST_NUMBER - self.staying.lock().len() as u32)
    }

    /// The table stays, and has this handle.
    pub(crate) fn stay(&self, table: &LoadedTable, raw_table: &Arc<RawTable>) {
        let identity = table.segment.identity.clone();
        self.staying.lock().insert(identity, Arc::clone(raw_table));
    }
}

/// The approximate memory of `rows` rows with `bytes` bytes of keys and values.
pub(crate) fn memory_bytes(rows: u64, bytes: u64) -> u64 {
    bytes.saturating_add(rows.saturating_mul(BYTES_BESIDE_ROW))
}
