//! Cache of open log files: those that were read last stay open.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use namiki_platform::disk::DiskFile;
use namiki_platform::{Generation, WorkerId};
use parking_lot::Mutex;

/// Capacity of the cache.
const FILES_MAX: usize = 32;

type Key = (Generation, WorkerId, u64);

/// Open log files, the one that was read last at the front.
pub(super) struct OpenFiles(Mutex<VecDeque<(Key, Arc<dyn DiskFile>)>>);

impl OpenFiles {
    pub(super) fn new() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(FILES_MAX + 1)))
    }

    /// The file of this key. Several threads may open it at the same time.
    pub(super) fn get(
        &self,
        key: Key,
        open: impl FnOnce() -> io::Result<Arc<dyn DiskFile>>,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.0.lock();
        if let Some(at) = files.iter().position(|(it, _)| *it == key) {
            files.swap(0, at);
            return Ok(Arc::clone(&files[0].1));
        }
        drop(files);
        let file = open()?;
        let mut files = self.0.lock();
        files.push_front((key, Arc::clone(&file)));
        files.truncate(FILES_MAX);
        Ok(file)
    }

    /// Closes all files: an open file that was removed takes its room until then.
    pub(super) fn close(&self) {
        self.0.lock().clear();
    }
}
