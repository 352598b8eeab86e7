//! The image list: the files of the image of the tables in memory. One immutable file, named by the
//! manifest.
//!
//! ```text
//!   MANIFEST ── names ──► image/00000009.list ── names ──► image/00000004.rows    table 0, keys from the first on
//!                          the state at stamp S            image/00000007.rows    table 0, keys from "m" on
//!                                                          image/00000008.rows    table 1, all keys
//! ```
//! An image is exactly the state at the stamp S: of every table the rows that commits up to S have left, and nothing of
//! later ones. It is text like the manifest, a line with a checksum and then JSON, and apart from it, because a large
//! database has thousands of runs and the manifest is replaced whenever a table is loaded or dropped.
//!
//! A loaded table (loaded_tables.rs) that takes part in transactions now is listed at once: its rows have the
//! stamp [`LOADED`], before every commit that changes the table. A list with S = 0 has no other tables.
//!
//! A *run* has all rows of a table from one key up to the next run's. Runs are segments
//! (`namiki_segment`), and their rows carry the stamps of the commits that wrote them. An image
//! keeps runs of the previous one if their rows have not changed.
//!
//! # Invariants
//! - I8. The runs of a table cover all keys: the first begins with the empty key, each other one where the one before
//!   ends. A table without runs was empty at S, and so was one that is not listed.
//! - I9. A table that is listed was in a manifest before the first one that names the list, or is
//!   in that one for the first time. It may have been dropped since, or while the image was
//!   written; its runs are skipped then.
//! - I10. Every number of a run's file is below that of the list.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use namiki_platform::checked_text::{self, HeadError};
use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Generation, Stamp};
use serde::{Deserialize, Serialize};

use crate::catalogue::image_files::FileNumber;
use crate::catalogue::segment_file::SegmentFile;
use crate::error::OpenError;
use crate::table::raw_table::TableId;

const MAGIC: &str = "namiki-image";
/// The format that this release writes, and the latest that it reads.
const FORMAT: u32 = 1;

/// The stamp of rows that were loaded and not committed. Commits have larger ones, in the tables that have such rows.
pub(crate) const LOADED: Stamp = Stamp(1);

/// The manifest's entry of an image list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedList {
    /// The number of its file.
    pub file: FileNumber,
    /// Its unique identity among all lists that the database ever had, in hexadecimal. The list
    /// contains it, too.
    pub identity: String,
    /// The stamp S of the image.
    pub stamp: Stamp,
}

/// The image of the tables in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageList {
    /// The database's identity, in hexadecimal.
    pub database: String,
    /// The list's own, see [`NamedList::identity`].
    pub identity: String,
    /// The stamp S: the image has exactly the commits up to it.
    pub stamp: Stamp,
    /// The generation of the log in which it was taken.
    pub generation: Generation,
    /// The epoch of that generation that S closes.
    pub epoch: Epoch,
    /// The tables, by their numbers.
    pub tables: Vec<ListedTable>,
}

/// A table of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTable {
    /// Its number.
    pub id: TableId,
    /// Its rows, in the order of their keys. None if it was empty.
    pub runs: Vec<ListedRun>,
}

/// The rows of a table from one key up to the next run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRun {
    /// The run's keys are at or above this one, which was the first of them, or of a run that was before it. Empty for
    /// the first run of a table.
    #[serde(with = "hexadecimal")]
    pub from: Vec<u8>,
    /// The file.
    pub segment: SegmentFile,
    /// How many rows it has: one at least.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// The stamp of the image for which the file was written.
    pub stamp: Stamp,
}

