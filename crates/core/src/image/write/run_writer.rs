//! Writes the rows of a key range as runs: segments of about the same size.
//!
//! ```text
//!   rows ──► a run, until it is long enough ──► buffer, up to a quarter of a run
//!                   ▲                                │
//!                   └── the rows end: they go in ────┴── it is full: a new run begins with them
//! ```
//! Without the buffer, each range could end with a run of a few rows.

use std::path::Path;
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_segment::{SegmentId, Writer};

use crate::catalogue::image_files::FileNumber;
use crate::catalogue::image_list::ListedRun;
use crate::catalogue::segment_file::SegmentFile;
use crate::image::image_error::ImageError;
use crate::image::new_files::NewFiles;
use crate::image::read::row_buffer::RowBuffer;
use crate::image::read::stored_keys::KeyCutter;
use crate::table::raw_table::{Loaded, TableId};

/// The destination and the identity of runs.
pub(crate) struct RunTarget<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) dir: &'a Path,
    /// The database's.
    pub(crate) identity: u128,
    /// Returns a number that no file of the image has had.
    pub(crate) take_number: &'a dyn Fn() -> Option<FileNumber>,
    /// Makes the identities of files differ from those of all checkpoints before, some of which were not finished.
    pub(crate) salt: u32,
    /// The stamp of the image.
    pub(crate) stamp: Stamp,
    /// A run is complete once its keys and values have this many bytes.
    pub(crate) run_bytes: u64,
}

impl RunTarget<'_> {
    /// The number of the next file, and its identity.
    pub(crate) fn next_file(&self) -> Result<(FileNumber, u64), ImageError> {
        let file = (self.take_number)().ok_or(ImageError::NumbersUsedUp)?;
        Ok((file, u64::from(self.salt) << 32 | u64::from(file.0)))
    }
}

/// The number of bytes of rows that are held back behind a run of `run_bytes`: if no further rows
/// follow, they are written to it.
pub(crate) fn held_back_bytes(run_bytes: u64) -> u64 {
    run_bytes / 4
}

/// The runs of a key range while they are written.
pub(crate) struct RunWriter<'a> {
    target: &'a RunTarget<'a>,
    table: TableId,
    open: Option<OpenRun>,
    /// Rows behind those of the open run, which is long enough.
    ahead: RowBuffer,
    written: Vec<ListedRun>,
}

/// A run that is not finished.
struct OpenRun {
    writer: Writer,
    cutter: KeyCutter,
    listed: ListedRun,
}

impl<'a> RunWriter<'a> {
    /// For rows of a table.
    pub(crate) fn new(target: &'a RunTarget<'a>, table: TableId) -> Self {
        Self {
            target,
            table,
            open: None,
            ahead: RowBuffer::default(),
            written: Vec::new(),
        }
    }

    /// Adds a row, which follows the previous one.
    pub(crate) fn push(
        &mut self,
        row: &Loaded<'_>,
        files: &mut NewFiles,
    ) -> Result<(), ImageError> {
        if row.stamp == Stamp(0) || row.stamp > self.target.stamp {
            return Err(ImageError::RowStamp {
                table: self.table,
                stamp: row.stamp,
                image: self.target.stamp,
            });
        }
        let value = row.value.unwrap_or_default();
        match &self.open {
            Some(open) if open.listed.bytes >= self.target.run_bytes => {
                self.ahead.push(row.key, value, row.stamp);
                if self.ahead.bytes() as u64 >= held_back_bytes(self.target.run_bytes) {
                    self.finish_run()?;
                    self.write_ahead(files)?;
                }
                Ok(())
            }
            _ => self.write(row, files),
        }
    }

    /// Writes a row to the open run. Begins a run if none is open.
    fn write(&mut self, row: &Loaded<'_>, files: &mut NewFiles) -> Result<(), ImageError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self
                .open
                .insert(OpenRun::begin(self.target, self.table, row.key, files)?),
        };
        let written = open.write(row);
        written.map_err(|source| ImageError::segment(self.table, source))
    }

    fn write_ahead(&mut self, files: &mut NewFiles) -> Result<(), ImageError> {
        let mut ahead = std::mem::take(&mut self.ahead);
        for row in ahead.rows() {
            self.write(&row, files)?;
        }
        ahead.clear();
        self.ahead = ahead;
        Ok(())
    }

    fn finish_run(&mut self) -> Result<(), ImageError> {
        let Some(OpenRun {
            writer, mut listed, ..
        }) = self.open.take()
        else {
            return Ok(());
        };
        let summary = writer.finish();
        let summary = summary.map_err(|source| ImageError::segment(self.table, source))?;
        listed.segment.pages = summary.pages;
        self.written.push(listed);
        Ok(())
    }

    /// The bytes of the files so far.
    pub(crate) fn file_bytes(&self) -> u64 {
        let finished = self.written.iter().map(|run| run.segment.len_bytes());
        let open = self.open.as_ref().map_or(0, |open| open.writer.len_bytes());
        finished.sum::<u64>() + open
    }

    /// Writes the rest, and returns the runs: none without rows. Their names are durable after a
    /// [`Disk::sync_dir`], which is the caller's.
    pub(crate) fn finish(mut self, files: &mut NewFiles) -> Result<Vec<ListedRun>, ImageError> {
        self.write_ahead(files)?;
        self.finish_run()?;
        Ok(self.written)
    }
}

impl OpenRun {
    fn begin(
        target: &RunTarget<'_>,
        table: TableId,
        first: &[u8],
        files: &mut NewFiles,
    ) -> Result<Self, ImageError> {
        let (file, identity) = target.next_file()?;
        let path = file.rows_path(target.dir);
        let id = SegmentId::new(target.identity, identity);
        let writer = Writer::create(target.disk, &path, id);
        let writer = writer.map_err(|source| ImageError::segment(table, source))?;
        files.add(path);
        Ok(Self {
            writer,
            cutter: KeyCutter::default(),
            listed: ListedRun {
                from: first.to_vec(),
                segment: SegmentFile {
                    file,
                    identity: format!("{identity:016x}"),
                    pages: 0,
                },
                rows: 0,
                bytes: 0,
                stamp: target.stamp,
            },
        })
    }

    fn write(&mut self, row: &Loaded<'_>) -> Result<(), namiki_segment::SegmentError> {
        let value = row.value.unwrap_or_default();
        let (key, stored) = self.cutter.cut(row.key, value);
        self.writer.push(key, stored, row.stamp)?;
        self.listed.rows += 1;
        self.listed.bytes += (row.key.len() + value.len()) as u64;
        Ok(())
    }
}
