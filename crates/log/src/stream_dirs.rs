//! The directories of a log's streams.
//!
//! Streams are numbered from 0, and each has a directory. But one that is missing, because a
//! directory was lost or left out of a copy, says nothing about those behind it: what looks for log
//! that nothing names has to look into all that there are.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use namiki_platform::WorkerId;
use namiki_platform::disk::Disk;

use crate::format::log_file::stream_dir;

/// The directories of streams in `wal`, the log's directory, in the order of their numbers; none if
/// there is no such directory. Whatever has the name of a stream's directory counts.
///
/// A disk that lists no directories, as the simulated one, is asked for those of the first
/// `streams` streams, and for those that follow them without a gap.
///
/// # Errors
/// Whatever the device says of `wal`.
pub fn stream_dirs(
    disk: &dyn Disk,
    wal: &Path,
    streams: u16,
) -> io::Result<Vec<(WorkerId, PathBuf)>> {
    let listed = match disk.list(wal) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let listed = listed.iter().filter_map(|entry| worker_of(&entry.path));
    let mut workers: BTreeSet<WorkerId> = listed.collect();
    for worker in (0..=u16::MAX).map(WorkerId) {
        if workers.contains(&worker) {
            continue;
        }
        match disk.list(&stream_dir(wal, worker)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if worker.0 >= streams {
                    break;
                }
            }
            // The next call reports any other error.
            _ => {
                workers.insert(worker);
            }
        }
    }
    let dirs = workers.into_iter();
    Ok(dirs
        .map(|worker| (worker, stream_dir(wal, worker)))
        .collect())
}

/// The stream of a directory with this path, if it has the name of one.
fn worker_of(path: &Path) -> Option<WorkerId> {
    let worker = WorkerId(path.file_name()?.to_str()?.parse().ok()?);
    (stream_dir(path.parent()?, worker) == path).then_some(worker)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use namiki_platform::disk::{SimDisk, SyncedDisk};

    use super::*;

    #[test]
    fn a_missing_directory_hides_none_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let wal = dir.path().join("wal");
        let disk = SyncedDisk::new();
        let workers = |streams| -> Vec<u16> {
            let dirs = stream_dirs(&disk, &wal, streams).unwrap();
            dirs.into_iter().map(|(worker, _)| worker.0).collect()
        };
        assert_eq!(workers(3), []);
        for name in ["0002", "0000", "12345", "0007.old", "01", "70000"] {
            disk.create_dir_all(&wal.join(name)).unwrap();
        }
        assert_eq!(workers(0), [0, 2, 12345]);
        std::fs::remove_dir_all(&wal).unwrap();
        std::fs::write(&wal, "").unwrap();
        assert!(stream_dirs(&disk, &wal, 0).is_err());
    }

    #[test]
    fn disks_without_directories_are_asked_for_the_first() {
        let (disk, wal) = (SimDisk::new(), Path::new("/wal"));
        for worker in [1, 3, 4, 6] {
            disk.create_dir_all(&stream_dir(wal, WorkerId(worker)))
                .unwrap();
        }
        let workers = |streams| -> Vec<u16> {
            let dirs = stream_dirs(&disk, wal, streams).unwrap();
            dirs.into_iter().map(|(worker, _)| worker.0).collect()
        };
        assert_eq!(workers(3), [1, 3, 4]);
        assert_eq!(workers(0), []);
    }
}
