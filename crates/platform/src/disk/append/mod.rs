//! Files that are written once, from front to back, as sorted runs are.
//!
//! The log's files are filled with zeros and written durably piece by piece; a file of a bulk load
//! would be written twice that way and synced a thousand times. An [`Appender`] writes each byte
//! once, in large pieces, and syncs once.
//!
//! # Invariants
//! - W1. A file has its name only when all of it is durable: an interrupted one is no file at all.
//! - W2. After a failure nothing more is written, `finish` fails, and the file is removed.

mod file_appender;

use std::io;

pub(super) use self::file_appender::{AppendMode, FileAppender};

/// A file that is being written from front to back. Dropped unfinished, it is removed.
pub trait Appender: Send {
    /// Adds `bytes` at the end. They may wait in memory.
    ///
    /// # Errors
    /// `StorageFull` if the device has no room, which can come later than the bytes that found
    /// none; otherwise the error of the device. Then all further calls fail.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Bytes that were appended.
    fn len_bytes(&self) -> u64;

    /// Writes what waits in memory, syncs, and gives the file its name, which is durable after
    /// [`Disk::sync_dir`](super::Disk::sync_dir). Returns the length of the file.
    ///
    /// # Errors
    /// As [`Appender::append`]; `AlreadyExists` if the name was taken in between. There is no file
    /// then.
    fn finish(self: Box<Self>) -> io::Result<u64>;
}
