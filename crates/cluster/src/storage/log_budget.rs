//! A limit for the files of a log, and their current size.
//!
//! The log requests each log file from the disk before it accepts records that need it, and refuses
//! them if there is no space. So a disk that counts, and reports at the limit that it is full,
//! leaves the log usable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_platform::disk::{Disk, DiskFile, DiskLayer};

/// The disk of a log, which creates no file beyond a limit.
#[derive(Debug)]
pub(super) struct LogBudget {
    disk: Arc<dyn Disk>,
    /// The directory of Raft's own records: they are counted and not refused. A vote has to be
    /// possible although payloads have used up everything, and without payloads there is little
    /// else to write.
    raft_dir: PathBuf,
    log_file_bytes: u64,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

/// The log's files have reached their limit. The source of an [`io::Error`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the log has {bytes} bytes, and its limit is {bytes_max}")]
pub(super) struct BudgetExhausted {
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
}

impl BudgetExhausted {
    pub(super) fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl LogBudget {
    /// Without a limit, for new files of `log_file_bytes`; the existing ones have `bytes` together.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        raft_dir: PathBuf,
        log_file_bytes: u64,
        bytes: u64,
    ) -> Self {
        Self {
            disk,
            raft_dir,
            log_file_bytes,
            bytes: AtomicU64::new(bytes),
            bytes_max: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn limit(&self, bytes_max: u64) {
        // Relaxed, as everywhere here: the number synchronizes nothing.
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Limit on the files together.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Total length of the log's files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is room for this number of additional files.
    pub(super) fn has_room(&self, files: u64) -> bool {
        let more = files.saturating_mul(self.log_file_bytes);
        let all = self.bytes().saturating_add(more);
        all <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Takes a new file's bytes from the budget.
    fn take(&self, path: &Path, len_bytes: u64) -> Result<(), BudgetExhausted> {
        let bytes_max = if path.starts_with(&self.raft_dir) {
            u64::MAX
        } else {
            self.bytes_max.load(Ordering::Relaxed)
        };
        let with_file = |bytes: u64| {
            let all = bytes.checked_add(len_bytes)?;
            (all <= bytes_max).then_some(all)
        };
        let taken = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_file);
        taken
            .map(drop)
            .map_err(|bytes| BudgetExhausted { bytes, bytes_max })
    }

    fn give_back(&self, len_bytes: u64) {
        self.bytes.fetch_sub(len_bytes, Ordering::Relaxed);
    }
}

impl DiskLayer for LogBudget {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.take(path, len_bytes)
            .map_err(|exhausted| io::Error::new(io::ErrorKind::StorageFull, exhausted))?;
        self.disk
            .create(path, len_bytes)
            .inspect_err(|_| self.give_back(len_bytes))
    }

    /// Removes a log file that was created and could not be prepared.
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk
            .remove(path)
            .inspect(|()| self.give_back(self.log_file_bytes))
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    #[test]
    fn files_beyond_the_limit_are_refused_and_failures_cost_nothing() {
        let sim = SimDisk::new();
        for dir in ["/0000", "/0001"] {
            sim.create_dir_all(Path::new(dir)).unwrap();
        }
        let budget = LogBudget::new(Arc::new(sim.clone()), "/0000".into(), 1024, 512);
        let disk: &dyn Disk = &budget;
        let create = |path: &str| disk.create(Path::new(path), 1024);
        create("/0001/a").unwrap();
        assert_eq!(
            create("/0001/a").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(budget.bytes(), 1536);
        budget.limit(2048);
        let refused = create("/0001/b").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        let exhausted = BudgetExhausted::in_error(&refused).unwrap();
        assert_eq!((exhausted.bytes, exhausted.bytes_max), (1536, 2048));
        create("/0000/a").unwrap();
        assert_eq!(budget.bytes(), 2560);
        disk.remove(Path::new("/0001/a")).unwrap();
        assert!(create("/0001/b").is_err());
        disk.remove(Path::new("/0000/a")).unwrap();
        create("/0001/b").unwrap();
    }
}
