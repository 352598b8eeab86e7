//! The state that queries of a database share: the executor with its page cache, and the open
//! segments.
//!
//! A database that runs no query has neither. The inner pages of a segment stay in memory from its first query on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use namiki_exec::source::{SegmentTable, Source, Table, Tables};
use namiki_exec::{ExecError, Executor};
use namiki_platform::disk::Disk;
use namiki_segment::Segment;
use parking_lot::Mutex;

use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::segment_file::SegmentFile;
use crate::query_error::QueryError;

/// The executor and the open segments of a database.
pub(crate) struct OpenedTables {
    cache_bytes: usize,
    executor: Mutex<Option<Arc<Executor>>>,
    /// By the identities of their segments: another table may get the name of one that was dropped.
    tables: Mutex<Tables>,
}

impl OpenedTables {
    /// Empty. The executor will cache up to `cache_bytes` of pages.
    pub(crate) fn new(cache_bytes: usize) -> Self {
        Self {
            cache_bytes,
            executor: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// The executor, made by the first query.
    pub(crate) fn executor(&self, disk: &Arc<dyn Disk>) -> Result<Arc<Executor>, ExecError> {
        let mut executor = self.executor.lock();
        if let Some(made) = &*executor {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(Executor::new(disk, self.cache_bytes)?);
        *executor = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Closes a dropped table once the last query that reads it has ended.
    pub(crate) fn forget(&self, table: &LoadedTable) {
        self.tables.lock().remove(&table.segment.identity);
    }

    /// A loaded table with its indexes, opened by the first query that names it.
    pub(crate) fn table(
        &self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        database: u128,
        table: &LoadedTable,
    ) -> Result<Table, QueryError> {
        let mut tables = self.tables.lock();
        if let Some(opened) = tables.get(&table.segment.identity) {
            return Ok(opened.clone());
        }
        let wrong = |why: String| QueryError::WrongSegments {
            table: table.name.clone(),
            why,
        };
        let open = |file: &SegmentFile, schema| -> Result<Arc<dyn Source>, QueryError> {
            let path = file.file.path_of_named(&**disk, dir);
            let segment = Segment::open(disk, &path, file.id(database))?;
            if segment.rows() != table.rows || segment.pages() != file.pages {
                return Err(wrong(format!(
                    "{} has {} rows in {} pages, not {} in {}",
                    path.display(),
                    segment.rows(),
                    segment.pages(),
                    table.rows,
                    file.pages
                )));
            }
            let source = SegmentTable::new(schema, vec![Arc::new(segment)]);
            Ok(Arc::new(source.map_err(|error| wrong(error.to_string()))?))
        };
        let mut indexes = BTreeMap::new();
        for index in &table.indexes {
            let schema = index.schema(&table.schema);
            let schema = schema.map_err(|error| wrong(error.to_string()))?;
            indexes.insert(index.name.clone(), open(&index.segment, schema)?);
        }
        let opened = Table::new(open(&table.segment, table.schema.clone())?);
        let mut opened = opened.with_statistics(table.statistics.clone());
        opened.indexes = indexes;
        tables.insert(&table.segment.identity, opened.clone());
        Ok(opened)
    }
}
