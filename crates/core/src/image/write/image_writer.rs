//! Writes the image of the tables in memory as of one stamp, while transactions run.
//!
//! ```text
//!   of each table: which key ranges have changed since the image before?
//!     unchanged ──► its run is kept, and named again
//!     changed ────► rows, a megabyte at a time ──► runs, each synced ──► list ──► durable under first names
//! ```
//! Rows are copied from their source a piece at a time and written between two visits, so that nothing of the source is
//! held while the device is waited for, or while the rate is kept.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Generation, Stamp};

use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::image_list::{ImageList, LOADED, ListedRun, ListedTable, NamedList};
use crate::catalogue::random_number::random_number;
use crate::image::image_error::ImageError;
use crate::image::new_files::NewFiles;
use crate::image::pace::{Pace, pause};
use crate::image::read::row_buffer::RowBuffer;
use crate::image::write::new_image::NewImage;
use crate::image::write::rows_at_stamp::{KeyBounds, RowsAtStamp};
use crate::image::write::run_plan::{Keys, Part, plan};
use crate::image::write::run_writer::{RunTarget, RunWriter};
use crate::table::raw_table::TableId;

/// A run is complete once its keys and values have this many bytes.
pub(crate) const RUN_BYTES: u64 = 32 << 20;
/// The number of bytes that are copied from a source at a time, or one row.
const PIECE_BYTES: usize = 1 << 20;

/// The destination of an image.
pub(crate) struct ImageTarget<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) dir: &'a Path,
    /// The database's.
    pub(crate) identity: u128,
    /// Returns a number that no file of the image has had, larger each time; `None` if no number is
    /// left.
    pub(crate) take_number: &'a dyn Fn() -> Option<FileNumber>,
}

impl<'a> ImageTarget<'a> {
    /// For runs of rows with this stamp or a lower one.
    pub(crate) fn for_runs(&self, stamp: Stamp, run_bytes: u64) -> RunTarget<'a> {
        RunTarget {
            disk: self.disk,
            dir: self.dir,
            identity: self.identity,
            take_number: self.take_number,
            salt: random_number() as u32,
            stamp,
            run_bytes,
        }
    }
}

/// The moment of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageMoment {
    /// The stamp S: the image has exactly the commits up to it.
    pub(crate) stamp: Stamp,
    /// The generation of the log that is written.
    pub(crate) generation: Generation,
    /// The epoch of that generation that S closes.
    pub(crate) epoch: Epoch,
}

impl ImageMoment {
    /// Before all commits: no table has rows, but those that were loaded.
    pub(crate) const BEFORE_ALL: Self = Self {
        stamp: Stamp(0),
        generation: Generation(0),
        epoch: Epoch(0),
    };

    /// That of this image.
    pub(crate) fn of(list: &ImageList) -> Self {
        Self {
            stamp: list.stamp,
            generation: list.generation,
            epoch: list.epoch,
        }
    }
}

/// The image of an open database: what the opening has loaded, or the last checkpoint has written.
#[derive(Debug)]
pub(crate) struct PresentImage {
    pub(crate) list: ImageList,
    /// Files with rows of keys that were deleted before the database was opened, and damaged ones: their runs are to be
    /// written again, and no source of rows knows of it.
    pub(crate) shrunk_files: BTreeSet<FileNumber>,
}

/// The image that the manifest names now.
#[derive(Clone, Copy)]
pub(crate) struct ImageBefore<'a> {
    pub(crate) named: &'a NamedList,
    pub(crate) image: &'a PresentImage,
}

/// Options of writing an image.
pub(crate) struct ImageOptions<'a> {
    /// A run is complete once its keys and values have this many bytes.
    pub(crate) run_bytes: u64,
    /// The rate limit in bytes of keys and values for each second; `None`: as fast as the device
    /// writes.
    pub(crate) bytes_per_second: Option<NonZeroU64>,
    /// Called after each piece and about every 50 milliseconds, and ends the checkpoint if it says so.
    pub(crate) on_progress: &'a mut dyn FnMut(ImageProgress) -> ControlFlow<()>,
}

