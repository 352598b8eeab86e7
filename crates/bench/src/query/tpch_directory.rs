//! A directory that `namiki load tpch` filled, opened for reading: its tables for the executor, and
//! their files for measurements of the device.
//!
//! The files are read through a disk of our own. Drives can then be emulated in front of it, and
//! only the executor's cache, which the caller empties, is between a query and the device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::files::{LoadedTable, Manifest, SegmentFile};
use namiki_exec::plan::Plan;
use namiki_exec::source::{SegmentTable, Source, Table, Tables};
use namiki_platform::disk::{DirLock, Disk, SlowDisk, WriteMode, lock_to_read, open_best};
use namiki_segment::Segment;

use crate::device_choice::Device;
use crate::error::BenchError;

/// An opened TPC-H directory.
pub(crate) struct TpchDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tables: Tables,
    path: PathBuf,
    loaded_tables: Vec<LoadedTable>,
    /// Whether reads bypass the system's page cache.
    is_direct: bool,
    _lock: DirLock,
}

impl TpchDirectory {
    /// Opens the directory. No other process may write to it while it is open.
    pub(crate) fn open(dir: &Path, device: &Device) -> Result<Self, BenchError> {
        let usage = |why: &str| {
            BenchError::Usage(format!(
                "{} {why}; `namiki load tpch --scale 1 --dir DIR` makes a directory to query",
                dir.display()
            ))
        };
        if !dir.is_dir() {
            return Err(usage("is no folder"));
        }
        let lock = lock_to_read(dir).map_err(BenchError::file("lock", dir))?;
        let (best, mode) = open_best(dir).map_err(BenchError::file("read", dir))?;
        if mode == WriteMode::Synced {
            eprintln!(
                "{} has no direct I/O: reads may come from the system's page cache, and no device is measured",
                dir.display()
            );
        }
        let manifest = Manifest::read(&*best, dir).map_err(BenchError::from)?;
        let manifest = manifest.ok_or_else(|| usage("is no database"))?;
        if manifest.loaded_tables.tables.is_empty() {
            return Err(usage("has no loaded tables"));
        }
        let disk: Arc<dyn Disk> = match device {
            Device::File => best,
            Device::Slow(drives) => {
                eprintln!(
                    "EMULATED: {} slow drives, {:?} a read",
                    drives.units, drives.latency
                );
                Arc::new(SlowDisk::new(best, *drives))
            }
            other => {
                let why = format!("--device {other}: queries read from file or slow:192x5ms");
                return Err(BenchError::Usage(why));
            }
        };
        let mut tables = Tables::new();
        for table in &manifest.loaded_tables.tables {
            let open = |segment: &SegmentFile, schema| -> Result<Arc<dyn Source>, BenchError> {
                let path = segment.file.path(dir);
                let segment = Segment::open(&disk, &path, segment.id(manifest.identity()))?;
                let source = SegmentTable::new(schema, vec![Arc::new(segment)]);
                // A single segment overlaps no other.
                Ok(Arc::new(
                    source.map_err(|error| BenchError::Check(error.to_string()))?,
                ))
            };
            let mut opened = Table::new(open(&table.segment, table.schema.clone())?);
            for index in &table.indexes {
                let columns: Vec<&str> = index.columns.iter().map(String::as_str).collect();
                let schema = table.schema.index(&columns);
                let schema = schema.map_err(|error| {
                    BenchError::Check(format!("index {} of {}: {error}", index.name, table.name))
                })?;
                opened = opened.with_index(&index.name, open(&index.segment, schema)?);
            }
            tables.insert(&table.name, opened);
        }
        Ok(Self {
            disk,
            tables,
            path: dir.to_owned(),
            loaded_tables: manifest.loaded_tables.tables,
            is_direct: mode == WriteMode::Direct,
            _lock: lock,
        })
    }

    /// Whether reads bypass the system's page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Number of rows of a table.
    pub(crate) fn rows_in(&self, name: &str) -> u64 {
        let table = self.loaded_tables.iter().find(|table| table.name == name);
        table.map_or(0, |table| table.rows)
    }

    /// Total number of rows of the tables that a plan names.
    pub(crate) fn rows_of(&self, plan: &Plan) -> u64 {
        self.loaded_tables_of(plan).map(|table| table.rows).sum()
    }

    /// The files of the tables that a plan names, with all their indexes.
    pub(crate) fn files_of(&self, plan: &Plan) -> Vec<PathBuf> {
        let segments = self.loaded_tables_of(plan).flat_map(|table| {
            let indexes = table.indexes.iter().map(|index| &index.segment);
            indexes.chain([&table.segment])
        });
        segments
            .map(|segment| segment.file.path(&self.path))
            .collect()
    }

    fn loaded_tables_of(&self, plan: &Plan) -> impl Iterator<Item = &LoadedTable> {
        let named = plan.tables();
        self.loaded_tables
            .iter()
            .filter(move |table| named.contains(table.name.as_str()))
    }
}
