//! Copies data segments: those of loaded tables, and the runs of the image.
//!
//! A file is copied as it is, synced, and then the copy is read back and verified, page by page:
//! this detects damage of the source since it was written, and failures of the copy's device.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};
use namiki_segment::{CheckProgress, CheckVisitor, SegmentError, SegmentId, check_with};

use crate::backup::copy::backup_directory::Destination;
use crate::backup::copy::go_on::GoOn;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::segment_file::SegmentFile;

/// The length of the pieces in which files are copied.
const PIECE_BYTES: usize = 1 << 20;

/// A file that the destination has to have.
struct Wanted<'a> {
    segment: &'a SegmentFile,
    /// Its path in the source.
    from: PathBuf,
    /// Its file, if it was opened.
    open: Option<Arc<dyn DiskFile>>,
    /// Its path in the destination.
    to: PathBuf,
}

/// How many files were copied, and how many the destination had.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) kept: u64,
}

/// Copies the files that the destination does not have, and the image list under its first name. All are durable then.
pub(super) fn copy_segments(
    source: &Source<'_>,
    to: &Destination<'_>,
    go_on: &mut GoOn<'_>,
) -> Result<Copied, BackupError> {
    let mut copied = Copied::default();
    let image_dir = image_dir(to.dir);
    let device = |error| BackupError::device(&image_dir, error);
    let wanted = wanted(source, to);
    if wanted.is_empty() && source.manifest.image_list.is_none() {
        return Ok(copied);
    }
    to.disk.create_dir_all(&image_dir).map_err(device)?;
    let there = to.disk.list(&image_dir).map_err(device)?;
    let there: BTreeSet<PathBuf> = there.into_iter().map(|file| file.path).collect();
    let named = named_before(to);
    let mut missing = Vec::new();
    for file in wanted {
        let number = file.segment.file;
        let before = named.get(&number);
        if before.is_some_and(|identity| **identity != file.segment.identity) {
            let dir = to.dir.to_owned();
            return Err(BackupError::OtherHistory { dir });
        }
        let is_there = there.contains(&file.to) || there.contains(&number.path(to.dir));
        if is_there && (before.is_some() || is_sound(source, to, &file, go_on)?) {
            copied.kept += 1;
        } else {
            missing.push(file);
        }
    }
    let total = missing.iter().map(|file| file.segment.len_bytes()).sum();
    go_on.progress.segment_bytes_total = total;
    for file in missing {
        copy(source, to, &file, go_on)?;
        copied.files += 1;
    }
    if let (Some(named), Some(list)) = (&source.manifest.image_list, &source.list)
        && to
            .before
            .as_ref()
            .and_then(|it| it.manifest.image_list.as_ref())
            != Some(named)
    {
        write_list(to, list, &named.file.new_list_path(to.dir))?;
    }
    to.disk.sync_dir(&image_dir).map_err(device)?;
    Ok(copied)
}

fn wanted<'a>(source: &'a Source<'_>, to: &Destination<'_>) -> Vec<Wanted<'a>> {
    let segments = source
        .manifest
        .loaded_tables
        .segments()
        .map(|segment| Wanted {
            segment,
            from: segment.file.path_of_named(&**source.disk, source.dir),
            open: source.open_segment(segment).cloned(),
            to: segment.file.new_path(to.dir),
        });
    let runs = source.list.iter().flat_map(ImageList::runs);
    let runs = runs.map(|run| Wanted {
        segment: &run.segment,
        from: run.segment.file.rows_path(source.dir),
        open: None,
        to: run.segment.file.rows_path(to.dir),
    });
    segments.chain(runs).collect()
}

/// The files that the previous backup names, with their identities.
fn named_before<'a>(to: &'a Destination<'_>) -> BTreeMap<FileNumber, &'a String> {
    let before = to.before.iter();
    let files = before.flat_map(|before| {
        let runs = before.list.iter().flat_map(ImageList::runs);
        let segments = before.manifest.loaded_tables.segments();
        segments.chain(runs.map(|run| &run.segment))
    });
    files.map(|file| (file.file, &file.identity)).collect()
}

