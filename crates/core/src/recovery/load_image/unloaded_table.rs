//! Reads of a table that is not loaded yet: from the runs of the image, under the log's winners.
//!
//! A table that was loaded into a segment and that takes no transactions is read in the same way:
//! it has one run, which is never loaded, and no change in the log.
//!
//! It does not change: transactions wait until the table is loaded. A view that continues to read
//! here after the loading still sees its own moment: the runs were written before the database was
//! opened, and from records it reads its own version. A checkpoint that removes the runs opens
//! their files first for such a view (`ImageLoader::open_files_in_use`).

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use namiki_index::{Direction, ScanRange};
use namiki_platform::disk::Disk;

use crate::catalogue::image_list::{LOADED, ListedRun};
use crate::catalogue::loaded_tables::LoadedTable;
use crate::commit::view_opening::OpenView;
use crate::error::{Error, OpenError};
use crate::image::read::run_lookup::{RowsOfRun, RunLookup};
use crate::image::read::run_reader::RunToRead;
use crate::recovery::replay::log_winners::LogWinners;
use crate::table::raw_table::{RawTable, TableInfo};

/// The location of an image's files.
pub(crate) struct ImageFiles {
    pub(crate) disk: Arc<dyn Disk>,
    /// The database's directory.
    pub(crate) dir: PathBuf,
    /// The identity of the database.
    pub(crate) database: u128,
}

/// The rows of a table that is not loaded.
pub(crate) struct UnloadedTable {
    pub(in crate::recovery) raw_table: Arc<RawTable>,
    pub(in crate::recovery) files: Arc<ImageFiles>,
    info: TableInfo,
    /// In the order of their keys.
    runs: Vec<Run>,
    pub(in crate::recovery) winners: LogWinners,
}

struct Run {
    listed: ListedRun,
    /// Whether this is the segment into which its table was loaded.
    is_segment: bool,
    /// Opened when it is first read by its keys.
    lookup: OnceLock<RunLookup>,
}

impl UnloadedTable {
    pub(in crate::recovery) fn new(
        raw_table: &Arc<RawTable>,
        files: &Arc<ImageFiles>,
        info: &TableInfo,
        runs: Vec<ListedRun>,
        winners: LogWinners,
    ) -> Self {
        let runs = runs.into_iter().map(|listed| Run {
            listed,
            is_segment: false,
            lookup: OnceLock::new(),
        });
        Self {
            raw_table: Arc::clone(raw_table),
            files: Arc::clone(files),
            info: info.clone(),
            runs: runs.collect(),
            winners,
        }
    }

    /// A table that lies in the segment into which it was loaded.
    pub(in crate::recovery) fn in_segment(
        raw_table: &Arc<RawTable>,
        files: &Arc<ImageFiles>,
        info: &TableInfo,
        table: &LoadedTable,
    ) -> Self {
        let run = Run {
            listed: ListedRun {
                from: Vec::new(),
                segment: table.segment.clone(),
                rows: table.rows,
                bytes: table.segment.len_bytes(),
                stamp: LOADED,
            },
            is_segment: true,
            lookup: OnceLock::new(),
        };
        let winners = LogWinners::none(info.fixed_keys);
        Self {
            runs: vec![run],
            ..Self::new(raw_table, files, info, Vec::new(), winners)
        }
    }

    /// How many runs it has.
    pub(in crate::recovery) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The number of parts in which it is loaded: one for each run, and one if it has no runs.
    pub(in crate::recovery) fn part_count(&self) -> usize {
        self.runs.len().max(1)
    }

