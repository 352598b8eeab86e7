//! The table journal: the tables that were created since the manifest was written.
//!
//! The manifest is replaced as a whole, so a replacement for each new table would write
//! quadratically many bytes. A creation appends one record here instead, in one durable write.
//! Reading the manifest means reading both files
//! ([`Manifest::read`](crate::catalogue::manifest::Manifest::read)).
//!
//! ```text
//! | header, a block | record | zeros up to a block | record | zeros … |
//! ```
//! The bytes are drawn in docs/on-disk-format.md.
//!
//! # Invariants
//! - J1. The header and the file's name are durable before the first record is written. So a file without a header
//!   has no records.
//! - J2. A record is durable before its table is used. Its number follows from that of the record before it, and the
//!   first from the number of tables in the manifest.
//! - J3. A journal counts only with the manifest that it continues: of the same database, with the
//!   same next generation and the number of tables in the header. A manifest with more tables has
//!   all that the journal has.
//! - J4. A record is written once, into zeros. After a failed write nothing more is appended: the manifest is written
//!   as a whole, and with that the journal no longer counts.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::Generation;
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};

use crate::error::OpenError;
use crate::table::raw_table::{TableId, TableInfo};

/// The version that this release writes, and the latest it reads.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"NAMIKTBL";
const HEADER_BYTES: usize = 64;
const RECORD_MAGIC: &[u8; 4] = b"NTBL";
const RECORD_HEADER_BYTES: usize = 24;
/// The unit that a power cut keeps or loses as a whole; in memory, which has shorter blocks, a block.
const SECTOR_BYTES: usize = 512;
/// The shortest block: the header fits.
const BLOCK_BYTES_MIN: usize = HEADER_BYTES;
const BLOCK_BYTES_MAX: usize = 4096;
/// The longest record. A table with a longer description, because of the names of its types, is not journalled: the
/// manifest is replaced.
const RECORD_BYTES_MAX: usize = BLOCK_BYTES_MAX;
/// The shortest journal.
const LEN_BYTES_MIN: u64 = 64 << 10;

/// The manifest that a journal continues (J3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Continues {
    pub(crate) identity: u128,
    pub(crate) next_generation: Generation,
    pub(crate) tables: u32,
}

/// A journal that takes records.
#[derive(Debug)]
pub(crate) struct TableJournal {
    path: PathBuf,
    header: [u8; HEADER_BYTES],
    len_bytes: u64,
    /// Where the next record goes.
    next: u64,
}

/// A table of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) info: TableInfo,
    pub(crate) offset_bytes: u64,
}

/// Where a directory's journal is.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("TABLES")
}

/// A table that a log changes, but that is neither in the manifest nor in its journal: the missing
/// file, and the remedy.
#[must_use]
pub fn unknown_table(TableId(number): TableId) -> String {
    format!(
        "table {number}, which neither MANIFEST has nor TABLES: after a crash, the tables that were created last are \
         in TABLES alone; put it back as it was beside this MANIFEST"
    )
}

impl TableJournal {
    /// Begins the journal of a manifest with this number of bytes. Replaces one that no longer
    /// counts.
    ///
    /// Its length grows with the manifest's. So the manifests that are written because a journal is full take, all
    /// together, not more bytes than the journals.
    pub(crate) fn begin(
        disk: &dyn Disk,
        dir: &Path,
        continues: Continues,
        manifest_bytes: u64,
    ) -> io::Result<Self> {
        let path = path(dir);
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let len_bytes = (2 * manifest_bytes)
            .max(LEN_BYTES_MIN)
            .next_multiple_of(BLOCK_BYTES_MAX as u64);
        let file = disk.create(&path, len_bytes)?;
        let block_bytes = file.block_bytes();
        let header = header(continues, len_bytes, block_bytes);
        let mut block = AlignedBuf::zeroed(block_bytes);
        block[..HEADER_BYTES].copy_from_slice(&header);
        file.write_durable(0, &block)?;
        disk.sync_dir(dir)?;
        Ok(Self {
            path,
            header,
            len_bytes,
            next: block_bytes as u64,
        })
    }

