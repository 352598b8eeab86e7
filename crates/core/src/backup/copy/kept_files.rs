//! The files that a new backup keeps from earlier ones: each has to exist, with its length, before
//! any file is copied.
//!
//! A backup does not copy the files that it keeps again, so the loss of one would go unnoticed.
//! Names and lengths, and the headers of log files, are checked each time; contents are checked
//! with [`BackupOptions::verify`].
//!
//! [`BackupOptions::verify`]: crate::BackupOptions::verify

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_log::{
    GenerationInfo, LogPlace, StreamReader, WrongLogFile, WrongLogFileKind, check_copied_files,
};
use namiki_platform::{Generation, WorkerId};

use crate::backup::copy::backup_directory::Destination;
use crate::backup::copy::copy_segments::{Stopped, verify_file};
use crate::backup::copy::go_on::GoOn;
use crate::backup::copy::source::Source;
use crate::backup::error::{BackupError, KeptFileFault};
use crate::catalogue::backup_mark::BackupMark;
use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::catalogue::segment_file::SegmentFile;

/// The kept files.
#[derive(Default)]
struct Kept {
    /// Segments and runs, with the names that they may have.
    rows: BTreeMap<FileNumber, (SegmentFile, Vec<PathBuf>)>,
    log: BTreeMap<Generation, KeptGeneration>,
}

struct KeptGeneration {
    /// From where the oldest backup has it to where the last one does.
    info: GenerationInfo,
    /// The last log file of each stream; `None` if the backup does not record it.
    last_files: Option<Vec<u64>>,
}

/// Fails if a file that the new backup keeps is missing or has another length. With `verifies`,
/// also if its contents differ.
///
/// # Errors
/// [`BackupError::KeptFile`]; [`BackupError::KeptRows`], [`BackupError::KeptLog`] where contents are read; those of reading image
/// lists, and of `go_on`.
pub(super) fn check_kept(
    source: &Source<'_>,
    to: &Destination<'_>,
    verifies: bool,
    go_on: &GoOn<'_>,
) -> Result<(), BackupError> {
    let kept = Kept::of(source, to)?;
    kept.check_rows(to)?;
    let identity = source.manifest.identity();
    kept.check_log(to, identity)?;
    if verifies {
        kept.verify_rows(to, identity, go_on)?;
        kept.verify_log(to, identity, go_on)?;
    }
    Ok(())
}

impl Kept {
    fn of(source: &Source<'_>, to: &Destination<'_>) -> Result<Self, BackupError> {
        let mut kept = Self::default();
        let Some(before) = &to.before else {
            return Ok(kept);
        };
        if to.keeps_before() {
            for earlier in to.earlier() {
                let list = earlier.list(&**to.disk, to.dir)?;
                kept.add(to.dir, &earlier.manifest, list.as_ref());
            }
            kept.add(to.dir, &before.manifest, before.list.as_ref());
            return Ok(kept);
        }
        kept.add(to.dir, &before.manifest, before.list.as_ref());
        // Files that the new manifest does not name are removed.
        let segments = source.manifest.loaded_tables.segments();
        let runs = source.list.iter().flat_map(ImageList::runs);
        let wanted = segments.chain(runs.map(|run| &run.segment));
        let wanted: BTreeSet<_> = wanted.map(|file| file.file).collect();
        kept.rows.retain(|file, _| wanted.contains(file));
        let mut log = std::mem::take(&mut kept.log);
        for info in &source.manifest.generations {
            if let Some(mut generation) = log.remove(&info.generation) {
                generation.info.starts.clone_from(&info.starts);
                kept.log.insert(info.generation, generation);
            }
        }
        Ok(kept)
    }

