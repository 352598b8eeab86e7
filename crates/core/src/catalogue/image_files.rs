//! Names of the files in the folder `image`, those of loaded tables and those of the image, and the
//! state of a file that its name expresses.
//!
//! ```text
//!   loaded tables                                            the image of the tables in memory, by a checkpoint
//!
//!   00000003.new ── the manifest names it ──► 00000003.seg   00000004.rows   00000005.rows   sorted rows
//!    a load is under way, or did not end       the table      00000006.list.new ── the manifest names it ──► 00000006.list
//!                                              was loaded      a checkpoint is under way, or did not end      the image list
//! ```
//! A file is named by its number alone, so no manifest can lead to a file outside of the directory, and each number is
//! used once as long as the database is open.
//!
//! The two endings of a segment distinguish the leftovers of an interrupted load from the segments
//! of an acknowledged one without the manifest: an older manifest in place of the right one names
//! neither, and must cause only an error. In a checkpoint's image, only the list has two names. It
//! names the runs of rows, so it covers all of them
//! (docs/decisions/0046-only-the-list-of-an-image-has-two-names.md).
//!
//! # Invariants
//! - I1. A file is whole, synced, and durable under its first name before a manifest, or a list that a manifest names,
//!   names it. It is never changed.
//! - I2. A segment gets its lasting name, `.seg`, when the manifest that names it is durable, and
//!   before its load is acknowledged. So a `.new` file that the manifest does not name belongs to
//!   no table, and is removed at the next opening. One that it names, after a crash between the
//!   two, is renamed then. (If the renaming itself fails, the load is acknowledged nevertheless,
//!   because the manifest names the file; until an opening has renamed it, the file does not reveal
//!   an older manifest in place of the right one.)
//! - I5. A `.seg` file that the manifest does not name shows that the manifest is older than the table: it is never
//!   removed, and the database is not opened.
//! - I6. The segment of a dropped table gets its first name back, durably, before the manifest is
//!   replaced by one that does not name it. A crash before that leaves the table as it was, and
//!   after that a file to be removed (I2).
//! - I11. I2, I5 and I6 hold of an image list, too: it is called `.list.new`, then `.list` before anything of the log is
//!   given up for it, and `.list.new` again before the manifest is replaced by one that names another list.
//! - I12. A `.rows` file belongs to the image exactly if the list that the manifest names names it. Any other is removed
//!   at the next opening, which I11 lets come only if the manifest is the newest.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::Disk;
use serde::{Deserialize, Serialize};

/// The ending of a segment's name, once a manifest has named it.
const LASTING: &str = ".seg";
/// The ending before that.
const NEW: &str = ".new";
/// The ending of an image list's name, once a manifest has named it.
const LIST: &str = ".list";
/// The ending before that.
const NEW_LIST: &str = ".list.new";
/// The ending of the name of a run of rows.
const ROWS: &str = ".rows";

/// The number of a file in the folder `image`: its names are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileNumber(pub u32);

/// The kind, state and number of a file, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ImageFileName {
    /// A manifest has named the segment.
    Segment(FileNumber),
    /// Its load is running, or was interrupted.
    NewSegment(FileNumber),
    /// A manifest has named the list.
    List(FileNumber),
    /// Its checkpoint is running, or was interrupted.
    NewList(FileNumber),
    /// Rows of tables in memory: those of an image, or of a checkpoint that is running or was
    /// interrupted.
    Rows(FileNumber),
}

impl FileNumber {
    /// The path of the file, once its table was loaded.
    #[must_use]
    pub fn path(self, dir: &Path) -> PathBuf {
        self.named(dir, LASTING)
    }

    /// The path of the file until then.
    #[must_use]
    pub fn new_path(self, dir: &Path) -> PathBuf {
        self.named(dir, NEW)
    }

    /// The path of a segment that the manifest names: its lasting name, or, after a crash or a
    /// failed renaming, its first one.
    #[must_use]
    pub fn path_of_named(self, disk: &dyn Disk, dir: &Path) -> PathBuf {
        whichever_is_there(disk, self.path(dir), self.new_path(dir))
    }