/// Whether a file that an interrupted backup has left is complete.
fn is_sound(
    source: &Source<'_>,
    to: &Destination<'_>,
    file: &Wanted<'_>,
    go_on: &GoOn<'_>,
) -> Result<bool, BackupError> {
    match verify(source, to, file, go_on) {
        Ok(()) => Ok(true),
        Err(Stopped::Segment(_)) => {
            let removed = to.disk.remove(&file.to);
            removed.map_err(|error| BackupError::device(&file.to, error))?;
            Ok(false)
        }
        Err(Stopped::Told(error)) => Err(*error),
    }
}

fn copy(
    source: &Source<'_>,
    to: &Destination<'_>,
    file: &Wanted<'_>,
    go_on: &mut GoOn<'_>,
) -> Result<(), BackupError> {
    let unreadable = |error| source.unreadable(&file.from, file.segment, error);
    let from = match &file.open {
        Some(open) => Arc::clone(open),
        None => source.disk.open(&file.from).map_err(unreadable)?,
    };
    let failed = |error| BackupError::device(&file.to, error);
    let mut appender = to.disk.append(&file.to).map_err(failed)?;
    let mut piece = AlignedBuf::zeroed(PIECE_BYTES);
    let (mut at, len_bytes) = (0, file.segment.len_bytes());
    while at < len_bytes {
        let got = from.read_at(at, &mut piece).map_err(unreadable)?;
        let got = got.min(usize::try_from(len_bytes - at).unwrap_or(usize::MAX));
        if got == 0 {
            return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
        }
        appender.append(&piece[..got]).map_err(failed)?;
        at += got as u64;
        go_on.copied_segment(got as u64)?;
    }
    appender.finish().map_err(failed)?;
    let wrong = match verify(source, to, file, go_on) {
        Ok(()) => return Ok(()),
        Err(Stopped::Told(error)) => return Err(*error),
        Err(Stopped::Segment(wrong)) => wrong,
    };
    let _ = to.disk.remove(&file.to);
    Err(source
        .damage(&file.from, file.segment)
        .unwrap_or_else(|| BackupError::CopyDamaged {
            path: file.to.clone(),
            source: wrong,
        }))
}

fn write_list(to: &Destination<'_>, list: &ImageList, path: &Path) -> Result<(), BackupError> {
    let failed = |error| BackupError::device(path, error);
    // An interrupted backup may have left it.
    match to.disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut appender = to.disk.append(path).map_err(failed)?;
    appender.append(list.encode().as_bytes()).map_err(failed)?;
    appender.finish().map_err(failed)?;
    Ok(())
}

/// Why a file was not read to its end.
pub(super) enum Stopped {
    Segment(Box<SegmentError>),
    Told(Box<BackupError>),
}

impl From<SegmentError> for Stopped {
    fn from(error: SegmentError) -> Self {
        Self::Segment(Box::new(error))
    }
}

struct Asking<'a, 'g>(&'g GoOn<'a>);

impl CheckVisitor for Asking<'_, '_> {
    type Error = Stopped;

    fn on_progress(&mut self, _: CheckProgress) -> Result<(), Stopped> {
        self.0
            .check()
            .map_err(|error| Stopped::Told(Box::new(error)))
    }
}

/// Reads a copy, and verifies it.
fn verify(
    source: &Source<'_>,
    to: &Destination<'_>,
    file: &Wanted<'_>,
    go_on: &GoOn<'_>,
) -> Result<(), Stopped> {
    let id = file.segment.id(source.manifest.identity());
    verify_file(to.disk, &file.to, id, go_on)
}

/// The same for any file with rows.
pub(super) fn verify_file(
    disk: &Arc<dyn Disk>,
    path: &Path,
    id: SegmentId,
    go_on: &GoOn<'_>,
) -> Result<(), Stopped> {
    check_with(disk, path, id, &mut Asking(go_on)).map(|_| ())
}
