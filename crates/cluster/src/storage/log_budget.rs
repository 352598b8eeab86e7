//! A limit for the files of a log, and their current size.
//!
//! The log requests each log file from the disk before it accepts records that need it, and refuses
//! them if there is no space. So a disk that counts, and reports at the limit that it is full,
//! leaves the log usable.
//!
//! Every file counts, with its own length. Raft's own records are never refused: a vote has to be
//! possible although payloads have used up everything. So payloads leave room for the next file of
//! stream 0, and without payloads there is little else to write.
//!
//! The limit can be in the way of what would make room: if the payload of the next entry does not fit, it is not applied, and no image
//! truncates anything. Then the files may exceed the limit, by a quarter at most ([`LogBudget::exceed`]).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_platform::disk::{Disk, DiskFile, DiskLayer};
use parking_lot::Mutex;

/// The part of the limit by which it may be exceeded.
const EXTRA_PART: u64 = 4;

/// The disk of a log, which creates no file beyond a limit.
#[derive(Debug)]
pub(super) struct LogBudget {
    disk: Arc<dyn Disk>,
    /// The directory of Raft's own records.
    raft_dir: PathBuf,
    /// Lengths of the shortest and of the longest file.
    file_bytes: (u64, u64),
    files: Mutex<Files>,
    /// Bytes beyond the limit.
    extra: AtomicU64,
    // Copies, read without the lock.
    bytes: AtomicU64,
    next_bytes: AtomicU64,
    bytes_max: AtomicU64,
}

