//! Files of the log that an image has made superfluous: whole generations, and files that a crash
//! has left from before the beginning of one.
//!
//! A durable manifest says which files are kept. It names the generations from a certain one on,
//! and the position at which each of their streams begins (`log_start.rs`). No reader needs the
//! files before that. So files are removed in any order, and a crash in between, or a file that
//! cannot be removed, leaves some for the next opening.
//!
//! Files *above* the generations that a manifest names are not touched: they show that the manifest
//! is older than the log (`read/unannounced_generations.rs`). In the copy of a log they are
//! leftovers of an interrupted copy instead.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use namiki_platform::disk::Disk;
use namiki_platform::{Generation, Stamp, WorkerId};

use crate::format::log_file::parse_file_name;
use crate::generation::GenerationInfo;
use crate::generation::layout_config::Placement;
use crate::stream_dirs::stream_dirs;

/// Files that were removed, or could not be.
#[derive(Debug, Default)]
pub struct RemovedFiles {
    /// Number of removed files.
    pub files: u64,
    /// Their lengths.
    pub bytes: u64,
    /// The files that could not be removed. They do no harm; the next opening tries again.
    pub failed: Vec<(PathBuf, io::Error)>,
}

impl RemovedFiles {
    /// Counts a file with its length.
    pub(crate) fn count(&mut self, bytes: u64, removed: Result<(), (PathBuf, io::Error)>) {
        match removed {
            Ok(()) => {
                self.files += 1;
                self.bytes += bytes;
            }
            Err((_, error)) if error.kind() == ErrorKind::NotFound => {}
            Err(failed) => self.failed.push(failed),
        }
    }
}

/// Splits a manifest's generations by an image of every commit with a stamp at or below `stamp`:
/// those that ended and of which it has all, and those that are kept. The first are dropped whole:
/// they leave the manifest, in the replacement that names the image, and then
/// [`remove_generations`] removes their files. (Of a generation in a shared device, the bytes
/// stay.)
#[must_use]
pub fn split_superfluous(
    generations: &[GenerationInfo],
    stamp: Stamp,
) -> (&[GenerationInfo], &[GenerationInfo]) {
    let is_superfluous = |info: &GenerationInfo| {
        let seal = info.seal.as_ref();
        seal.is_some_and(|seal| seal.max_stamp <= stamp)
    };
    // Stamps rise from one generation to the next, but for those without commits.
    let kept = generations.iter().position(|info| !is_superfluous(info));
    generations.split_at(kept.unwrap_or(generations.len()))
}

/// Removes the log files of all generations before `oldest`, the first of which a durable manifest
/// names any. May be called while a later generation is written. `wal` is the log's directory.
pub fn remove_generations(disk: &dyn Disk, wal: &Path, oldest: Generation) -> RemovedFiles {
    remove(disk, wal, 0, |generation, _, _| generation < oldest)
}

/// The same for the next opening, before a log is started: and of the generations that the manifest
/// names, the log files before the beginnings of their streams.
pub fn remove_superfluous(
    disk: &dyn Disk,
    wal: &Path,
    generations: &[GenerationInfo],
    oldest: Generation,
) -> RemovedFiles {
    let streams = generations.iter().map(|info| info.streams).max();
    remove(
        disk,
        wal,
        streams.unwrap_or(0),
        |generation, worker, file_number| {
            generation < oldest
                || generations.iter().any(|info| {
                    info.generation == generation
                        && matches!(info.placement, Placement::Files { .. })
                        && file_number < info.start(worker).file_number
                })
        },
    )
}

/// Removes the log files that a durable manifest with these generations does not need: those of
/// generations that it does not name, and those before the beginnings of streams. The last of these
/// generations may be being written, by a log that was recycled to its beginnings; no file of a
/// later one is touched.
pub fn remove_unneeded(
    disk: &dyn Disk,
    wal: &Path,
    generations: &[GenerationInfo],
) -> RemovedFiles {
    let streams = generations.iter().map(|info| info.streams).max();
    let last = generations.last().map(|info| info.generation);
    remove(
        disk,
        wal,
        streams.unwrap_or(0),
        |generation, worker, file_number| {
            let mut named = generations.iter();
            let info = named.find(|info| info.generation == generation);
            last.is_some_and(|last| generation <= last)
                && info.is_none_or(|info| file_number < info.start(worker).file_number)
        },
    )
}

/// Removes the log files of generations from `next` on, which the manifest of a copied log does not
/// name: to be called, and to succeed, before such a generation is begun there. All are gone
/// durably then.
///
/// # Errors
/// Whatever the device says, with the file or directory.
pub fn remove_unannounced(
    disk: &dyn Disk,
    wal: &Path,
    next: Generation,
) -> Result<(), (PathBuf, io::Error)> {
    let removed = remove(disk, wal, 0, |generation, _, _| generation >= next);
    if let Some(failed) = removed.failed.into_iter().next() {
        return Err(failed);
    }
    if removed.files == 0 {
        return Ok(());
    }
    let dirs = stream_dirs(disk, wal, 0).map_err(|error| (wal.to_owned(), error))?;
    for (_, dir) in dirs {
        disk.sync_dir(&dir).map_err(|error| (dir, error))?;
    }
    Ok(())
}

/// Removes the log files that are superfluous, in the directories of these streams and of all
/// others that there are.
fn remove(
    disk: &dyn Disk,
    wal: &Path,
    streams: u16,
    is_superfluous: impl Fn(Generation, WorkerId, u64) -> bool,
) -> RemovedFiles {
    let mut removed = RemovedFiles::default();
    let dirs = stream_dirs(disk, wal, streams).unwrap_or_else(|error| {
        removed.failed.push((wal.to_owned(), error));
        Vec::new()
    });
    for (worker, dir) in dirs {
        let entries = match disk.list(&dir) {
            Ok(entries) => entries,
            Err(error) => {
                removed.failed.push((dir, error));
                continue;
            }
        };
        for entry in entries {
            if let Some((generation, file_number)) = parse_file_name(&entry.path)
                && is_superfluous(generation, worker, file_number)
            {
                let result = disk.remove(&entry.path);
                removed.count(entry.len_bytes, result.map_err(|error| (entry.path, error)));
            }
        }
    }
    removed
}