/// The progress of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageProgress {
    /// Tables that are done.
    pub(crate) tables: u64,
    /// Runs of the previous image that were kept.
    pub(crate) runs_kept: u64,
    /// Rows that were written.
    pub(crate) rows: u64,
    /// The bytes of their keys and values.
    pub(crate) bytes: u64,
    /// The bytes of the files that they are in, as far as these are written.
    pub(crate) file_bytes: u64,
}

/// Writes the image of these tables. All its files are durable when this returns, and the previous
/// image is unchanged.
///
/// `moment` is at or after the moment of the previous image.
///
/// # Errors
/// [`ImageError`]; nothing of the image is there then.
pub(crate) fn write_image<R: RowsAtStamp>(
    target: &ImageTarget<'_>,
    moment: ImageMoment,
    before: Option<ImageBefore<'_>>,
    tables: impl IntoIterator<Item = (TableId, R)>,
    options: ImageOptions<'_>,
) -> Result<NewImage, ImageError> {
    assert!(
        before.is_none_or(|before| before.named.stamp <= moment.stamp),
        "stamps of images never decrease"
    );
    let image_dir = image_dir(target.dir);
    let device = |source| ImageError::device(&image_dir, source);
    target.disk.create_dir_all(&image_dir).map_err(device)?;
    let run_target = target.for_runs(moment.stamp, options.run_bytes);
    let mut checkpoint = Checkpoint {
        target: &run_target,
        files: NewFiles::on(target.disk),
        pace: Pace::new(options.bytes_per_second, Instant::now()),
        on_progress: options.on_progress,
        progress: ImageProgress::default(),
    };
    let mut listed = Vec::new();
    for (id, mut rows) in tables {
        let runs = checkpoint.table(id, &mut rows, before)?;
        listed.push(ListedTable { id, runs });
        checkpoint.progress.tables += 1;
        checkpoint.go_on()?;
    }
    let before = before.map(|before| (before.named, &before.image.list));
    name_runs(&run_target, moment, before, listed, checkpoint.files)
}

/// Writes the list that names the runs of these tables, which are in `files` or in the previous
/// image. All files are durable when this returns.
///
/// # Errors
/// [`ImageError`]; none of the files is there then.
pub(crate) fn name_runs(
    target: &RunTarget<'_>,
    moment: ImageMoment,
    before: Option<(&NamedList, &ImageList)>,
    mut tables: Vec<ListedTable>,
    mut files: NewFiles,
) -> Result<NewImage, ImageError> {
    tables.sort_unstable_by_key(|table| table.id);
    // The list's number is the largest (I10).
    let (file, identity) = target.next_file()?;
    let identity = format!("{identity:016x}");
    let list = ImageList {
        database: format!("{:032x}", target.identity),
        identity: identity.clone(),
        stamp: moment.stamp,
        generation: moment.generation,
        epoch: moment.epoch,
        tables,
    };
    let named = NamedList {
        file,
        identity,
        stamp: moment.stamp,
    };
    write_list(target, &list, file, &mut files)?;
    let image_dir = image_dir(target.dir);
    let synced = target.disk.sync_dir(&image_dir);
    synced.map_err(|source| ImageError::device(&image_dir, source))?;
    Ok(NewImage::new(
        target.disk,
        target.dir,
        list,
        named,
        files,
        before,
    ))
}

fn write_list(
    target: &RunTarget<'_>,
    list: &ImageList,
    file: FileNumber,
    files: &mut NewFiles,
) -> Result<(), ImageError> {
    let path = file.new_list_path(target.dir);
    let failed = |source| ImageError::device(&path, source);
    let mut appender = target.disk.append(&path).map_err(failed)?;
    files.add(path.clone());
    appender.append(list.encode().as_bytes()).map_err(failed)?;
    appender.finish().map_err(failed)?;
    Ok(())
}

/// An image while it is written.
struct Checkpoint<'a, 'o> {
    target: &'a RunTarget<'a>,
    files: NewFiles,
    pace: Pace,
    on_progress: &'o mut dyn FnMut(ImageProgress) -> ControlFlow<()>,
    progress: ImageProgress,
}