impl ImageList {
    /// The bytes of its keys and values.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.runs().map(|run| run.bytes).sum()
    }

    /// The bytes of its files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.runs().map(|run| run.segment.len_bytes()).sum()
    }

    /// Reads the list that the manifest of a database names.
    ///
    /// # Errors
    /// [`OpenError::DamagedImageList`] if it is missing, damaged, or another; [`OpenError::OtherFormat`],
    /// [`OpenError::Device`].
    pub fn read(
        disk: &dyn Disk,
        dir: &Path,
        database: u128,
        named: &NamedList,
    ) -> Result<Self, OpenError> {
        let path = named.file.path_of_named_list(disk, dir);
        let bytes = disk.read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => damaged(&path, "it is missing"),
            _ => OpenError::Device {
                path: path.clone(),
                source,
            },
        })?;
        let list = Self::decode(&bytes, &path)?;
        match list.contradicts(database, named) {
            Some(why) => Err(damaged(&path, &why)),
            None => Ok(list),
        }
    }

    /// The file's contents.
    pub(crate) fn encode(&self) -> String {
        let body = serde_json::to_string_pretty(self).expect("a list has only string keys");
        checked_text::encode(MAGIC, FORMAT, &body)
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, OpenError> {
        let body = match checked_text::decode(bytes, MAGIC, FORMAT) {
            Ok(body) => body,
            Err(error @ HeadError::Damaged { .. }) => {
                return Err(damaged(path, &error.to_string()));
            }
            Err(HeadError::OtherFormat { found }) => {
                return Err(OpenError::OtherFormat {
                    path: path.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
        };
        let list: Self =
            serde_json::from_str(body).map_err(|error| damaged(path, &error.to_string()))?;
        match list.contradiction() {
            Some(why) => Err(damaged(path, &why)),
            None => Ok(list),
        }
    }

    /// The table of this number, if it is listed.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&ListedTable> {
        let place = self.tables.binary_search_by_key(&id, |table| table.id);
        Some(&self.tables[place.ok()?])
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = &ListedRun> {
        self.tables.iter().flat_map(|table| &table.runs)
    }

    /// Why this is not the list that a manifest names; `None` if it is.
    pub(crate) fn contradicts(&self, database: u128, named: &NamedList) -> Option<String> {
        if u128::from_str_radix(&self.database, 16) != Ok(database) {
            let other = &self.database;
            return Some(format!("it is of another database, {other}"));
        }
        if self.identity != named.identity || self.stamp != named.stamp {
            return Some(format!(
                "it is list {} at {}, and the manifest names list {} at {}",
                self.identity, self.stamp, named.identity, named.stamp
            ));
        }
        let beyond = self.runs().find(|run| run.segment.file >= named.file)?;
        Some(format!(
            "it names file {}, which is not older than itself",
            beyond.segment.file.0
        ))
    }

    /// A logical check beyond the checksum: the contradiction in it, or `None`.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if u128::from_str_radix(&self.database, 16).is_err() {
            return Some("its database identity is not a number".to_owned());
        }
        if let Some(why) = identity_contradiction(&self.identity) {
            return Some(why);
        }
        if self.stamp > Stamp::MAX {
            return Some(format!("its stamp is {}", self.stamp));
        }
        if !self.tables.is_sorted_by(|one, next| one.id < next.id) {
            return Some("the numbers of its tables do not rise".to_owned());
        }
        let (mut files, mut identities) = (BTreeSet::new(), BTreeSet::new());
        for table in &self.tables {
            let id = table.id.0;
            if let Some(why) = table.contradiction(self.stamp) {
                return Some(format!("table {id} {why}"));
            }
            for run in &table.runs {
                let SegmentFile { file, identity, .. } = &run.segment;
                let number = u64::from_str_radix(identity, 16);
                if !files.insert(file) || !identities.insert(number.ok()) {
                    return Some(format!("file {} or its identity is named twice", file.0));
                }
            }
        }
        None
    }
}

impl NamedList {
    /// Why a manifest cannot say this; `None` if it can.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.file.0 == 0 || self.file.0 == u32::MAX {
            return Some(format!("the image list is file {}", self.file.0));
        }
        if self.stamp > Stamp::MAX {
            return Some(format!("the image is at {}", self.stamp));
        }
        identity_contradiction(&self.identity)
    }
}