    /// The path of an image list once its image is installed.
    #[must_use]
    pub fn list_path(self, dir: &Path) -> PathBuf {
        self.named(dir, LIST)
    }

    /// The path of an image list until then, and again from when it is about to be superseded.
    #[must_use]
    pub fn new_list_path(self, dir: &Path) -> PathBuf {
        self.named(dir, NEW_LIST)
    }

    /// The path of the image list that the manifest names, as [`FileNumber::path_of_named`] for a
    /// segment.
    #[must_use]
    pub fn path_of_named_list(self, disk: &dyn Disk, dir: &Path) -> PathBuf {
        whichever_is_there(disk, self.list_path(dir), self.new_list_path(dir))
    }

    /// The path of a run of rows that an image list names.
    #[must_use]
    pub fn rows_path(self, dir: &Path) -> PathBuf {
        self.named(dir, ROWS)
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

    /// The number of the segment to which the sorted run of a load with this name belongs. The run's
    /// name is that of the segment's file, with a number and `run` in place of its ending. `None`
    /// for any other name.
    pub(crate) fn of_sort_run(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let mut parts = name.split('.');
        let (file, number, ending) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        let is_run = file.len() >= 8 && is_number(file) && is_number(number) && ending == "run";
        (is_run && parts.next().is_none())
            .then(|| file.parse().ok())
            .flatten()
            .map(Self)
    }
}

/// The lasting name, unless only the first one leads to a file.
fn whichever_is_there(disk: &dyn Disk, lasting: PathBuf, first: PathBuf) -> PathBuf {
    let is_missing = |path: &Path| match disk.open(path) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(_) => false,
    };
    if is_missing(&lasting) && !is_missing(&first) {
        first
    } else {
        lasting
    }
}

impl ImageFileName {
    /// Parses a file's name; `None` if it is not the name of a segment, an image list or a run.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let kinds: [(&str, fn(FileNumber) -> Self); 5] = [
            (LASTING, Self::Segment),
            (NEW, Self::NewSegment),
            (LIST, Self::List),
            (NEW_LIST, Self::NewList),
            (ROWS, Self::Rows),
        ];
        let mut kinds = kinds.iter();
        kinds.find_map(|(ending, kind)| FileNumber::of_name(path, ending).map(kind))
    }

    /// The file with this name.
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        match self {
            Self::Segment(number) => number.path(dir),
            Self::NewSegment(number) => number.new_path(dir),
            Self::List(number) => number.list_path(dir),
            Self::NewList(number) => number.new_list_path(dir),
            Self::Rows(number) => number.rows_path(dir),
        }
    }

    /// The name that the file gets when a manifest has named it, if this is one from before.
    pub(crate) fn lasting(self) -> Option<Self> {
        match self {
            Self::NewSegment(number) => Some(Self::Segment(number)),
            Self::NewList(number) => Some(Self::List(number)),
            Self::Segment(_) | Self::List(_) | Self::Rows(_) => None,
        }
    }

    pub(crate) fn number(self) -> FileNumber {
        match self {
            Self::Segment(number)
            | Self::NewSegment(number)
            | Self::List(number)
            | Self::NewList(number)
            | Self::Rows(number) => number,
        }
    }
}

/// The path of a directory's folder `image`, with the files of loaded tables and of the image.
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
            for (path, name) in [
                (number.path(dir), ImageFileName::Segment(number)),
                (number.new_path(dir), ImageFileName::NewSegment(number)),
                (number.list_path(dir), ImageFileName::List(number)),
                (number.new_list_path(dir), ImageFileName::NewList(number)),
                (number.rows_path(dir), ImageFileName::Rows(number)),
            ] {
                assert_eq!(ImageFileName::of(&path), Some(name));
            }
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
            "00000001.list.new.tmp",
            "00000001.0.rows",
        ] {
            assert_eq!(ImageFileName::of(&dir.join(other)), None, "{other}");
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