/// The existing files.
#[derive(Debug)]
struct Files {
    lengths: HashMap<PathBuf, u64>,
    /// Of each directory, the length of the file that was created last.
    last: HashMap<PathBuf, u64>,
    bytes: u64,
    /// What the next two files of each stream need.
    next_bytes: u64,
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
    /// Without a limit, for these streams; new files have `file_bytes`, from the shortest to the
    /// longest, and `existing` are there.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        raft_dir: PathBuf,
        streams: u64,
        file_bytes: (u64, u64),
        existing: impl IntoIterator<Item = (PathBuf, u64)>,
    ) -> Self {
        let lengths: HashMap<_, _> = existing.into_iter().collect();
        let bytes = lengths.values().sum();
        let next_bytes = streams * next_two(file_bytes, None);
        Self {
            disk,
            raft_dir,
            file_bytes,
            files: Mutex::new(Files {
                lengths,
                last: HashMap::new(),
                bytes,
                next_bytes,
            }),
            extra: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            next_bytes: AtomicU64::new(next_bytes),
            bytes_max: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn limit(&self, bytes_max: u64) {
        // Relaxed, as everywhere here: the numbers synchronize nothing.
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Lets the files exceed the limit by one more, if no image makes room. It ends when they are within the limit again.
    pub(super) fn exceed(&self) {
        let files = self.files.lock();
        let extra = self.extra.load(Ordering::Relaxed);
        let more = extra.saturating_add(self.file_bytes.1);
        let needed = self.file_bytes.1 + self.kept(&files);
        let is_used_up =
            files.bytes.saturating_add(needed) > self.bytes_max().saturating_add(extra);
        if is_used_up && more <= self.bytes_max() / EXTRA_PART {
            self.extra.store(more, Ordering::Relaxed);
        }
    }

    /// Limit on the files together.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Total length of the log's files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes that the log may still grow by.
    pub(super) fn left(&self) -> u64 {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        bytes_max.saturating_sub(self.bytes())
    }

    /// Bytes that are left when every stream has grown by two files.
    pub(super) fn free(&self) -> u64 {
        let left = self.left();
        left.saturating_sub(self.next_bytes.load(Ordering::Relaxed))
    }

    /// Whether every stream may grow by two files.
    pub(super) fn has_room(&self) -> bool {
        self.next_bytes.load(Ordering::Relaxed) <= self.left()
    }

    /// What payloads leave for the next file of stream 0.
    fn kept(&self, files: &Files) -> u64 {
        next(self.file_bytes, files.last.get(&self.raft_dir).copied())
    }

    /// Takes a new file's bytes from the budget.
    fn take(&self, path: &Path, len_bytes: u64) -> Result<(), BudgetExhausted> {
        let mut files = self.files.lock();
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let is_raft = path.starts_with(&self.raft_dir);
        let kept = if is_raft { 0 } else { self.kept(&files) };
        let all = files.bytes.saturating_add(len_bytes);
        let extra = self.extra.load(Ordering::Relaxed);
        if !is_raft && all.saturating_add(kept) > bytes_max.saturating_add(extra) {
            return Err(BudgetExhausted {
                bytes: files.bytes,
                bytes_max,
            });
        }
        files.bytes = all;
        files.lengths.insert(path.to_owned(), len_bytes);
        let dir = path.parent().unwrap_or(path).to_owned();
        let before = files.last.insert(dir, len_bytes);
        files.next_bytes += next_two(self.file_bytes, Some(len_bytes));
        files.next_bytes -= next_two(self.file_bytes, before);
        self.publish(&files);
        Ok(())
    }

    /// A file is gone.
    fn give_back(&self, path: &Path) {
        let mut files = self.files.lock();
        let len_bytes = files.lengths.remove(path);
        files.bytes -= len_bytes.unwrap_or(0);
        if files.bytes <= self.bytes_max() {
            self.extra.store(0, Ordering::Relaxed);
        }
        self.publish(&files);
    }

    fn publish(&self, files: &Files) {
        self.bytes.store(files.bytes, Ordering::Relaxed);
        self.next_bytes.store(files.next_bytes, Ordering::Relaxed);
    }
}

/// The length of a stream's next file, at most, behind one of this length.
fn next((first, longest): (u64, u64), last: Option<u64>) -> u64 {
    last.map_or(first, |last| last.saturating_mul(2).min(longest))
}

/// The length of its next two files.
fn next_two(file_bytes: (u64, u64), last: Option<u64>) -> u64 {
    let one = next(file_bytes, last);
    one + next(file_bytes, Some(one))
}

impl DiskLayer for LogBudget {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        // One that is there keeps its length.
        if self.files.lock().lengths.contains_key(path) {
            return self.disk.create(path, len_bytes);
        }
        self.take(path, len_bytes)
            .map_err(|exhausted| io::Error::new(io::ErrorKind::StorageFull, exhausted))?;
        self.disk
            .create(path, len_bytes)
            .inspect_err(|_| self.give_back(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path).inspect(|()| self.give_back(path))
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    fn budget(sim: &SimDisk) -> LogBudget {
        for dir in ["/0000", "/0001"] {
            sim.create_dir_all(Path::new(dir)).unwrap();
        }
        let existing = [(PathBuf::from("/0001/old"), 512)];
        let disk = Arc::new(sim.clone());
        LogBudget::new(disk, "/0000".into(), 2, (1024, 4096), existing)
    }

    #[test]
    fn files_beyond_the_limit_are_refused_and_failures_cost_nothing() {
        let sim = SimDisk::new();
        let budget = budget(&sim);
        let disk: &dyn Disk = &budget;
        let create = |path: &str| disk.create(Path::new(path), 1024);
        create("/0001/a").unwrap();
        assert_eq!(
            create("/0001/a").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(budget.bytes(), 1536);
        budget.limit(3500);
        // There has to be room for a file of stream 0.
        let refused = create("/0001/b").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        let exhausted = BudgetExhausted::in_error(&refused).unwrap();
        assert_eq!((exhausted.bytes, exhausted.bytes_max), (1536, 3500));
        create("/0000/a").unwrap();
        create("/0000/b").unwrap();
        assert_eq!(budget.bytes(), 3584);
        disk.remove(Path::new("/0001/a")).unwrap();
        assert!(create("/0001/b").is_err());
        disk.remove(Path::new("/0000/a")).unwrap();
        budget.limit(4608);
        create("/0001/b").unwrap();
        assert_eq!((budget.bytes(), budget.left()), (2560, 2048));
    }

    #[test]
    fn files_exceed_the_limit_by_a_quarter_at_most() {
        let sim = SimDisk::new();
        let budget = budget(&sim);
        let disk: &dyn Disk = &budget;
        let mut numbers = 0..;
        let mut fill = || {
            let path = |number| PathBuf::from(format!("/0001/{number}"));
            let create = |number| disk.create(&path(number), 4096).is_ok();
            (numbers.by_ref())
                .take_while(|number| create(*number))
                .count()
        };
        budget.limit(40 << 10);
        assert_eq!(fill(), 9);
        budget.exceed();
        // Repeated calls before it is used have no effect.
        budget.exceed();
        assert_eq!(fill(), 1);
        budget.exceed();
        assert_eq!(fill(), 1);
        budget.exceed();
        assert_eq!(fill(), 0);
        assert!(!budget.has_room() && budget.left() == 0);
        for number in 0..3 {
            disk.remove(Path::new(&format!("/0001/{number}"))).unwrap();
        }
        assert_eq!(fill(), 1, "the limit holds again");
    }

    #[test]
    fn every_file_counts_with_its_own_length() {
        let sim = SimDisk::new();
        let budget = budget(&sim);
        let disk: &dyn Disk = &budget;
        // Two streams without files need 1024 + 2048 each.
        budget.limit(512 + 2 * 3072 + 100);
        assert!(budget.has_room() && budget.free() == 100);
        disk.create(Path::new("/0001/a"), 2048).unwrap();
        assert!(!budget.has_room() && budget.free() == 0);
        budget.limit(512 + 2048 + 3072 + 2 * 4096);
        assert!(budget.has_room());
        sim.create(Path::new("/0001/old"), 512).unwrap();
        disk.remove(Path::new("/0001/old")).unwrap();
        assert_eq!(budget.bytes(), 2048);
        disk.remove(Path::new("/0001/a")).unwrap();
        assert_eq!((budget.bytes(), budget.has_room()), (0, true));
    }
}