    /// Appends a table, durably. Returns false, without writing, if the journal is full, if the
    /// record would be too long, or if the file is no longer the one that was begun.
    pub(crate) fn append(&mut self, disk: &dyn Disk, info: &TableInfo) -> io::Result<bool> {
        // Opened by its name: a record in a file that was removed or replaced concurrently would be
        // invisible to every reader.
        let file = disk.open(&self.path)?;
        if !self.is_at(&*file)? {
            return Ok(false);
        }
        let record = record(info, self.next, &self.header);
        let padded = record.len().next_multiple_of(file.block_bytes());
        let is_too_long = record.len() > RECORD_BYTES_MAX;
        if is_too_long || self.next + padded as u64 > self.len_bytes {
            return Ok(false);
        }
        let mut block = AlignedBuf::zeroed(padded);
        block[..record.len()].copy_from_slice(&record);
        file.write_durable(self.next, &block)?;
        self.next += padded as u64;
        Ok(true)
    }

    fn is_at(&self, file: &dyn DiskFile) -> io::Result<bool> {
        let mut block = AlignedBuf::zeroed(file.block_bytes());
        let read = file.read_at(0, &mut block)?;
        Ok(file.len_bytes() == self.len_bytes && block[..read].starts_with(&self.header))
    }
}

fn header(continues: Continues, len_bytes: u64, block_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[12..16].copy_from_slice(&VERSION.to_le_bytes());
    header[16..32].copy_from_slice(&continues.identity.to_le_bytes());
    header[32..40].copy_from_slice(&len_bytes.to_le_bytes());
    header[40..44].copy_from_slice(&continues.next_generation.0.to_le_bytes());
    header[44..48].copy_from_slice(&continues.tables.to_le_bytes());
    header[48..52].copy_from_slice(&(block_bytes as u32).to_le_bytes());
    let checksum = crc32c::crc32c(&header[12..]);
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn record(info: &TableInfo, offset: u64, header: &[u8]) -> Vec<u8> {
    let payload = serde_json::to_vec(info).expect("a table has only string keys");
    let mut record = vec![0; RECORD_HEADER_BYTES];
    record[..4].copy_from_slice(RECORD_MAGIC);
    record[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    record[12..16].copy_from_slice(&info.id.0.to_le_bytes());
    let checksum = checksum_at(&record[8..16], offset, header);
    record[16..20].copy_from_slice(&checksum.to_le_bytes());
    record.extend_from_slice(&payload);
    let checksum = checksum_at(&record[8..], offset, header);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
    record
}

/// Of bytes of the record at this offset: one that was copied from elsewhere does not pass for it.
fn checksum_at(bytes: &[u8], offset: u64, header: &[u8]) -> u32 {
    let sum = crc32c::crc32c(bytes);
    let sum = crc32c::crc32c_append(sum, &header[8..12]);
    crc32c::crc32c_append(sum, &offset.to_le_bytes())
}

/// The tables that the directory's journal adds to this manifest; none without a journal, or if it
/// does not count with that manifest.
///
/// # Errors
/// [`OpenError::DamagedTables`], [`OpenError::OtherFormat`], [`OpenError::Device`].
pub(crate) fn read(
    disk: &dyn Disk,
    dir: &Path,
    continues: Continues,
) -> Result<Vec<Found>, OpenError> {
    let path = path(dir);
    match disk.read(&path) {
        Ok(bytes) => decode(&bytes, &path, continues),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(OpenError::Device { path, source }),
    }
}

fn decode(bytes: &[u8], path: &Path, continues: Continues) -> Result<Vec<Found>, OpenError> {
    let damaged = |offset: usize, why: String| OpenError::DamagedTables {
        path: path.to_owned(),
        offset_bytes: offset as u64,
        why,
    };
    // The crash came before its header was durable (J1).
    if is_zero(bytes) {
        return Ok(Vec::new());
    }
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        return Err(damaged(bytes.len(), "it ends in its header".to_owned()));
    };
    if !header.starts_with(MAGIC) {
        return Err(damaged(0, "its header does not begin as one".to_owned()));
    }
    if u32_at(header, 8) != crc32c::crc32c(&header[12..]) {
        let why = "its header is damaged: the checksum of it does not match";
        return Err(damaged(0, why.to_owned()));
    }
    let version = u32_at(header, 12);
    if version != VERSION {
        return Err(OpenError::OtherFormat {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    if header[16..32] != continues.identity.to_le_bytes() {
        return Err(damaged(16, "it is of another database".to_owned()));
    }
    let (generation, tables) = (u32_at(header, 40), u32_at(header, 44));
    let (of_journal, of_manifest) = (
        (generation, tables),
        (continues.next_generation.0, continues.tables),
    );
    if of_journal < of_manifest {
        return Ok(Vec::new());
    }
    if of_journal > of_manifest {
        let why = format!(
            "it continues a manifest with {tables} tables before {}, and the one that is there, with {} before {}, is older",
            Generation(generation),
            continues.tables,
            continues.next_generation,
        );
        return Err(damaged(40, why));
    }
    let made_with = u64_at(header, 32);
    if made_with != bytes.len() as u64 {
        let why = format!(
            "it has {} bytes, and was made with {made_with}",
            bytes.len()
        );
        return Err(damaged(32, why));
    }
    let block = u32_at(header, 48) as usize;
    if !block.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block) {
        return Err(damaged(48, format!("its blocks cannot have {block} bytes")));
    }
    let mut found: Vec<Found> = Vec::new();
    let mut offset = block;
    while let Some(payload) = record_at(bytes, offset, header) {
        let number = u32_at(bytes, offset + 12);
        let next = tables as usize + found.len();
        let info: TableInfo = serde_json::from_slice(payload)
            .map_err(|error| damaged(offset + RECORD_HEADER_BYTES, error.to_string()))?;
        if number as usize != next || info.id.0 != number {
            let why = format!("table {next} is to be next, and {number} is there");
            return Err(damaged(offset + 12, why));
        }
        found.push(Found {
            info,
            offset_bytes: offset as u64,
        });
        offset += (RECORD_HEADER_BYTES + payload.len()).next_multiple_of(block);
    }
    let rest = bytes.get(offset..).unwrap_or_default();
    if is_zero(rest) {
        return Ok(found);
    }
    let mut later = (offset + block..bytes.len()).step_by(block);
    if later.any(|later| record_at(bytes, later, header).is_some()) {
        let why = format!(
            "{}, and a whole record follows",
            what_is_wrong(rest, offset, header)
        );
        return Err(damaged(offset, why));
    }
    if !is_torn(rest, offset, header, block.min(SECTOR_BYTES)) {
        let why = what_is_wrong(rest, offset, header);
        return Err(damaged(offset, why.to_owned()));
    }
    Ok(found)
}

/// The damage of an incomplete record: in its header, which has a checksum of its own, or in its
/// payload.
fn what_is_wrong(rest: &[u8], offset: usize, header: &[u8]) -> &'static str {
    if has_sound_header(rest, offset, header) {
        "the checksum of a record does not match"
    } else {
        "the header of a record is damaged"
    }
}

fn has_sound_header(record: &[u8], offset: usize, header: &[u8]) -> bool {
    record.len() >= RECORD_HEADER_BYTES
        && record.starts_with(RECORD_MAGIC)
        && u32_at(record, 16) == checksum_at(&record[8..16], offset as u64, header)
}

/// The payload of the record at this offset; `None` if no whole record is there.
fn record_at<'a>(bytes: &'a [u8], offset: usize, header: &[u8]) -> Option<&'a [u8]> {
    let rest = bytes.get(offset..)?;
    if rest.len() < RECORD_HEADER_BYTES || !rest.starts_with(RECORD_MAGIC) {
        return None;
    }
    let record = rest.get(..RECORD_HEADER_BYTES + u32_at(rest, 8) as usize)?;
    let sound = u32_at(record, 4) == checksum_at(&record[8..], offset as u64, header);
    sound.then(|| &record[RECORD_HEADER_BYTES..])
}

