//! The core tables behind SQL's tables and indexes.
//!
//! Each has a number that is never used again, and is called by it. SQL's names are in the catalogue's rows, which
//! transactions read and write; creating and dropping a core table is no part of a transaction.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use namiki::{ByteTable, Database, ScanRange, UntypedTable, View};
use namiki_data::columns::{Schema, row_codec};
use parking_lot::RwLock;

use crate::error::{SqlError, SqlResult};

/// What the names of all core tables here begin with.
const PREFIX: &str = "sql_";
/// The number of row numbers that a connection takes at once.
const ROW_NUMBERS: i64 = 256;

/// An open core table.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) table: ByteTable,
    pub(crate) number: u64,
    /// The next row number, in a table without a primary key.
    next_row: AtomicI64,
    /// Whether a transaction block has read a row after it had added to it.
    reads_follow_sums: AtomicBool,
}

impl OpenTable {
    /// Whether blocks read rows of this table after they have added to them.
    pub(crate) fn do_reads_follow_sums(&self) -> bool {
        self.reads_follow_sums.load(Ordering::Relaxed)
    }

    /// A block has done so.
    pub(crate) fn note_read_after_sum(&self) {
        self.reads_follow_sums.store(true, Ordering::Relaxed);
    }

    /// A block of row numbers that no row has: the first one, and how many.
    pub(crate) fn take_row_numbers(&self) -> (i64, i64) {
        (
            self.next_row.fetch_add(ROW_NUMBERS, Ordering::Relaxed),
            ROW_NUMBERS,
        )
    }
}

/// The core tables, opened once.
#[derive(Debug)]
pub(crate) struct Storage {
    db: Database,
    open: RwLock<HashMap<u64, Arc<OpenTable>>>,
}

/// The name of the core table of this number.
pub(crate) fn core_table_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn schema_bytes(schema: &Schema) -> SqlResult<Vec<u8>> {
    serde_json::to_vec(schema)
        .map_err(|error| SqlError::corrupted(format!("a schema cannot be written: {error}")))
}

impl Storage {
    pub(crate) fn new(db: Database) -> Self {
        Self {
            db,
            open: RwLock::default(),
        }
    }

    /// The table of this number.
    ///
    /// # Errors
    /// 40001 if it was dropped: the caller's view of the catalogue is older.
    pub(crate) fn open(&self, number: u64) -> SqlResult<Arc<OpenTable>> {
        if let Some(found) = self.open.read().get(&number) {
            return Ok(Arc::clone(found));
        }
        let name = core_table_name(number);
        let Some(table) = self.db.untyped_table(&name)? else {
            return Err(SqlError::from(namiki::Error::TableDropped { table: name }));
        };
        Ok(self.keep(number, table))
    }

    fn keep(&self, number: u64, table: ByteTable) -> Arc<OpenTable> {
        let mut open = self.open.write();
        let kept = open.entry(number).or_insert_with(|| {
            Arc::new(OpenTable {
                table,
                number,
                next_row: AtomicI64::new(1),
                reads_follow_sums: AtomicBool::new(false),
            })
        });
        Arc::clone(kept)
    }

    /// Makes an empty table; `schema` is that of version 0 of its rows. Durable when it returns; blocks for that.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn create(
        &self,
        number: u64,
        eight_byte_keys: bool,
        room_bytes: usize,
        schema: Option<&Schema>,
    ) -> SqlResult<Arc<OpenTable>> {
        let name = core_table_name(number);
        let schema = schema.map(schema_bytes).transpose()?;
        let table = self.db.create_untyped_table(&UntypedTable {
            name: &name,
            key_type: "sql key",
            value_type: "sql row",
            eight_byte_keys,
            room_bytes,
            layouts: None,
            schema: schema.as_deref(),
        })?;
        Ok(self.keep(number, table))
    }

    /// Whether a table's rows can have a further version.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn has_room_for_version(&self, number: u64) -> SqlResult<bool> {
        let versions = self.db.schema_versions(&self.open(number)?.table)?;
        Ok(versions.len() < usize::from(row_codec::VERSIONS))
    }

    /// Adds a version of a table's rows, before the transaction that names it; `None` if there are too many. Durable when
    /// it returns, also if the transaction does not commit: no other has the number. Blocks.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn add_version(&self, number: u64, schema: &Schema) -> SqlResult<Option<u8>> {
        let table = &self.open(number)?.table;
        let bytes = schema_bytes(schema)?;
        let mut version = self.db.add_schema_version(table, &bytes)?;
        if version == 0 {
            // The version of rows before the first change of the columns.
            version = self.db.add_schema_version(table, &bytes)?;
        }
        let version = u8::try_from(version).ok();
        Ok(version.filter(|version| *version < row_codec::VERSIONS))
    }

    /// Drops a table that no committed row of the catalogue names. Earlier views read it until they end.
    ///
    /// # Errors
    /// Those of the core; the next opening drops it then.
    pub(crate) fn remove(&self, number: u64) -> SqlResult<()> {
        self.open.write().remove(&number);
        match self.db.drop_table(&core_table_name(number)) {
            Ok(()) | Err(namiki::Error::NoSuchTable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The numbers of all tables that there are.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let infos = self.db.table_infos();
        let number = |name: &str| name.strip_prefix(PREFIX)?.parse().ok();
        infos.iter().filter_map(|info| number(&info.name)).collect()
    }

    /// Goes on with row numbers behind the last one, after an opening.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn resume_row_numbers(&self, number: u64, view: &View) -> SqlResult<()> {
        let open = self.open(number)?;
        let range = ScanRange {
            direction: namiki::Direction::Backward,
            ..ScanRange::all()
        };
        let last = view.scan_rows(&open.table, range, |key, _| {
            let key: Option<[u8; 8]> = key.try_into().ok();
            ControlFlow::Break(key)
        })?;
        if let Some(last) = last {
            let last =
                last.ok_or_else(|| SqlError::corrupted("a row number has not eight bytes"))?;
            // The key of a signed number has its sign bit inverted.
            let last = (u64::from_be_bytes(last) ^ (1 << 63)) as i64;
            open.next_row
                .fetch_max(last.saturating_add(1), Ordering::Relaxed);
        }
        Ok(())
    }
}
