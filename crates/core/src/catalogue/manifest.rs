//! The manifest: a directory's identity, its tables, and the logs that hold their contents.
//!
//! One small file, replaced as a whole whenever the database is opened or closed, or a table was loaded. JSON under a line
//! with its checksum, so that people can read it:
//!
//! ```text
//! namiki-manifest 2 crc32c=1a2b3c4d
//! { "database": "…", "spec": "SILO(EPOCH)+PWAL(auto)", "tables": [ … ], "generations": [ … ] }
//! ```
//!
//! Tables that are created in between are in a journal (table_journal.rs), which counts only with the manifest of an open
//! database: closing puts all tables into the manifest.
//!
//! A dropped table leaves the manifest, and its number is given to no other: a log may still have changes of it, which
//! replay passes over. So numbers below [`Manifest::next_table`] without a table are those of dropped tables.
//!
//! There is one format, and a manifest of any other is refused: before the first release, `export` and `import` lead from
//! one format to the next (docs/decisions/0068-one-format-before-the-first-release.md).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use namiki_log::{GenerationInfo, StreamStart, generations_contradiction, split_superfluous};
use namiki_platform::checked_text::{self, HeadError};
use namiki_platform::disk::Disk;
use namiki_platform::{Generation, Stamp};
use serde::{Deserialize, Serialize};

use crate::catalogue::backup_mark::BackupMark;
use crate::catalogue::history::History;
use crate::catalogue::image_files::FileNumber;
use crate::catalogue::image_list::NamedList;
use crate::catalogue::kept_room;
use crate::catalogue::loaded_tables::{LoadedTables, definition_contradiction};
use crate::catalogue::random_number::random_number;
use crate::catalogue::table_ids_by_name::ids_contradiction;
use crate::catalogue::table_journal::{self, Continues};
use crate::error::OpenError;
use crate::protocol_spec::ProtocolSpec;
use crate::storage::record::INLINE_BYTES_MAX;
use crate::table::raw_table::{TableId, TableInfo};

const MAGIC: &str = "namiki-manifest";
/// The format of manifests: the only one that is written or read.
pub const FORMAT: u32 = 2;

/// What a cluster keeps beside its clients' tables: its rows belong to the image of a node, too. Clients' tables count from 1.
pub(crate) const RESERVED: TableId = TableId(0);
/// Its name, which no other table has.
pub(crate) const RESERVED_NAME: &str = "namiki.replica";

/// The contents of a database directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The database's identity, in hexadecimal: it is in every log file, too.
    pub database: String,
    /// A random number of the opening that wrote this, drawn anew at each change of its tables or
    /// its image, in hexadecimal. Empty if it was written before the first opening was announced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opening: String,
    /// The protocol of the last opening.
    pub spec: ProtocolSpec,
    /// Whether it was closed in order. (`last_exit` in `pwal` §5.1.)
    pub closed: bool,
    /// Its tables, by their numbers.
    pub tables: Vec<TableInfo>,
    /// How many tables were dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// The logs that hold their contents, oldest first. All but the last are sealed.
    pub generations: Vec<GenerationInfo>,
    /// The number of the next log.
    pub next_generation: Generation,
    /// Logs with smaller numbers are superfluous: an image has their contents. Their remaining
    /// files are removed when the database is opened.
    #[serde(default = "no_generation", skip_serializing_if = "is_no_generation")]
    pub oldest_generation: Generation,
    /// The loaded tables that lie in segments.
    #[serde(default, skip_serializing_if = "LoadedTables::is_empty")]
    pub loaded_tables: LoadedTables,
    /// The image of the tables in memory, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_list: Option<NamedList>,
    /// Restore points with smaller stamps are void: a table that had rows then was dropped since. 0
    /// if no point is void.
    #[serde(default, skip_serializing_if = "is_no_stamp")]
    pub points_from: Stamp,
    /// A random number that all continuations of the same state of the database share. It is drawn
    /// anew when a backup is restored or opened for writing, which begins a history of its own.
    /// Empty until then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The openings that have written it.
    pub history: History,
    /// The state that the next backup into the same directory needs. Only in a backup that was not
    /// opened for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupMark>,
}

