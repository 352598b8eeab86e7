//! Errors of writing or reading a segment. Variants are grouped by the caller's next step.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::debug_as_sentence;
use namiki_platform::disk::{PAGE_BYTES, is_full};

use crate::identity::{PageNo, SegmentId};

debug_as_sentence!(SegmentError);

/// An error of a segment. Cheap to clone: every task that waits for an unreadable page gets one.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Keys have to rise. The row was refused, and the writer takes no more: sort the input, and
    /// remove keys that occur twice.
    #[error(
        "{}: key {key} does not come after key {previous}: sort the rows by key, each key once",
        path.display()
    )]
    KeysOutOfOrder {
        /// The segment that is written.
        path: PathBuf,
        /// The key before.
        previous: KeyBytes,
        /// The key that was refused.
        key: KeyBytes,
    },
    /// The key does not fit a page. The row was refused, and the writer takes no more.
    #[error(
        "{}: key {key} of {bytes} bytes is too long for a segment, whose keys have at most {bytes_max} bytes",
        path.display()
    )]
    KeyTooLong {
        /// The segment that is written.
        path: PathBuf,
        /// The key.
        key: KeyBytes,
        /// Its length.
        bytes: usize,
        /// The longest that fits.
        bytes_max: usize,
    },
    /// The stamp has more than 48 bits. The row was refused, and the writer takes no more.
    #[error("{}: stamp {stamp} has more than 48 bits", path.display())]
    StampTooLarge {
        /// The segment that is written.
        path: PathBuf,
        /// The stamp.
        stamp: u64,
    },
    /// The segment would have more pages than page numbers. Write the rest of the rows to another
    /// segment.
    #[error("{}: a segment has at most 2³² pages; begin another", path.display())]
    TooLarge {
        /// The segment that is written.
        path: PathBuf,
    },
    /// There is no space left. The unfinished file is removed. Free some space and write the
    /// segment again.
    #[error("no space left on the disk for segment {}", path.display())]
    DiskFull {
        /// The segment that could not be written.
        path: PathBuf,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// Reading or writing failed. A failed read may succeed when it is repeated; a segment being
    /// written has to be written anew.
    #[error("{doing} {} failed", path.display())]
    Device {
        /// The operation, such as "writing".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// The writer has refused a row or failed to write before, so what it has is not what it was
    /// given.
    #[error("{}: the writer has failed before; write the segment anew", path.display())]
    Unfinished {
        /// The segment that was written.
        path: PathBuf,
    },
    /// The file is not a whole segment: its writing was interrupted, its end was cut off, or it
    /// never was one.
    #[error(
        "{} is not a whole data segment ({why}): restore it from a copy, or load its table again",
        path.display()
    )]
    NotASegment {
        /// The file.
        path: PathBuf,
        /// The missing or contradictory part.
        why: String,
    },
    /// Another Namiki wrote it.
    #[error(
        "{} has format {version}, and this program reads format {known} alone: export the tables with the program that \
         wrote it, and import them with this one",
        path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u32,
        /// The format that is read here.
        known: u32,
    },
    /// The file is sound, and another segment: files were swapped or renamed.
    #[error("{} is {found}, where {expected} belongs: put the right file back", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The segment that was found.
        found: SegmentId,
        /// The segment that was asked for.
        expected: SegmentId,
    },
    /// A page is not what was written there. Nothing of it was used.
    #[error(
        "{} is damaged at {page} (byte {}): {damage}; restore it from a copy, or load its table again",
        path.display(),
        page.0 as u64 * PAGE_BYTES as u64
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The page.
        page: PageNo,
        /// The kind of damage.
        damage: Damage,
    },
}

/// The kind of damage to a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes are not those that were written there: they were changed, moved, or come from
    /// another segment. (Two segments' checksums are the same with a chance of 2⁻³².)
    #[error("its checksum is {computed:08x}, and it says {stored:08x}")]
    Checksum {
        /// The checksum stored in the page.
        stored: u32,
        /// The checksum computed from its bytes.
        computed: u32,
    },
    /// The file ends inside the page.
    #[error("only {bytes} of its bytes are there")]
    Short {
        /// How many are.
        bytes: usize,
    },
    /// The checksum is right, and the contents contradict themselves, the footer or the index. A
    /// bug, or made by hand.
    #[error("{0}")]
    Contents(&'static str),
}

/// A key in a message: its first bytes, in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyBytes(pub Vec<u8>);

impl KeyBytes {
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(key.to_vec())
    }
}

/// Maximum number of a key's bytes in a message.
const SHOWN_BYTES: usize = 32;

impl fmt::Display for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(empty)");
        }
        f.write_str("0x")?;
        for byte in self.0.iter().take(SHOWN_BYTES) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > SHOWN_BYTES {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl SegmentError {
    /// True where the contents of a file are at fault: reading it again does not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::NotASegment { .. } | Self::Foreign { .. } | Self::Damaged { .. }
        )
    }

    /// The error of a read that failed.
    #[must_use]
    pub fn reading(path: &Path, source: io::Error) -> Self {
        Self::device("reading", path, source)
    }

    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        if is_full(&source) {
            Self::DiskFull {
                path: path.to_owned(),
                source: Arc::new(source),
            }
        } else {
            Self::device("writing", path, source)
        }
    }

    pub(crate) fn device(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Device {
            doing,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn damaged(path: &Path, page: PageNo, damage: Damage) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            page,
            damage,
        }
    }

    pub(crate) fn not_a_segment(path: &Path, why: impl Into<String>) -> Self {
        Self::NotASegment {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}