/// Whether the rest can be what a power cut leaves of the write of a record: some of its sectors, each of them whole,
/// and zeros after it. No sector of a record is zero, for text has no zeros.
fn is_torn(rest: &[u8], offset: usize, header: &[u8], sector_bytes: usize) -> bool {
    let first = &rest[..rest.len().min(sector_bytes)];
    if is_zero(first) {
        // Its length was in the sector that is lost.
        return is_zero(&rest[rest.len().min(RECORD_BYTES_MAX)..]);
    }
    if !has_sound_header(first, offset, header) {
        return false;
    }
    // So its length is right.
    rest.split_at_checked(RECORD_HEADER_BYTES + u32_at(first, 8) as usize)
        .is_some_and(|(record, after)| record.chunks(sector_bytes).any(is_zero) && is_zero(after))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    const DIR: &str = "/db";
    const CONTINUES: Continues = Continues {
        identity: 7,
        next_generation: Generation(3),
        tables: 2,
    };

    /// The last name of these takes two sectors.
    const NAMES: [&str; 3] = ["c", "d", LONG];
    const LONG: &str = match std::str::from_utf8(&[b'x'; 600]) {
        Ok(name) => name,
        Err(_) => unreachable!(),
    };

    fn table(id: u32, name: &str) -> TableInfo {
        TableInfo {
            id: TableId(id),
            name: name.to_owned(),
            key_type: "u64".to_owned(),
            value_type: "str".to_owned(),
            fixed_keys: true,
            inline_bytes: 8,
            layout: None,
        }
    }

    fn empty_disk() -> SimDisk {
        empty(SimDisk::new())
    }

    fn empty(disk: SimDisk) -> SimDisk {
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk
    }

    fn written() -> SimDisk {
        written_on(empty_disk())
    }

    fn written_on(disk: SimDisk) -> SimDisk {
        let mut journal = TableJournal::begin(&disk, Path::new(DIR), CONTINUES, 100).unwrap();
        for (id, name) in (2..).zip(NAMES) {
            assert!(journal.append(&disk, &table(id, name)).unwrap());
        }
        disk
    }

    fn names(bytes: &[u8], continues: Continues) -> Result<Vec<String>, OpenError> {
        let found = decode(bytes, Path::new("/db/TABLES"), continues)?;
        Ok(found.into_iter().map(|found| found.info.name).collect())
    }

    fn damaged_at(bytes: &[u8], continues: Continues) -> u64 {
        match names(bytes, continues) {
            Err(OpenError::DamagedTables {
                path, offset_bytes, ..
            }) => {
                assert_eq!(path, Path::new("/db/TABLES"));
                offset_bytes
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flipped_byte_of_a_record_is_damage() {
        let bytes = written().read(&path(Path::new(DIR))).unwrap();
        assert_eq!(names(&bytes, CONTINUES).unwrap(), NAMES);
        // A block each for the header and the first two, and two for the last.
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        assert!((4 * 512 + 1..5 * 512).contains(&end), "{end}");
        for at in (0..end).filter(|at| bytes[*at] != 0) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            let expected = if at < 512 {
                0
            } else {
                (at as u64 / 512).min(3) * 512
            };
            assert_eq!(damaged_at(&damaged, CONTINUES), expected, "byte {at}");
        }
        assert_eq!(damaged_at(&bytes[..bytes.len() - 512], CONTINUES), 32);
        assert_eq!(damaged_at(&bytes[..50], CONTINUES), 50);
    }

    #[test]
    fn a_torn_last_record_is_none() {
        let bytes = written().read(&path(Path::new(DIR))).unwrap();
        for lost in [&[3][..], &[4], &[3, 4]] {
            let mut torn = bytes.clone();
            for sector in lost {
                torn[sector * 512..][..512].fill(0);
            }
            assert_eq!(names(&torn, CONTINUES).unwrap(), NAMES[..2], "{lost:?}");
        }
        let mut gap = bytes.clone();
        gap[512..1024].fill(0);
        assert_eq!(damaged_at(&gap, CONTINUES), 512);
        let mut headless = bytes;
        headless[..512].fill(0);
        assert_eq!(damaged_at(&headless, CONTINUES), 0);
        assert!(names(&[], CONTINUES).unwrap().is_empty());
        assert!(names(&[0; 700], CONTINUES).unwrap().is_empty());
    }

    /// Memory loses single blocks of 64 bytes.
    #[test]
    fn a_last_record_torn_in_short_blocks_is_none() {
        let disk = written_on(empty(SimDisk::new().with_blocks(64)));
        let bytes = disk.read(&path(Path::new(DIR))).unwrap();
        assert_eq!(names(&bytes, CONTINUES).unwrap(), NAMES);
        let begins = |at: &usize| bytes[*at..].starts_with(RECORD_MAGIC);
        let records: Vec<usize> = (0..bytes.len() - 64).step_by(64).filter(begins).collect();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let last = records[2];
        assert!(end - last > 8 * 64, "{records:?}, {end}");
        for lost in (last..end).step_by(64) {
            let mut torn = bytes.clone();
            torn[lost..][..64].fill(0);
            assert_eq!(names(&torn, CONTINUES).unwrap(), NAMES[..2], "{lost}");
            // It is in the middle of a record that another one follows.
            let mut damaged = bytes.clone();
            damaged[records[1]..][..64].fill(0);
            assert_eq!(damaged_at(&damaged, CONTINUES), records[1] as u64);
            // No block is lost.
            let mut flipped = bytes.clone();
            flipped[lost.max(last + 30)] ^= 0x11;
            assert_eq!(damaged_at(&flipped, CONTINUES), last as u64, "{lost}");
        }
    }

    /// After each way in which the last record can be torn.
    #[test]
    fn bytes_after_a_torn_record_are_damage() {
        let bytes = written().read(&path(Path::new(DIR))).unwrap();
        // The last record begins at byte 3 × 512, and has two sectors.
        let length_is_lost = [3].as_slice();
        let length_is_known = [4].as_slice();
        for (lost, first_after) in [(length_is_known, 5 * 512), (length_is_lost, 3 * 512 + 4096)] {
            let mut torn = bytes.clone();
            for sector in lost {
                torn[sector * 512..][..512].fill(0);
            }
            assert_eq!(names(&torn, CONTINUES).unwrap(), NAMES[..2], "{lost:?}");
            for at in [first_after, first_after + 700, bytes.len() - 1] {
                let mut damaged = torn.clone();
                damaged[at] = 0xAA;
                assert_eq!(damaged_at(&damaged, CONTINUES), 3 * 512, "{lost:?}, {at}");
            }
        }
    }

    #[test]
    fn a_record_too_long_to_be_torn_is_refused() {
        let dir = Path::new(DIR);
        let disk = empty_disk();
        let mut journal = TableJournal::begin(&disk, dir, CONTINUES, 100).unwrap();
        let fits = "x".repeat(3_800);
        assert!(journal.append(&disk, &table(2, &fits)).unwrap());
        let before = disk.read(&path(dir)).unwrap();
        assert!(
            !journal
                .append(&disk, &table(3, &"x".repeat(4_096)))
                .unwrap()
        );
        assert!(disk.read(&path(dir)).unwrap() == before);
        assert_eq!(names(&before, CONTINUES).unwrap(), [fits]);
    }

    #[test]
    fn a_journal_counts_beside_its_own_manifest_alone() {
        let bytes = written().read(&path(Path::new(DIR))).unwrap();
        let beside = |next_generation, tables| Continues {
            next_generation: Generation(next_generation),
            tables,
            ..CONTINUES
        };
        for later in [beside(3, 3), beside(3, 9), beside(4, 2), beside(4, 0)] {
            assert!(names(&bytes, later).unwrap().is_empty(), "{later:?}");
        }
        for earlier in [beside(3, 1), beside(2, 2), beside(2, 9)] {
            assert_eq!(damaged_at(&bytes, earlier), 40, "{earlier:?}");
        }
        let other = Continues {
            identity: 8,
            ..CONTINUES
        };
        assert_eq!(damaged_at(&bytes, other), 16);
    }

    #[test]
    fn records_out_of_place_are_damage() {
        let dir = Path::new(DIR);
        let disk = empty_disk();
        let mut journal = TableJournal::begin(&disk, dir, CONTINUES, 100).unwrap();
        assert!(journal.append(&disk, &table(2, "c")).unwrap());
        assert!(journal.append(&disk, &table(4, "e")).unwrap());
        let bytes = disk.read(&path(dir)).unwrap();
        assert_eq!(damaged_at(&bytes, CONTINUES), 1024 + 12);
        // A copy of a sound record at another offset is damage.
        let mut copied = bytes;
        copied.copy_within(512..1024, 1024);
        assert_eq!(damaged_at(&copied, CONTINUES), 1024);
    }

    #[test]
    fn a_replaced_or_full_journal_takes_nothing() {
        let dir = Path::new(DIR);
        let disk = empty_disk();
        let mut journal = TableJournal::begin(&disk, dir, CONTINUES, 100).unwrap();
        for id in 2..2 + 127 {
            assert!(journal.append(&disk, &table(id, &format!("{id}"))).unwrap());
        }
        assert!(!journal.append(&disk, &table(129, "e")).unwrap());

        let later = Continues {
            tables: 129,
            ..CONTINUES
        };
        // Longer than the manifest.
        let mut next = TableJournal::begin(&disk, dir, later, 40_000).unwrap();
        assert_eq!(disk.open(&path(dir)).unwrap().len_bytes(), 81_920);
        journal.next = 512;
        assert!(!journal.append(&disk, &table(129, "e")).unwrap());
        assert!(next.append(&disk, &table(129, "f")).unwrap());
        let bytes = disk.read(&path(dir)).unwrap();
        assert_eq!(names(&bytes, later).unwrap(), ["f"]);
    }
}
