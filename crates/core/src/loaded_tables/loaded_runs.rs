//! Puts a loaded table into the image: the rows of its segment are rewritten as runs.
//!
//! A segment has all rows of its table, and a checkpoint keeps or replaces whole runs: so a change of one row would write the
//! whole table again. And the image cuts keys that are longer than those of a segment. Rows get the stamp
//! [`LOADED`](crate::catalogue::image_list::LOADED), which is that of no commit.

use namiki_platform::Stamp;
use namiki_segment::{CheckProgress, CheckVisitor, SegmentError, check_with};

use crate::catalogue::image_files::image_dir;
use crate::catalogue::image_list::{ImageList, LOADED, ListedRun, ListedTable, NamedList};
use crate::catalogue::loaded_tables::LoadedTable;
use crate::error::OpenError;
use crate::image::image_error::ImageError;
use crate::image::new_files::NewFiles;
use crate::image::write::image_writer::{ImageMoment, ImageTarget, name_runs};
use crate::image::write::new_image::NewImage;
use crate::image::write::run_writer::RunWriter;
use crate::table::raw_table::{Loaded, TableId};

/// Why no runs were written. None of their files remains.
pub(crate) enum NoRuns {
    /// The segment cannot be read.
    Unreadable(OpenError),
    /// The runs cannot be written.
    Unwritten(ImageError),
}

impl From<ImageError> for NoRuns {
    fn from(error: ImageError) -> Self {
        Self::Unwritten(error)
    }
}

/// The runs of a table that no list names yet. They are removed if none ever does.
pub(crate) struct LoadedRuns {
    pub(crate) runs: Vec<ListedRun>,
    files: NewFiles,
}

impl LoadedRuns {
    /// Reads and verifies the rows of a table's segment, and writes them. `go_on` is called about every megabyte, and ends
    /// that with its error. `expected_id` is what the table's number will be, for errors.
    pub(crate) fn write(
        target: &ImageTarget<'_>,
        table: &LoadedTable,
        expected_id: TableId,
        run_bytes: u64,
        go_on: &mut dyn FnMut() -> Result<(), ImageError>,
    ) -> Result<Self, NoRuns> {
        let image_dir = image_dir(target.dir);
        let path = table.segment.file.path_of_named(&**target.disk, target.dir);
        let target_of_runs = target.for_runs(LOADED, run_bytes);
        let mut rows = SegmentRows {
            runs: RunWriter::new(&target_of_runs, expected_id),
            files: NewFiles::on(target.disk),
            count: 0,
            go_on,
        };
        let id = table.segment.id(target.identity);
        let checked = check_with(target.disk, &path, id, &mut rows);
        let report = checked.map_err(|stopped| match stopped {
            Stopped::Segment(source) => NoRuns::Unreadable(OpenError::Image {
                table: table.name.clone(),
                path: path.clone(),
                source: Box::new(source),
            }),
            Stopped::Runs(error) => NoRuns::Unwritten(error),
        })?;
        let (found, expected) = (
            (rows.count, report.summary.pages),
            (table.rows, table.segment.pages),
        );
        if found != expected {
            return Err(NoRuns::Unreadable(OpenError::ImageRows {
                table: table.name.clone(),
                path,
                why: format!(
                    "{} rows in {} pages, not {} in {}",
                    found.0, found.1, expected.0, expected.1
                ),
            }));
        }
        let SegmentRows {
            runs, mut files, ..
        } = rows;
        let mut runs = runs.finish(&mut files)?;
        if let Some(first) = runs.first_mut() {
            first.from.clear();
        }
        let synced = target.disk.sync_dir(&image_dir);
        synced.map_err(|source| ImageError::device(&image_dir, source))?;
        Ok(Self { runs, files })
    }

    /// The image before, if there is one, with the table. It is of the same moment: what the log has is above it, as it was.
    ///
    /// # Errors
    /// [`ImageError`]; the runs are removed then.
    pub(crate) fn into_image(
        self,
        target: &ImageTarget<'_>,
        before: Option<(&NamedList, &ImageList)>,
        id: TableId,
    ) -> Result<NewImage, ImageError> {
        let (moment, mut tables) = match before {
            Some((_, list)) => (ImageMoment::of(list), list.tables.clone()),
            None => (ImageMoment::BEFORE_ALL, Vec::new()),
        };
        tables.push(ListedTable {
            id,
            runs: self.runs,
        });
        let target = target.for_runs(moment.stamp, 0);
        name_runs(&target, moment, before, tables, self.files)
    }
}

/// The rows of a segment on their way into runs.
struct SegmentRows<'a, 'g> {
    runs: RunWriter<'a>,
    files: NewFiles,
    count: u64,
    go_on: &'g mut dyn FnMut() -> Result<(), ImageError>,
}

enum Stopped {
    Segment(SegmentError),
    Runs(ImageError),
}

impl From<SegmentError> for Stopped {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

impl CheckVisitor for SegmentRows<'_, '_> {
    type Error = Stopped;

    fn on_progress(&mut self, _now: CheckProgress) -> Result<(), Stopped> {
        (self.go_on)().map_err(Stopped::Runs)
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], _stamp: Stamp) -> Result<(), Stopped> {
        let row = Loaded {
            key,
            value: Some(value),
            stamp: LOADED,
        };
        self.count += 1;
        let pushed = self.runs.push(&row, &mut self.files);
        pushed.map_err(Stopped::Runs)
    }
}