    /// One of the runs.
    pub(in crate::recovery) fn run(&self, number: usize) -> RunToRead<'_> {
        RunToRead {
            table: &self.info,
            listed: &self.runs[number].listed,
            end: self.runs.get(number + 1).map(|next| &*next.listed.from),
        }
    }

    /// Opens all of its files, so that it can be read after they lose their names.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`].
    pub(crate) fn open_runs(&self) -> Result<(), Error> {
        (0..self.run_count()).try_for_each(|number| self.lookup(number).map(|_| ()))
    }

    /// Opens those of its files that can be opened.
    pub(in crate::recovery) fn open_each_run(&self) {
        for number in 0..self.run_count() {
            let _ = self.lookup(number);
        }
    }

    /// About how many rows there are: those of the image that the log has changed are counted twice.
    pub(crate) fn len_estimate(&self) -> u64 {
        let rows: u64 = self.runs.iter().map(|run| run.listed.rows).sum();
        rows + self.winners.present() as u64
    }

    /// Copies the value of a key into `value`; returns whether the key is there.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`], [`Error::ViewExpired`]; errors that name a bad key.
    pub(crate) fn get(
        &self,
        view: &OpenView,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let raw_table = &self.raw_table;
        let checked = raw_table.check_key(key);
        checked.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        if let Some(place) = self.winners.find(key) {
            return match self.winners.record(place) {
                Some(record) => Ok(view.copy(record, value)?.is_some()),
                None => Ok(false),
            };
        }
        let Some(run) = self.run_of(key) else {
            return Ok(false);
        };
        let from = Bound::Included(key);
        let mut rows = self.lookup(run)?.rows(from, Direction::Forward);
        let is_there = rows.advance().map_err(|error| self.damaged(error))? && rows.key() == key;
        if is_there {
            value.clear();
            value.extend_from_slice(rows.value());
        }
        Ok(is_there)
    }

    /// Visits the keys in a range and their values, in order, until `visit` breaks off.
    ///
    /// # Errors
    /// As [`UnloadedTable::get`]; what `visit` returns.
    pub(crate) fn scan(
        &self,
        view: &OpenView,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let mut winners = self.winners.range(range.start, range.end);
        let mut rows = ImageRows::new(self, range);
        let mut has_row = rows.advance()?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        loop {
            let place = match range.direction {
                Direction::Forward => winners.clone().next(),
                Direction::Backward => winners.clone().next_back(),
            };
            let (winner, order) = match (place, has_row) {
                (None, false) => return Ok(()),
                (None, true) => (None, Ordering::Less),
                (Some(winner), false) => (Some(winner), Ordering::Greater),
                (Some(winner), true) => {
                    let winner_to_row = self.winners.cmp_key(winner, rows.key());
                    (
                        Some(winner),
                        in_direction(winner_to_row.reverse(), range.direction),
                    )
                }
            };
            // The source that comes first, and that has precedence if both have the key.
            let Some(winner) = winner.filter(|_| order.is_ge()) else {
                if visit(rows.key(), rows.value())?.is_break() {
                    return Ok(());
                }
                has_row = rows.advance()?;
                continue;
            };
            match range.direction {
                Direction::Forward => winners.start += 1,
                Direction::Backward => winners.end -= 1,
            }
            if order.is_eq() {
                has_row = rows.advance()?;
            }
            if let Some(record) = self.winners.record(winner)
                && view.copy(record, &mut value)?.is_some()
            {
                self.winners.copy_key(winner, &mut key);
                if visit(&key, &value)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// The run with the key in its range, if any.
    fn run_of(&self, key: &[u8]) -> Option<usize> {
        let begun = self.runs.partition_point(|run| *run.listed.from <= *key);
        begun.checked_sub(1)
    }

    fn lookup(&self, number: usize) -> Result<&RunLookup, Error> {
        let run = &self.runs[number];
        if let Some(lookup) = run.lookup.get() {
            return Ok(lookup);
        }
        let ImageFiles {
            disk,
            dir,
            database,
        } = &*self.files;
        let (table, listed) = (self.info.name.clone(), &run.listed);
        let opened = if run.is_segment {
            RunLookup::open_segment(disk, dir, *database, table, &listed.segment)
        } else {
            RunLookup::open(disk, dir, *database, table, listed)
        };
        let opened = opened.map_err(|error| self.damaged(error))?;
        Ok(run.lookup.get_or_init(|| opened))
    }

    fn damaged(&self, error: OpenError) -> Error {
        Error::TableNotLoaded {
            table: self.raw_table.name(),
            source: Arc::new(error),
        }
    }
}

fn in_direction(order: Ordering, direction: Direction) -> Ordering {
    match direction {
        Direction::Forward => order,
        Direction::Backward => order.reverse(),
    }
}

/// The rows of the runs in a range, one after the other.
struct ImageRows<'t> {
    table: &'t UnloadedTable,
    direction: Direction,
    /// Where the range begins in this direction, and where it ends.
    near: Bound<&'t [u8]>,
    far: Bound<&'t [u8]>,
    rows: Option<RowsOfRun<'t>>,
    /// The run after that.
    next: Option<usize>,
}

impl<'t> ImageRows<'t> {
    fn new(table: &'t UnloadedTable, range: ScanRange<'t>) -> Self {
        let (near, far) = match range.direction {
            Direction::Forward => (range.start, range.end),
            Direction::Backward => (range.end, range.start),
        };
        let last = table.runs.len().checked_sub(1);
        let next = match (near, range.direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => table.run_of(key),
            (Bound::Unbounded, Direction::Forward) => last.map(|_| 0),
            (Bound::Unbounded, Direction::Backward) => last,
        };
        // Before all runs, there is nothing on the way back, and the first run on the way ahead.
        let next = match range.direction {
            Direction::Forward => next.or(last.map(|_| 0)),
            Direction::Backward => next,
        };
        Self {
            table,
            direction: range.direction,
            near,
            far,
            rows: None,
            next,
        }
    }

    /// Advances to the next row. Returns false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some(rows) = &mut self.rows {
                if rows.advance().map_err(|error| self.table.damaged(error))? {
                    if self.has(self.key()) {
                        return Ok(true);
                    }
                    self.next = None;
                }
                self.rows = None;
            }
            let Some(number) = self.next else {
                return Ok(false);
            };
            self.next = match self.direction {
                Direction::Forward => Some(number + 1).filter(|next| *next < self.table.runs.len()),
                Direction::Backward => number.checked_sub(1),
            };
            let lookup = self.table.lookup(number)?;
            self.rows = Some(lookup.rows(self.near, self.direction));
        }
    }

    /// Whether a key is not beyond the end.
    fn has(&self, key: &[u8]) -> bool {
        let (far, is_included) = match self.far {
            Bound::Unbounded => return true,
            Bound::Included(far) => (far, true),
            Bound::Excluded(far) => (far, false),
        };
        match in_direction(key.cmp(far), self.direction) {
            Ordering::Less => true,
            Ordering::Equal => is_included,
            Ordering::Greater => false,
        }
    }

    fn key(&self) -> &[u8] {
        self.rows.as_ref().map_or(&[], RowsOfRun::key)
    }

    fn value(&self) -> &[u8] {
        self.rows.as_ref().map_or(&[], RowsOfRun::value)
    }
}
