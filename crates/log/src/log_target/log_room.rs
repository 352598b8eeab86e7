//! Permission for the log to take more of the disk.
//!
//! A log that took the last byte could never be freed: what frees it is an image, and that needs
//! room. So the owner of the log is asked before each file is made. It takes the room first that
//! the next image will need because of what the file can hold, and refuses the file if it finds no
//! room.
//!
//! Deletions need no room in an image. If everything in its current file is in the image, a stream
//! may always go on to one more file, for which its owner keeps room: the next image frees the file
//! before. In that file, deletions alone are accepted until there is room for the rest.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use namiki_platform::ProcessToken;

/// A file for frames that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFile {
    /// Its length.
    pub bytes: u64,
    /// Whether it takes room on the disk: it is not one that is written again.
    pub takes_room: bool,
    /// Whether room is kept for it: it is the stream's first, or the next image frees the one
    /// before it, which is as long.
    pub is_kept_for: bool,
    /// Only for a file that is made for a single frame of deletions: how many bytes they take out
    /// of the next image at least.
    pub frees_bytes: Option<u64>,
}

/// The effect on an image of an entry that is longer than a log buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageEffect {
    /// It may make an image longer.
    Longer,
    /// It makes no image longer, and shortens the next one by at least this number of bytes.
    Shorter(u64),
}

impl ImageEffect {
    /// The grant that its file needs.
    pub(crate) fn needs(self) -> Grant {
        match self {
            Self::Longer => Grant::All,
            Self::Shorter(_) => Grant::Deletions,
        }
    }

    pub(crate) fn frees_bytes(self) -> Option<u64> {
        match self {
            Self::Longer => None,
            Self::Shorter(bytes) => Some(bytes),
        }
    }
}

/// The entries that a file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Any commit.
    All,
    /// Entries that make an image no longer.
    Deletions,
}

/// A file that takes deletions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestrictedFile {
    /// The bytes that can still be written to it.
    pub unwritten_bytes: u64,
    /// Whether its stream has refused a commit for want of room since room was sought last.
    pub has_refused: bool,
    pub(crate) stream: usize,
    pub(crate) number: u64,
}

/// The files of a log, as they count for the room that an image needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// The bytes that any commit can still write to existing files, and those of the frames that
    /// are being written.
    pub unwritten_bytes: u64,
    /// The part of everything ever granted ([`LogRoom::grant`]) or accepted
    /// ([`Log::accept_all`](crate::Log::accept_all)) that is or was one of these files. The rest is
    /// outstanding: files that are being made, and long frames that have no position yet.
    pub granted_bytes: u64,
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

/// Permission for a file. An unused one is returned when it is dropped.
pub(crate) struct GrantedFile {
    /// What granted it; `None` if no permission is needed, or it was used.
    room: Option<Arc<dyn LogRoom>>,
    file: WantedFile,
    grant: Grant,
    process: ProcessToken,
}

impl GrantedFile {
    /// Asks for a file, where permission is needed.
    ///
    /// # Errors
    /// Why it must not be made.
    pub(crate) fn ask(room: Option<&Arc<dyn LogRoom>>, file: WantedFile) -> io::Result<Self> {
        Ok(Self {
            grant: room.map_or(Ok(Grant::All), |room| room.grant(file))?,
            room: room.cloned(),
            file,
            process: ProcessToken::current(),
        })
    }

    /// The entries that the file may take.
    pub(crate) fn grant(&self) -> Grant {
        self.grant
    }

    /// The file is there. Returns its part of [`LogFiles::granted_bytes`], to be added when it is
    /// counted.
    pub(crate) fn used(mut self) -> u64 {
        let is_counted = self.room.take().is_some() && self.grant == Grant::All;
        u64::from(is_counted) * self.file.bytes
    }
}

impl Drop for GrantedFile {
    fn drop(&mut self) {
        if let Some(room) = &self.room
            && self.process.is_current()
        {
            room.give_back(self.file, self.grant);
        }
    }
}