    /// Adds what a backup names. Later ones come later.
    fn add(&mut self, dir: &Path, manifest: &Manifest, list: Option<&ImageList>) {
        for segment in manifest.loaded_tables.segments() {
            let file = segment.file;
            let names = vec![file.path(dir), file.new_path(dir)];
            self.rows.insert(file, (segment.clone(), names));
        }
        for run in list.into_iter().flat_map(ImageList::runs) {
            let segment = run.segment.clone();
            let names = vec![segment.file.rows_path(dir)];
            self.rows.insert(segment.file, (segment, names));
        }
        for info in &manifest.generations {
            let last_files = manifest
                .backup
                .as_ref()
                .and_then(|mark: &BackupMark| mark.last_files(info.generation));
            match self.log.get_mut(&info.generation) {
                Some(known) => {
                    known.info.seal.clone_from(&info.seal);
                    known.last_files = last_files;
                }
                None => {
                    let info = info.clone();
                    let kept = KeptGeneration { last_files, info };
                    self.log.insert(kept.info.generation, kept);
                }
            }
        }
    }

    fn check_rows(&self, to: &Destination<'_>) -> Result<(), BackupError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let home = image_dir(to.dir);
        let found = match to.disk.list(&home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            found => found.map_err(|error| BackupError::device(&home, error))?,
        };
        let lengths: BTreeMap<_, _> = found
            .into_iter()
            .map(|it| (it.path, it.len_bytes))
            .collect();
        for (segment, names) in self.rows.values() {
            let expected = segment.len_bytes();
            let found = names
                .iter()
                .find_map(|name| Some((name, lengths.get(name)?)));
            let (path, why) = match found {
                Some((_, found)) if *found == expected => continue,
                Some((path, found)) => {
                    let found = *found;
                    (path, KeptFileFault::Length { found, expected })
                }
                None => (&names[0], KeptFileFault::Missing),
            };
            let path = path.clone();
            return Err(BackupError::KeptFile { path, why });
        }
        Ok(())
    }

    fn check_log(&self, to: &Destination<'_>, identity: u128) -> Result<(), BackupError> {
        let wal = &to.dir.join("wal");
        let place = LogPlace { disk: to.disk, wal };
        for KeptGeneration { info, last_files } in self.log.values() {
            let last_files = last_files.iter().flatten();
            for (worker, last) in (0..info.streams).map(WorkerId).zip(last_files) {
                check_copied_files(place, identity, info, worker, *last).map_err(wrong)?;
            }
        }
        Ok(())
    }

    fn verify_rows(
        &self,
        to: &Destination<'_>,
        identity: u128,
        go_on: &GoOn<'_>,
    ) -> Result<(), BackupError> {
        for (segment, names) in self.rows.values() {
            // `check_rows` has seen one of them.
            let is_there = |name: &&PathBuf| to.disk.open(name).is_ok();
            let path = names.iter().find(is_there).unwrap_or(&names[0]);
            match verify_file(to.disk, path, segment.id(identity), go_on) {
                Ok(()) => {}
                Err(Stopped::Told(error)) => return Err(*error),
                Err(Stopped::Segment(source)) => {
                    let path = path.clone();
                    return Err(BackupError::KeptRows { path, source });
                }
            }
        }
        Ok(())
    }

    fn verify_log(
        &self,
        to: &Destination<'_>,
        identity: u128,
        go_on: &GoOn<'_>,
    ) -> Result<(), BackupError> {
        let wal = to.dir.join("wal");
        let damaged = |source| BackupError::KeptLog {
            dir: to.dir.to_owned(),
            source: Box::new(source),
        };
        for KeptGeneration { info, .. } in self.log.values() {
            for worker in (0..info.streams).map(WorkerId) {
                let seal = info.seal.as_ref();
                let last = seal.map_or(0, |seal| seal.last_sequence(usize::from(worker.0)));
                // All frames of this stream have been recycled.
                if last < info.start(worker).sequence {
                    continue;
                }
                let disk = Arc::clone(to.disk);
                let reader = StreamReader::open(disk, &wal, identity, info, worker);
                let mut reader = reader.map_err(damaged)?;
                while reader.next_frame().map_err(damaged)?.is_some() {
                    go_on.check()?;
                }
            }
        }
        Ok(())
    }
}

fn wrong(WrongLogFile { path, why }: WrongLogFile) -> BackupError {
    let why = match why {
        WrongLogFileKind::Missing => KeptFileFault::Missing,
        WrongLogFileKind::Length { found, expected } => KeptFileFault::Length { found, expected },
        WrongLogFileKind::Device(error) => return BackupError::device(&path, error),
        _ => KeptFileFault::Header,
    };
    BackupError::KeptFile { path, why }
}
