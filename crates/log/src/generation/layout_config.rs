//! The layout of a log: how many streams it has, where their frames go, and which log files stay.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The number of streams, and whether one can be filled while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// P-WAL: a stream per worker, two buffers each, so that one fills while the other is written.
    ///
    /// Paper: pwal §4.2
    PerWorker,
    /// The conventional log: one stream, flushed while its lock is held.
    ///
    /// Paper: pwal Algorithm 1
    Single,
}

/// The placement of the frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Files of fixed length, a directory of them per stream.
    Files {
        /// Length of one file, its header block included.
        log_file_bytes: u64,
    },
    /// One device or preallocated file for all streams, each with a region at a fixed offset. With
    /// [`Retain::UntilRecycled`] it is a ring; otherwise it is written once, and then full.
    ///
    /// Paper: pwal §5.7
    Shared {
        /// The device or file. Created, at `streams * region_bytes`, if it does not exist.
        path: PathBuf,
        /// Length of a stream's region, its headers included.
        region_bytes: u64,
    },
}

/// The retention of log files in which all frames are hardened, and of hardened frames of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retain {
    /// They stay.
    #[default]
    All,
    /// They stay until [`Log::recycle`](crate::Log::recycle) gives them up, after the manifest says
    /// so. In a region they are overwritten then.
    UntilRecycled,
    /// Only the last log files of a stream stay, this number, including the current one; older ones
    /// are renamed and overwritten. For measuring, and for logs that another system keeps. In a
    /// region all stay.
    Last(NonZeroU32),
}