/// A manifest's file as it was written.
#[derive(Debug)]
pub(crate) struct Written {
    /// The first line.
    pub(crate) head: String,
    pub(crate) len_bytes: u64,
}

impl Manifest {
    /// The manifest of a new database.
    pub(crate) fn new(identity: u128, spec: ProtocolSpec) -> Self {
        Self {
            database: format!("{identity:032x}"),
            opening: String::new(),
            spec,
            closed: true,
            tables: Vec::new(),
            dropped: 0,
            generations: Vec::new(),
            next_generation: Generation(1),
            oldest_generation: Generation(0),
            loaded_tables: LoadedTables::default(),
            image_list: None,
            points_from: Stamp(0),
            branch: String::new(),
            history: History::new(),
            backup: None,
        }
    }

    /// The path of a directory's manifest.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// The identity as a number.
    #[must_use]
    pub fn identity(&self) -> u128 {
        u128::from_str_radix(&self.database, 16).expect("checked when it was read")
    }

    /// The table of this number, unless it was dropped.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&TableInfo> {
        Some(&self.tables[self.place(id)?])
    }

    /// The same, to be changed.
    pub(crate) fn table_mut(&mut self, id: TableId) -> Option<&mut TableInfo> {
        let place = self.place(id)?;
        Some(&mut self.tables[place])
    }

    /// Removes a table. Its number is given to no other.
    pub(crate) fn drop_table(&mut self, id: TableId) {
        if let Some(place) = self.place(id) {
            self.tables.remove(place);
            self.dropped += 1;
        }
    }

    /// Drops the ended logs if an image of the commits through `stamp` has all their commits. For
    /// the replacement of the manifest that names the image; when that is durable,
    /// `namiki_log::remove_generations` removes the files of those before
    /// [`Manifest::oldest_generation`].
    pub(crate) fn drop_superfluous_generations(&mut self, stamp: Stamp) {
        let (dropped, kept) = split_superfluous(&self.generations, stamp);
        if dropped.is_empty() {
            return;
        }
        let first = kept.first().map(|info| info.generation);
        self.oldest_generation = first.unwrap_or(self.next_generation);
        self.generations = kept.to_vec();
    }

    fn place(&self, id: TableId) -> Option<usize> {
        self.tables.binary_search_by_key(&id, |table| table.id).ok()
    }

    /// Whether it is of a replica: the state of a cluster's node, or a backup of one.
    pub(crate) fn is_of_a_node(&self) -> bool {
        let first = self.tables.first();
        first.is_some_and(|info| info.id == RESERVED && info.name == RESERVED_NAME)
    }

    /// The number of the next table.
    #[must_use]
    pub fn next_table(&self) -> TableId {
        TableId(self.tables.len() as u32 + self.dropped)
    }

    /// Whether a table had this number, and was dropped.
    #[must_use]
    pub fn is_dropped(&self, id: TableId) -> bool {
        id < self.next_table() && self.table(id).is_none()
    }

    /// Raises the number of the next file in the folder `image` to at least this one, and above
    /// those of all files that the manifest and its image list name.
    pub(crate) fn number_files_from(&mut self, free: FileNumber) {
        // The numbers of runs are below that of the list (I10).
        let listed = self.image_list.as_ref();
        let after = listed.map_or(free, |list| FileNumber(list.file.0 + 1).max(free));
        self.loaded_tables.next_file = self.loaded_tables.next_file.max(after);
    }

    /// The path of a directory's table journal, while the database is open and after a crash.
    #[must_use]
    pub fn table_journal_path(dir: &Path) -> PathBuf {
        table_journal::path(dir)
    }

    /// The manifest of a directory, with the tables of its journal; `None` if it has none.
    ///
    /// # Errors
    /// [`OpenError::OtherFormat`], [`OpenError::DamagedManifest`], [`OpenError::DamagedTables`],
    /// [`OpenError::Device`].
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, OpenError> {
        let Some(mut manifest) = Self::read_alone(disk, dir)? else {
            return Ok(None);
        };
        let first = manifest.tables.len();
        let found = table_journal::read(disk, dir, manifest.continues())?;
        let (tables, offsets): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|found| (found.info, found.offset_bytes))
            .unzip();
        manifest.tables.extend(tables);
        match manifest.table_contradiction() {
            Some((number, why)) => Err(OpenError::DamagedTables {
                path: table_journal::path(dir),
                offset_bytes: number.checked_sub(first).map_or(0, |at| offsets[at]),
                why,
            }),
            None => Ok(Some(manifest)),
        }
    }

    /// The manifest of a directory without the tables of its journal, for callers that do not hold the directory:
    /// another program may be replacing both files.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub(crate) fn read_alone(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, OpenError> {
        Self::read_file(disk, &Self::path(dir))
    }

    /// The manifest in a file; `None` if there is no such file.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub(crate) fn read_file(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, OpenError> {
        match disk.read(path) {
            Ok(bytes) => Self::decode(&bytes, path).map(Some),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OpenError::Device {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Replaces the directory's present manifest by this one, if necessary in the room that is
    /// reserved for it.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<Written> {
        let path = Self::path(dir);
        kept_room::with(disk, dir, || self.write_file(disk, &path))
    }

    /// Replaces a file by this manifest, or creates it.
    pub(crate) fn write_file(&self, disk: &dyn Disk, path: &Path) -> io::Result<Written> {
        let text = self.encode();
        disk.replace(path, text.as_bytes())?;
        Ok(Written {
            head: text
                .split_inclusive('\n')
                .next()
                .unwrap_or_default()
                .to_owned(),
            len_bytes: text.len() as u64,
        })
    }

    /// The header of a table journal that continues this manifest.
    pub(crate) fn continues(&self) -> Continues {
        Continues {
            identity: self.identity(),
            next_generation: self.next_generation,
            tables: self.next_table().0,
        }
    }

    /// For the replacement that drops a table: restore points up to this one are void, because the
    /// log no longer has the tables' state at them.
    pub(crate) fn give_up_restore_points(&mut self, last: Stamp) {
        if self.generations.iter().any(|info| info.restore_points) {
            self.points_from = self.points_from.max(last.next());
        }
    }

    /// Called before the database is written: a backup that is written becomes a database with its
    /// own history.
    pub(crate) fn leave_backup(&mut self) {
        if self.backup.is_some() {
            self.leave();
        }
    }

    /// Changes from here on are in no backup yet.
    pub(crate) fn leave(&mut self) {
        self.backup = None;
        self.branch = Self::new_opening();
        self.history = History::new();
    }

    /// A number for [`Manifest::opening`] that no other has.
    pub(crate) fn new_opening() -> String {
        format!("{:016x}", random_number())
    }

    /// Whether the directory's manifest is of the same opening as this one, which is to replace it:
    /// of the same database and next generation, with the same opening number. (The number
    /// distinguishes two programs that began the same generation at once, or have no log.) One that
    /// is missing or damaged was written by no other program, and is replaced.
    ///
    /// # Errors
    /// Whatever the device says.
    pub(crate) fn is_still_ours(&self, disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
        self.is_still_of(std::slice::from_ref(&self.opening), disk, dir)
    }

    /// The same where it may have any of these opening numbers.
    ///
    /// # Errors
    /// Whatever the device says.
    pub(crate) fn is_still_of(
        &self,
        openings: &[String],
        disk: &dyn Disk,
        dir: &Path,
    ) -> io::Result<bool> {
        match Self::read_alone(disk, dir) {
            Ok(Some(found)) => Ok(self.database == found.database
                && self.next_generation == found.next_generation
                && openings.contains(&found.opening)),
            Ok(None) | Err(OpenError::DamagedManifest { .. }) => Ok(true),
            Err(OpenError::Device { source, .. }) => Err(source),
            // Another release's.
            Err(_) => Ok(false),
        }
    }

    fn encode(&self) -> String {
        let body = serde_json::to_string_pretty(self).expect("a manifest has only string keys");
        checked_text::encode(MAGIC, FORMAT, &body)
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, OpenError> {
        let damaged = |why: &str| OpenError::DamagedManifest {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let body = match checked_text::decode(bytes, MAGIC, FORMAT) {
            Ok(body) => body,
            Err(error @ HeadError::Damaged { .. }) => return Err(damaged(&error.to_string())),
            Err(HeadError::OtherFormat { found }) => {
                return Err(OpenError::OtherFormat {
                    path: path.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
        };
        let manifest: Self =
            serde_json::from_str(body).map_err(|error| damaged(&error.to_string()))?;
        match manifest.contradiction() {
            Some(why) => Err(damaged(&why)),
            None => Ok(manifest),
        }
    }

    /// A logical check beyond the checksum: the contradiction in the contents, or `None`.
    fn contradiction(&self) -> Option<String> {
        if u128::from_str_radix(&self.database, 16).is_err() {
            return Some("its database identity is not a number".to_owned());
        }
        ids_contradiction(self.tables.len(), self.dropped)
            .or_else(|| Some(self.table_contradiction()?.1))
            .or_else(|| generations_contradiction(&self.generations, self.next_generation))
            .or_else(|| self.oldest_contradiction())
            .or_else(|| self.history.contradiction())
            .or_else(|| self.loaded_tables.contradiction())
            .or_else(|| match &self.image_list {
                Some(list) => list.contradiction(),
                None => self.recycled_contradiction(),
            })
    }

    /// Without an image, no part of the log may be missing.
    fn recycled_contradiction(&self) -> Option<String> {
        let is_later = |info: &&GenerationInfo| !info.starts.iter().all(StreamStart::is_first);
        let begun_later = self.generations.iter().find(is_later);
        let (gone, of) = match begun_later {
            Some(info) => ("the beginning of ", info.generation),
            None if self.oldest_generation > no_generation() => {
                ("the log before ", self.oldest_generation)
            }
            None => return None,
        };
        Some(format!("there is no image, and {gone}{of} was recycled"))
    }

    fn oldest_contradiction(&self) -> Option<String> {
        let oldest = self.oldest_generation;
        let first = (self.generations.first()).map_or(self.next_generation, |info| info.generation);
        (first < oldest).then(|| format!("nothing before {oldest} is kept, and {first} is there"))
    }

    /// The position of the first invalid table, and the reason.
    fn table_contradiction(&self) -> Option<(usize, String)> {
        let mut names = BTreeSet::new();
        let mut last = None;
        for (number, table) in self.tables.iter().enumerate() {
            let name = &table.name;
            let is_next = match self.dropped {
                0 => usize::try_from(table.id.0) == Ok(number),
                _ => last.is_none_or(|last| last < table.id) && table.id < self.next_table(),
            };
            last = Some(table.id);
            if !is_next {
                return Some((
                    number,
                    format!(
                        "table {name:?} has the number {}, and its place is {number}, with {} tables dropped",
                        table.id.0, self.dropped
                    ),
                ));
            }
            if name.is_empty() || !names.insert(name) {
                return Some((
                    number,
                    format!("the name of table {number}, {name:?}, is empty or taken"),
                ));
            }
            if self.loaded_tables.table(name).is_some() {
                return Some((
                    number,
                    format!("table {name:?} is in memory and a loaded one, too"),
                ));
            }
            let columns = table.columns();
            if let Some(why) =
                columns.and_then(|columns| definition_contradiction(name, columns, &[]))
            {
                return Some((number, format!("table {name:?} {why}")));
            }
            if table.inline_bytes > INLINE_BYTES_MAX {
                return Some((
                    number,
                    format!(
                        "table {name:?} has room for {} bytes in a record, more than {INLINE_BYTES_MAX}",
                        table.inline_bytes
                    ),
                ));
            }
        }
        None
    }
}

fn no_generation() -> Generation {
    Generation(0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_no_generation(generation: &Generation) -> bool {
    *generation == no_generation()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_no_stamp(stamp: &Stamp) -> bool {
    *stamp == Stamp(0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use namiki_log::{CutRule, GenerationEnd, Layout, LogConfig, Placement, Retain};
    use namiki_platform::disk::SimDisk;
    use namiki_platform::{Epoch, Lsn, Stamp};

    use super::*;
    use crate::catalogue::image_list;
    use crate::catalogue::loaded_tables::tests::loaded_tables;

    #[test]
    fn a_manifest_comes_back_unless_damaged_or_of_another_format() {
        let path = Path::new("x/MANIFEST");
        let manifest = Manifest::new(77, ProtocolSpec::DEFAULT);
        let bytes = manifest.encode().into_bytes();
        assert_eq!(Manifest::decode(&bytes, path).unwrap(), manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            assert!(
                Manifest::decode(&damaged, path).is_err() || at + 1 == bytes.len(),
                "byte {at}"
            );
            assert!(Manifest::decode(&bytes[..at], path).is_err() || at + 1 == bytes.len());
        }
        let text = String::from_utf8(bytes).unwrap();
        for other in [0, 1, 7] {
            let other_format = text.replacen(" 2 ", &format!(" {other} "), 1);
            let error = Manifest::decode(other_format.as_bytes(), path).unwrap_err();
            assert!(error.to_string().contains("export"), "{error}");
            assert!(matches!(
                error,
                OpenError::OtherFormat { found, known: FORMAT, .. } if found == other
            ));
        }
    }

    #[test]
    fn only_what_has_ended_ends_at_a_stamp() {
        let ends = |info: &mut GenerationInfo| info.last_stamp = Some(Stamp(9));
        let has_points = |info: &mut GenerationInfo| info.restore_points = true;
        let changes: [fn(&mut GenerationInfo); 2] = [ends, has_points];
        for change in changes {
            let mut info = LogConfig::new(7, Generation(1)).generation_info(CutRule::Epoch);
            info.seal = Some(GenerationEnd {
                last_sequences: vec![0; info.streams.into()],
                last_lsn: Lsn(0),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(12),
            });
            change(&mut info);
            let mut manifest = Manifest {
                generations: vec![info],
                next_generation: Generation(2),
                ..Manifest::new(7, ProtocolSpec::DEFAULT)
            };
            let text = manifest.encode();
            let path = Path::new("x/MANIFEST");
            assert_eq!(Manifest::decode(text.as_bytes(), path).unwrap(), manifest);
            // Only what has ended ends at a stamp.
            manifest.generations[0].seal = None;
            let is_fine = manifest.generations[0].last_stamp.is_none();
            let text = manifest.encode();
            assert_eq!(Manifest::decode(text.as_bytes(), path).is_ok(), is_fine);
        }
    }

    #[test]
    fn a_log_in_rings_that_begins_later_needs_an_image() {
        let path = Path::new("x/MANIFEST");
        let info = GenerationInfo {
            placement: Placement::Shared {
                path: "/device".into(),
                region_bytes: 1 << 20,
            },
            retain: Retain::UntilRecycled,
            starts: vec![StreamStart {
                offset: 3 << 20,
                ..StreamStart::FIRST
            }],
            ..LogConfig::new(7, Generation(1)).generation_info(CutRule::Epoch)
        };
        let mut manifest = Manifest {
            generations: vec![info],
            next_generation: Generation(2),
            ..Manifest::new(7, ProtocolSpec::DEFAULT)
        };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(text.as_bytes(), path).unwrap(), manifest);
        // Without an image, no part of it is missing.
        manifest.generations[0].starts[0].sequence = 9;
        assert!(Manifest::decode(manifest.encode().as_bytes(), path).is_err());
        manifest.image_list = Some(image_list::tests::named());
        Manifest::decode(manifest.encode().as_bytes(), path).unwrap();
    }

    #[test]
    fn loaded_tables_lists_and_dropped_tables_come_back() {
        let path = Path::new("x/MANIFEST");
        for (closed, with_loaded, dropped, with_list) in [
            (true, false, 0, false),
            (false, false, 0, false),
            (true, true, 0, false),
            (false, true, 0, false),
            (true, false, 1, false),
            (false, true, 2, false),
            (true, false, 0, true),
            (false, true, 2, true),
        ] {
            let mut manifest = Manifest::new(77, ProtocolSpec::DEFAULT);
            manifest.closed = closed;
            manifest.dropped = dropped;
            if with_loaded {
                manifest.loaded_tables = loaded_tables();
            }
            manifest.image_list = with_list.then(image_list::tests::named);
            let text = manifest.encode();
            assert!(text.starts_with("namiki-manifest 2 "), "{text}");
            assert_eq!(text.contains("\"loaded_tables\""), with_loaded);
            assert_eq!(text.contains("\"image_list\""), with_list);
            assert_eq!(Manifest::decode(text.as_bytes(), path).unwrap(), manifest);
        }
    }

    /// An expected error, and the change of a manifest that causes it.
    type Spoiled = (&'static str, fn(&mut Manifest));

    fn table(id: u32, name: &str) -> TableInfo {
        TableInfo {
            id: TableId(id),
            name: name.to_owned(),
            key_type: "u64".to_owned(),
            value_type: "u64".to_owned(),
            fixed_keys: true,
            inline_bytes: 8,
            layout: None,
        }
    }

    fn generation(number: u32, sealed: bool) -> GenerationInfo {
        let seal = GenerationEnd {
            last_sequences: vec![1; 2],
            last_lsn: Lsn(0),
            durable_epoch: Epoch(1),
            max_stamp: Stamp(9),
        };
        GenerationInfo {
            seal: sealed.then_some(seal),
            streams: 2,
            ..LogConfig::new(7, Generation(number)).generation_info(CutRule::Epoch)
        }
    }

    /// Identities and tables.
    const SPOILED_TABLES: &[Spoiled] = &[
        ("not a number", |it| it.database = "x".to_owned()),
        ("has the number 4294967295", |it| {
            it.tables[1] = table(u32::MAX, "b");
        }),
        ("has the number 0", |it| it.tables[1] = table(0, "b")),
        ("and its place is 1, with 3", |it| {
            it.dropped = 3;
            it.tables[1] = table(5, "b");
        }),
        ("and its place is 1, with 3", |it| {
            it.dropped = 3;
            it.tables = vec![table(3, "a"), table(3, "b")];
        }),
        ("is empty or taken", |it| it.tables[1] = table(1, "a")),
        ("is empty or taken", |it| it.tables[1] = table(1, "")),
        ("room for 2041 bytes", |it| {
            it.tables[0].inline_bytes = 2041;
        }),
    ];

    /// Generations of the log.
    const SPOILED_GENERATIONS: &[Spoiled] = &[
        ("comes after", |it| it.generations.swap(0, 1)),
        ("comes after", |it| {
            it.generations[1] = generation(1, false);
        }),
        ("no seal", |it| it.generations[0] = generation(1, false)),
        ("is to be next", |it| it.next_generation = Generation(3)),
        ("cannot be next", |it| {
            it.next_generation = Generation(u32::MAX);
        }),
        ("is of 2 streams", |it| it.generations[0].streams = 1),
        ("has 0 streams", |it| it.generations[1].streams = 0),
        ("has 2 streams", |it| {
            it.generations[1].layout = Layout::Single;
        }),
        ("begins with", |it| it.generations[1].first_lsn = Lsn(0)),
        ("no length", |it| {
            it.generations[1].placement = Placement::Files { log_file_bytes: 0 };
        }),
        ("files of 5000 bytes", |it| {
            it.generations[0].placement = Placement::Files {
                log_file_bytes: 5000,
            };
        }),
        ("files of 100 bytes", |it| {
            it.generations[1].placement = Placement::Shared {
                path: "device".into(),
                region_bytes: 100,
            };
        }),
    ];

    /// Files of tables, and the parts of the log that they allow to be gone.
    const SPOILED_FILES: &[Spoiled] = &[
        ("is in memory and a loaded one", |it| {
            it.loaded_tables = loaded_tables();
            it.loaded_tables.tables[0].name = "b".to_owned();
        }),
        ("named twice", |it| {
            it.loaded_tables = loaded_tables();
            it.loaded_tables.tables[0].indexes[0].segment.file = FileNumber(1);
        }),
        ("no image, and the log before generation 1", |it| {
            it.oldest_generation = Generation(1);
        }),
        ("no image, and the beginning of generation 3", |it| {
            let start = StreamStart {
                file_number: 2,
                sequence: 9,
                offset: 0,
            };
            it.generations[1].retain = Retain::UntilRecycled;
            it.generations[1].starts = vec![start; 2];
        }),
        ("the image list is file 0", |it| {
            let mut list = image_list::tests::named();
            list.file = FileNumber(0);
            it.image_list = Some(list);
        }),
        ("is no number", |it| {
            let mut list = image_list::tests::named();
            list.identity.pop();
            it.image_list = Some(list);
        }),
        ("the image is at", |it| {
            let mut list = image_list::tests::named();
            list.stamp = Stamp(1 << 50);
            it.image_list = Some(list);
        }),
        ("more than there can be", |it| {
            let seal = it.generations[0].seal.as_mut().unwrap();
            seal.durable_epoch = Epoch(u64::MAX);
        }),
    ];

    #[test]
    fn senseless_contents_are_damage_with_a_good_checksum() {
        let sound = Manifest {
            tables: vec![table(0, "a"), table(1, "b")],
            generations: vec![generation(1, true), generation(3, false)],
            next_generation: Generation(4),
            ..Manifest::new(7, ProtocolSpec::DEFAULT)
        };
        let path = Path::new("x/MANIFEST");
        Manifest::decode(sound.encode().as_bytes(), path).unwrap();
        let spoiled = [SPOILED_TABLES, SPOILED_GENERATIONS, SPOILED_FILES];
        for (expected, spoil) in spoiled.concat() {
            let mut manifest = sound.clone();
            spoil(&mut manifest);
            match Manifest::decode(manifest.encode().as_bytes(), path) {
                Err(OpenError::DamagedManifest { why, .. }) => {
                    assert!(why.contains(expected), "{expected}: {why}");
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_manifest_of_another_opening_is_not_ours() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        let ours = Manifest::new(7, ProtocolSpec::DEFAULT);
        assert!(ours.is_still_ours(&disk, dir).unwrap());
        ours.write(&disk, dir).unwrap();
        assert!(ours.is_still_ours(&disk, dir).unwrap());
        let mut later = ours.clone();
        later.next_generation = Generation(2);
        let mut at_once = ours.clone();
        at_once.opening = "1f".to_owned();
        for other in [later, at_once, Manifest::new(8, ProtocolSpec::DEFAULT)] {
            other.write(&disk, dir).unwrap();
            assert!(!ours.is_still_ours(&disk, dir).unwrap());
        }
        disk.replace(&Manifest::path(dir), b"damaged").unwrap();
        assert!(ours.is_still_ours(&disk, dir).unwrap());
    }
}