impl ListedTable {
    fn contradiction(&self, at: Stamp) -> Option<String> {
        if self.runs.first().is_some_and(|run| !run.from.is_empty()) {
            return Some("has keys before its first run".to_owned());
        }
        if !self.runs.is_sorted_by(|one, next| one.from < next.from) {
            return Some("has runs that do not follow each other".to_owned());
        }
        self.runs.iter().find_map(|run| {
            let file = run.segment.file.0;
            if run.rows == 0 {
                return Some(format!("has a run, file {file}, without rows"));
            }
            if run.stamp > at.max(LOADED) {
                return Some(format!(
                    "has a run, file {file}, of {}, after the image",
                    run.stamp
                ));
            }
            run.segment.contradiction(run.rows)
        })
    }
}

fn identity_contradiction(identity: &str) -> Option<String> {
    let is_number = identity.len() == 16 && identity.bytes().all(|it| it.is_ascii_hexdigit());
    (!is_number).then(|| format!("the identity of the image list, {identity:?}, is no number"))
}

fn damaged(path: &Path, why: &str) -> OpenError {
    OpenError::DamagedImageList {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

/// Bytes as a string of two digits each.
mod hexadecimal {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        to.serialize_str(&digits.collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.chars().map(|digit| digit.to_digit(16));
        let digits: Option<Vec<u32>> = digits.collect();
        match digits {
            Some(digits) if digits.len().is_multiple_of(2) => Ok(digits
                .as_chunks()
                .0
                .iter()
                .map(|[high, low]| (high << 4 | low) as u8)
                .collect()),
            _ => Err(D::Error::custom("a key that is not in hexadecimal")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::catalogue::image_files::image_dir;

    const DATABASE: u128 = 7;

    fn run(from: &[u8], file: u32, stamp: u64) -> ListedRun {
        ListedRun {
            from: from.to_vec(),
            segment: SegmentFile {
                file: FileNumber(file),
                identity: format!("{:016x}", 99 + u64::from(file)),
                pages: 3,
            },
            rows: 5,
            bytes: 40,
            stamp: Stamp(stamp),
        }
    }

    /// The list of two tables with rows and one without.
    pub(crate) fn list() -> ImageList {
        ImageList {
            database: format!("{DATABASE:032x}"),
            identity: "00000000000000ab".to_owned(),
            stamp: Stamp(50),
            generation: Generation(3),
            epoch: Epoch(9),
            tables: vec![
                ListedTable {
                    id: TableId(0),
                    runs: vec![run(b"", 4, 30), run(b"m\xff", 7, 50)],
                },
                ListedTable {
                    id: TableId(2),
                    runs: Vec::new(),
                },
                ListedTable {
                    id: TableId(3),
                    runs: vec![run(b"", 11, 50)],
                },
            ],
        }
    }

    /// The manifest's entry for it.
    pub(crate) fn named() -> NamedList {
        NamedList {
            file: FileNumber(12),
            identity: list().identity,
            stamp: list().stamp,
        }
    }

    fn dir() -> &'static Path {
        Path::new("/db")
    }

    fn disk_with(list: &ImageList) -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(&image_dir(dir())).unwrap();
        let path = named().file.list_path(dir());
        disk.replace(&path, list.encode().as_bytes()).unwrap();
        disk
    }

    /// Why the list on the disk is refused.
    fn refusal(disk: &SimDisk, named: &NamedList) -> String {
        match ImageList::read(disk, dir(), DATABASE, named) {
            Err(OpenError::DamagedImageList { path, why }) => {
                assert_eq!(path, named.file.list_path(dir()));
                why
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_comes_back_under_either_name() {
        let disk = disk_with(&list());
        let read = || ImageList::read(&disk, dir(), DATABASE, &named());
        assert_eq!(read().unwrap(), list());
        let file = named().file;
        let renamed = disk.rename(&file.list_path(dir()), &file.new_list_path(dir()));
        renamed.unwrap();
        assert_eq!(read().unwrap(), list());
    }

    #[test]
    fn damage_anywhere_in_a_list_is_found() {
        let bytes = list().encode().into_bytes();
        let path = named().file.list_path(dir());
        let last = bytes.len() - 1;
        for at in 0..last {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            let disk = disk_with(&list());
            disk.replace(&path, &damaged).unwrap();
            refusal(&disk, &named());
            disk.replace(&path, &bytes[..at]).unwrap();
            refusal(&disk, &named());
        }
        let newer = String::from_utf8(bytes).unwrap().replacen(" 1 ", " 2 ", 1);
        let disk = disk_with(&list());
        disk.replace(&path, newer.as_bytes()).unwrap();
        let read = ImageList::read(&disk, dir(), DATABASE, &named());
        assert!(matches!(
            read,
            Err(OpenError::OtherFormat {
                found: 2,
                known: 1,
                ..
            })
        ));
    }

    #[test]
    fn a_list_that_is_missing_or_another_is_refused() {
        let disk = disk_with(&list());
        let other = |change: &dyn Fn(&mut NamedList)| {
            let mut named = named();
            change(&mut named);
            refusal(&disk, &named)
        };
        assert!(other(&|it| it.file = FileNumber(13)).contains("missing"));
        assert!(other(&|it| it.identity = format!("{:016x}", 1)).contains("names list"));
        assert!(other(&|it| it.stamp = Stamp(49)).contains("names list"));
        let read = ImageList::read(&disk, dir(), DATABASE + 1, &named());
        let foreign = read.unwrap_err().to_string();
        assert!(foreign.contains("another database"), "{foreign}");
        let mut list = list();
        list.tables[2].runs[0].segment.file = FileNumber(12);
        assert!(refusal(&disk_with(&list), &named()).contains("not older"));
    }

    #[test]
    fn senseless_lists_say_what_is_wrong() {
        assert_eq!(list().contradiction(), None);
        type Spoil<'a> = &'a dyn Fn(&mut ImageList);
        let spoiled: &[(&str, Spoil<'_>)] = &[
            ("not a number", &|it| it.database.push('x')),
            ("is no number", &|it| it.identity = "ab".to_owned()),
            ("its stamp is", &|it| it.stamp = Stamp(Stamp::MAX.0 + 1)),
            ("do not rise", &|it| it.tables.swap(0, 1)),
            ("do not rise", &|it| it.tables[1].id = TableId(0)),
            ("table 0 has keys before", &|it| {
                it.tables[0].runs.remove(0);
            }),
            ("do not follow each other", &|it| {
                it.tables[0].runs[1].from.clear();
            }),
            ("do not follow each other", &|it| {
                let again = run(b"a", 9, 50);
                it.tables[0].runs.push(again);
            }),
            ("without rows", &|it| it.tables[0].runs[1].rows = 0),
            ("after the image", &|it| {
                it.tables[2].runs[0].stamp = Stamp(51);
            }),
            ("of 0 pages", &|it| it.tables[0].runs[0].segment.pages = 0),
            ("rows in file", &|it| it.tables[0].runs[0].rows = 1 << 40),
            ("is named twice", &|it| {
                it.tables[2].runs[0].segment.file = FileNumber(4);
            }),
            ("is named twice", &|it| {
                let identity = it.tables[0].runs[0].segment.identity.to_uppercase();
                it.tables[2].runs[0].segment.identity = identity;
            }),
        ];
        for (expected, spoil) in spoiled {
            let mut list = list();
            spoil(&mut list);
            let why = refusal(&disk_with(&list), &named());
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }

    #[test]
    fn keys_that_are_not_in_hexadecimal_are_damage() {
        let text = list().encode();
        let (_, body) = text.split_once('\n').unwrap();
        for spoiled in ["6dfff", "6dfg", "6d+1"] {
            let body = body.replacen("6dff", spoiled, 1);
            let text = checked_text::encode(MAGIC, FORMAT, body.trim_end());
            let disk = disk_with(&list());
            let path = named().file.list_path(dir());
            disk.replace(&path, text.as_bytes()).unwrap();
            assert!(
                refusal(&disk, &named()).contains("hexadecimal"),
                "{spoiled}"
            );
        }
    }
}
