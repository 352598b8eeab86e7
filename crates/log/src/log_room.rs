//! Permission for the log to take more of the disk.
//!
//! A log that took the last byte could never be freed: what frees it is an image, and that needs room. So the owner of the
//! log is asked before each file is made. It takes the room first that the next image will need because of what the file
//! can hold, and refuses the file if there is none.
//!
//! Deletions need no room in an image. If everything in its current file is in the image, a stream may always
//! go on to one more file, for which its owner keeps room: the next image frees the file before. In that file, deletions
//! alone are accepted until there is room for the rest.

use std::fmt::Debug;
use std::io;

/// A file for frames that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFile {
    /// Its length.
    pub bytes: u64,
    /// Whether it takes room on the disk: it is not one that is written again.
    pub takes_room: bool,
    /// Whether room is kept for it: it is the stream's first, or the next image frees the one before it, which is as long.
    pub is_kept_for: bool,
}

/// What may be put into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Any commit.
    All,
    /// What makes an image no longer.
    Deletions,
}

/// A file that takes deletions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestrictedFile {
    /// What can still be written to it.
    pub unwritten_bytes: u64,
    pub(crate) stream: usize,
    pub(crate) number: u64,
}

/// The files of a log, as they count for the room that an image needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// What any commit can still write to the files that are there, or are being made.
    pub unwritten_bytes: u64,
    /// Streams that have a file.
    pub streams_begun: u64,
    /// Streams in all.
    pub streams: u64,
    /// The usual length of a file.
    pub file_bytes: u64,
}

/// Room for the log, and for what frees it.
pub trait LogRoom: Send + Sync + Debug {
    /// A file is about to be made. No lock of the log is held.
    ///
    /// # Errors
    /// Why it must not be.
    fn grant(&self, file: WantedFile) -> io::Result<Grant>;

    /// A file that was granted was not made.
    fn give_back(&self, file: WantedFile, grant: Grant);
}