impl Checkpoint<'_, '_> {
    /// The runs of a table.
    fn table(
        &mut self,
        id: TableId,
        rows: &mut impl RowsAtStamp,
        before: Option<ImageBefore<'_>>,
    ) -> Result<Vec<ListedRun>, ImageError> {
        let (listed, since) = match before {
            // No commit has changed a row of a table with runs at or below the latter.
            Some(ImageBefore { image, named }) => (image.list.table(id), named.stamp.max(LOADED)),
            None => (None, Stamp(0)),
        };
        let runs_before = listed.map_or(&[][..], |table| &table.runs);
        let small_bytes = self.target.run_bytes / 4;
        let parts = plan(runs_before, small_bytes, |run, keys| {
            self.go_on()?;
            let file = run.segment.file;
            if before.is_some_and(|before| before.image.shrunk_files.contains(&file)) {
                return Ok(true);
            }
            let changed = rows.changed_since(keys.bounds(), since);
            changed.map_err(|source| ImageError::Rows { table: id, source })
        })?;
        let mut runs: Vec<ListedRun> = Vec::new();
        for part in parts {
            match part {
                Part::Kept(run) => {
                    runs.push(run.clone());
                    self.progress.runs_kept += 1;
                }
                Part::Rewritten(keys) => runs.extend(self.rewritten(id, rows, keys)?),
            }
        }
        rows.written_through(None);
        // The first covers the keys of removed runs before it (I8).
        if let Some(first) = runs.first_mut() {
            first.from.clear();
        }
        Ok(runs)
    }

    /// Writes the rows of a range.
    fn rewritten(
        &mut self,
        table: TableId,
        rows: &mut impl RowsAtStamp,
        keys: Keys<'_>,
    ) -> Result<Vec<ListedRun>, ImageError> {
        let mut runs = RunWriter::new(self.target, table);
        let mut piece = RowBuffer::default();
        let mut last: Option<Vec<u8>> = None;
        let file_bytes_before = self.progress.file_bytes;
        loop {
            let bounds = match &last {
                None => keys.bounds(),
                Some(last) => keys.bounds_after(last),
            };
            let is_end = copy_piece(rows, bounds, &mut piece)
                .map_err(|source| ImageError::Rows { table, source })?;
            for row in piece.rows() {
                runs.push(&row, &mut self.files)?;
            }
            self.progress.file_bytes = file_bytes_before + runs.file_bytes();
            self.written(&piece)?;
            if is_end {
                break;
            }
            last = piece.last_key().map(<[u8]>::to_vec);
            rows.written_through(last.as_deref());
            piece.clear();
        }
        let mut runs = runs.finish(&mut self.files)?;
        let file_bytes = runs.iter().map(|run| run.segment.len_bytes()).sum::<u64>();
        self.progress.file_bytes = file_bytes_before + file_bytes;
        if let Some(first) = runs.first_mut() {
            first.from = keys.from.to_vec();
        }
        Ok(runs)
    }

    /// Keeps to the rate, now that these rows were written.
    fn written(&mut self, rows: &RowBuffer) -> Result<(), ImageError> {
        self.progress.rows += rows.len() as u64;
        self.progress.bytes += rows.bytes() as u64;
        self.go_on()?;
        let length = self.pace.written(rows.bytes() as u64, Instant::now());
        pause(length, || self.go_on())
    }

    /// Fails once the checkpoint is to end.
    fn go_on(&mut self) -> Result<(), ImageError> {
        match (self.on_progress)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ImageError::Interrupted),
        }
    }
}

/// Copies rows until there are enough, or the source ends. Returns whether it has ended.
fn copy_piece(
    rows: &mut impl RowsAtStamp,
    bounds: KeyBounds<'_>,
    piece: &mut RowBuffer,
) -> Result<bool, crate::error::Error> {
    let mut is_full = false;
    rows.visit(bounds, &mut |key, value, stamp| {
        piece.push(key, value, stamp);
        is_full = piece.bytes() >= PIECE_BYTES;
        if is_full {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(!is_full)
}
