//! What the files of an image are called, and what a name says of its file.
//!
//! ```text
//!   00000003.new ── the manifest names it ──► 00000003.seg
//!    a load is under way, or did not end       the table was loaded
//! ```
//! A file is named by its number alone, so no manifest can lead to a file outside of the directory, and each number is
//! used once as long as the database is open.
//!
//! The two endings tell what a load that did not end has left from what an acknowledged load has written, without a look
//! at the manifest: an older manifest in the place of the right one names neither, and may cost nothing but an error.
//!
//! # Invariants
//! - I1. A segment is whole, synced, and durable under its first name, `.new`, before a manifest names it. It is never
//!   changed.
//! - I2. A segment gets its lasting name, `.seg`, when the manifest that names it is durable, and before its load is
//!   acknowledged. So a `.new` file that the manifest does not name belongs to no table, and is removed at the next
//!   opening. One that it names, after a crash between the two, is renamed then. (Where the renaming itself fails, the
//!   load is acknowledged all the same, because the manifest names the file; until an opening has renamed it, an older
//!   manifest in the place of the right one would not be told by it.)
//! - I5. A `.seg` file that the manifest does not name shows that the manifest is older than the image: it is never
//!   removed, and the database is not opened.
//! - I6. A segment whose table is dropped gets its first name back, durably, before the manifest is replaced by one that
//!   does not name it. A crash before that leaves the table as it was, and after that a file to be removed (I2).

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::Disk;
use serde::{Deserialize, Serialize};

/// What the name of a segment ends with that a manifest has named.
const LASTING: &str = ".seg";
/// What it ends with before.
const NEW: &str = ".new";

/// The number of a file of the image: its names are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileNumber(pub u32);

/// What the name of a segment's file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentName {
    /// A manifest has named the segment.
    Lasting(FileNumber),
    /// Its load is under way, or was interrupted.
    New(FileNumber),
}

impl FileNumber {
    /// Where the file is, once its table was loaded.
    #[must_use]
    pub fn path(self, dir: &Path) -> PathBuf {
        self.named(dir, LASTING)
    }

    /// Where the file is until then.
    #[must_use]
    pub fn new_path(self, dir: &Path) -> PathBuf {
        self.named(dir, NEW)
    }

    /// Where the file of a segment is that the manifest names: under its lasting name, or, after a crash or a failed
    /// renaming, under its first one.
    #[must_use]
    pub fn path_of_named(self, disk: &dyn Disk, dir: &Path) -> PathBuf {
        let (lasting, new) = (self.path(dir), self.new_path(dir));
        let is_missing = |path: &Path| match disk.open(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(_) => false,
        };
        if is_missing(&lasting) && !is_missing(&new) {
            new
        } else {
            lasting
        }
    }

    fn named(self, dir: &Path, ending: &str) -> PathBuf {
        image_dir(dir).join(format!("{:08}{ending}", self.0))
    }

    fn of_name(path: &Path, ending: &str) -> Option<Self> {
        let digits = path.file_name()?.to_str()?.strip_suffix(ending)?;
        let plain = digits.len() >= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = Self(plain.then(|| digits.parse().ok()).flatten()?);
        // One name for each number.
        (number.named(Path::new(""), ending).file_name() == path.file_name()).then_some(number)
    }
}

impl SegmentName {
    /// What a file's name says; nothing if it is no segment's.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let new = || FileNumber::of_name(path, NEW).map(Self::New);
        let lasting = FileNumber::of_name(path, LASTING).map(Self::Lasting);
        lasting.or_else(new)
    }

    pub(crate) fn number(self) -> FileNumber {
        match self {
            Self::Lasting(number) | Self::New(number) => number,
        }
    }
}

/// Where a directory's image is.
#[must_use]
pub fn image_dir(dir: &Path) -> PathBuf {
    dir.join("image")
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    #[test]
    fn a_file_number_is_read_from_its_name() {
        let dir = Path::new("/db");
        for number in [1, 99_999_999, 100_000_000, u32::MAX].map(FileNumber) {
            let lasting = SegmentName::of(&number.path(dir));
            assert_eq!(lasting, Some(SegmentName::Lasting(number)));
            let new = SegmentName::of(&number.new_path(dir));
            assert_eq!(new, Some(SegmentName::New(number)));
        }
        for other in [
            "1.seg",
            "000000001.seg",
            "+0000001.seg",
            "+0000001.new",
            "00000001.sег",
            "00000001",
            "00000001.tmp",
            "00000001.new.tmp",
            "99999999999.seg",
        ] {
            assert_eq!(SegmentName::of(&dir.join(other)), None, "{other}");
        }
    }

    #[test]
    fn a_named_segment_is_found_under_either_name() {
        let (disk, dir) = (SimDisk::new(), Path::new("/db"));
        disk.create_dir_all(&image_dir(dir)).unwrap();
        let number = FileNumber(3);
        assert_eq!(number.path_of_named(&disk, dir), number.path(dir));
        disk.create(&number.new_path(dir), 512).unwrap();
        assert_eq!(number.path_of_named(&disk, dir), number.new_path(dir));
        disk.rename(&number.new_path(dir), &number.path(dir))
            .unwrap();
        assert_eq!(number.path_of_named(&disk, dir), number.path(dir));
    }
}
