//! What the writer asks of a disk, until every disk can append: the file is kept in memory and written as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::disk::Disk;

/// A file that is written from front to back.
pub(crate) trait Appender: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<u64>;
}

struct MemoryAppender {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: Vec<u8>,
}

pub(crate) fn append(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Box<dyn Appender>> {
    Ok(Box::new(MemoryAppender {
        disk: Arc::clone(disk),
        path: path.to_owned(),
        bytes: Vec::new(),
    }))
}

impl Appender for MemoryAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        self.disk.replace(&self.path, &self.bytes)?;
        Ok(self.bytes.len() as u64)
    }
}
