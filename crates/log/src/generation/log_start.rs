//! Where the log of a generation begins, once an image has made its first log files superfluous.
//!
//! An image is the state of the tables at a stamp S. Log files in which no stamp is above S are
//! *recycled*, always a prefix of their stream: renamed and written again, or removed. In a region
//! of a shared device, which is a ring, a prefix of the frames is overwritten. The manifest says
//! what is left, so that a recycled prefix can be told from a lost one:
//! - of each stream the first log file that is kept, or the offset of the first frame, and that
//!   frame's sequence number;
//! - L0, from which on no LSN is missing. Below it some are, with the log files that had them.
//!
//! ```text
//!   recyclable      where the log may begin; changes nothing
//!   manifest        says that it begins there, together with the image; from here on readers begin there
//!   recycle         the log files before are given to be written again, or removed; the room before is given to be
//!                   overwritten
//! ```
//! A crash between any two of them leaves files before the beginning. Readers pass over them, and
//! the next opening removes them (`superfluous_files.rs`). In a shared device it leaves frames that
//! are read by none.
//!
//! Generations follow each other in a ring. So the manifest says of each generation in a shared
//! device where its streams begin, from its announcement on.
//!
//! # Invariants
//! - L1. A manifest that names the beginning is durable before any log file in front of it is
//!   touched.
//! - L2. The first frame of a stream that does not begin with frame 1 is hardened. So it is there,
//!   or it was lost; and what the last hardened frame of each stream says of epochs is not
//!   recycled.
//! - L3. Everything below L0 is hardened, in every stream: a commit above it depends on nothing
//!   that a crash can lose.

use namiki_platform::Lsn;
use serde::{Deserialize, Serialize};

/// The beginning of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStart {
    /// The first log file that is kept; 1 in a shared device.
    pub file_number: u64,
    /// The sequence number of the first frame that is kept.
    pub sequence: u64,
    /// The offset of that frame in the ring of a shared device, counted from the region's start in
    /// all laps; 0 in log files, where it is the first of its file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
}

impl StreamStart {
    /// The beginning of a stream in log files of which nothing was recycled.
    pub const FIRST: Self = Self {
        file_number: 1,
        sequence: 1,
        offset: 0,
    };

    /// Whether nothing of the stream was recycled.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.sequence == Self::FIRST.sequence
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(offset: &u64) -> bool {
    *offset == 0
}

/// The beginning of a generation's log, as in `GenerationInfo::starts` and
/// `GenerationInfo::complete_from` of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// One for each stream. Empty if all begin with their first log files; never empty in a shared
    /// device.
    pub streams: Vec<StreamStart>,
    /// L0: from this LSN on none is missing; 0 if none is missing at all.
    pub complete_from: Lsn,
}
