//! Sorting more keys than fit into memory: the keys of a secondary index, which come in the table's order.
//!
//! ```text
//!   push ──► bytes in memory, up to the budget ──► sorted run in a file ─┐
//!   push ──► bytes in memory, up to the budget ──► sorted run in a file ─┼─► merged in order
//!   push ──► what is left in memory, sorted ─────────────────────────────┘
//! ```
//! What fits the budget is never written. A run is read back in blocks with checksums: a flipped bit in it would
//! otherwise become a wrong entry of an index, with a good checksum of its own.
//!
//! An entry in memory has the first eight bytes of its key beside its place, so most comparisons touch nothing else.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};

use crate::catalogue::image_files::FileNumber;

/// How much of a run is read, checked and written at once, at least.
const BLOCK_BYTES: usize = 64 << 10;
/// Before each block: its length and the checksum of its bytes, four bytes each.
const BLOCK_HEADER_BYTES: usize = 8;
/// Less memory than this is of no use.
const BATCH_BYTES_MIN: usize = 32 << 10;
/// Before each key: its length.
const KEY_HEADER_BYTES: usize = 4;
/// Unit of reads that suits every device.
const READ_UNIT_BYTES: u64 = 4096;

/// Takes keys in any order, within a budget of memory.
pub(crate) struct ExternalSort {
    disk: Arc<dyn Disk>,
    /// Names the files of runs, which end with their number.
    runs_path: PathBuf,
    batch: Batch,
    runs: Vec<RunFile>,
}

/// Why sorted keys cannot be had back.
#[derive(Debug)]
pub(crate) struct SortError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl ExternalSort {
    /// Runs, if there are any, are files beside `runs_path` with its name and a number. `budget_bytes` bounds the memory
    /// for keys and what is kept beside each.
    pub(crate) fn new(disk: Arc<dyn Disk>, runs_path: PathBuf, budget_bytes: usize) -> Self {
        Self {
            disk,
            runs_path,
            batch: Batch::within(budget_bytes),
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: &[u8]) -> Result<(), SortError> {
        if !self.batch.has_room(key.len()) {
            self.spill()?;
        }
        self.batch.push(key);
        Ok(())
    }

    /// The keys in ascending order.
    pub(crate) fn finish(mut self) -> Result<SortedKeys, SortError> {
        self.batch.sort();
        let mut sources = vec![Source::Memory {
            batch: std::mem::take(&mut self.batch),
            next: 0,
        }];
        for run in &self.runs {
            sources.push(Source::Run(Box::new(RunReader::open(&*self.disk, run)?)));
        }
        let mut sorted = SortedKeys {
            heads: BinaryHeap::new(),
            sources,
            current: Vec::new(),
            _runs: std::mem::take(&mut self.runs),
        };
        for source in 0..sorted.sources.len() {
            sorted.refill(source, Vec::new())?;
        }
        Ok(sorted)
    }

    fn spill(&mut self) -> Result<(), SortError> {
        self.batch.sort();
        let path = self
            .runs_path
            .with_extension(format!("{}.run", self.runs.len()));
        let failed = |source| SortError {
            path: path.clone(),
            source,
        };
        // From here on, its end removes it.
        let run = RunFile {
            disk: Arc::clone(&self.disk),
            path: path.clone(),
        };
        let mut file = self.disk.append(&path).map_err(failed)?;
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        for key in self.batch.keys() {
            block.extend_from_slice(&(key.len() as u32).to_le_bytes());
            block.extend_from_slice(key);
            if block.len() >= BLOCK_BYTES {
                file.append(sealed(&mut block)).map_err(failed)?;
                block.truncate(BLOCK_HEADER_BYTES);
            }
        }
        if block.len() > BLOCK_HEADER_BYTES {
            file.append(sealed(&mut block)).map_err(failed)?;
        }
        file.finish().map_err(failed)?;
        self.batch.clear();
        self.runs.push(run);
        Ok(())
    }
}

/// Fills in the header of a block.
fn sealed(block: &mut [u8]) -> &[u8] {
    let (header, payload) = block.split_at_mut(BLOCK_HEADER_BYTES);
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    block
}

/// Keys in memory.
///
/// Both lists grow by doubling, and are copied then. None gets more than two fifths of the budget: when one grows to
/// that, one fifth is what it was before, and two are the other's.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Of each list.
    bytes_max: usize,
}

/// Makes room for more elements, doubling the memory as far as `len_max` allows.
fn grow<T>(list: &mut Vec<T>, more: usize, len_max: usize) {
    let needed = list.len() + more;
    if needed > list.capacity() {
        let wanted = needed.max(2 * list.capacity()).min(len_max.max(needed));
        list.reserve_exact(wanted - list.len());
    }
}

struct Entry {
    /// The first eight bytes, padded with zeros, so that they compare as keys do.
    prefix: u64,
    at: u32,
    len: u32,
}

impl Batch {
    fn within(budget_bytes: usize) -> Self {
        Self {
            // A place in a batch has 32 bits.
            bytes_max: (budget_bytes / 5 * 2).clamp(BATCH_BYTES_MIN, u32::MAX as usize),
            ..Self::default()
        }
    }

    /// Makes room for a key of so many bytes; false if there can be none. An empty batch takes any key.
    fn has_room(&mut self, key_bytes: usize) -> bool {
        let entries_max = self.bytes_max / size_of::<Entry>();
        let fits =
            self.entries.len() < entries_max && self.bytes.len() + key_bytes <= self.bytes_max;
        if fits {
            grow(&mut self.entries, 1, entries_max);
            grow(&mut self.bytes, key_bytes, self.bytes_max);
        }
        fits || self.entries.is_empty()
    }

    fn push(&mut self, key: &[u8]) {
        let mut prefix = [0; 8];
        let beginning = key.len().min(8);
        prefix[..beginning].copy_from_slice(&key[..beginning]);
        self.entries.push(Entry {
            prefix: u64::from_be_bytes(prefix),
            at: self.bytes.len() as u32,
            len: key.len() as u32,
        });
        self.bytes.extend_from_slice(key);
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.at as usize..][..entry.len as usize]
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.key(entry))
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| self.key(a).cmp(self.key(b)))
        });
        self.entries = entries;
    }

    /// Keeps the memory for the next batch.
    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

/// A run, removed when it is no longer needed.
struct RunFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // One that stays is removed at the next opening.
        let _ = self.disk.remove(&self.path);
    }
}

/// Keys in ascending order.
pub(crate) struct SortedKeys {
    heads: BinaryHeap<Head>,
    sources: Vec<Source>,
    current: Vec<u8>,
    _runs: Vec<RunFile>,
}

impl SortedKeys {
    /// The next key; nothing after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, SortError> {
        let Some(Head { key, source }) = self.heads.pop() else {
            return Ok(None);
        };
        let spare = std::mem::replace(&mut self.current, key);
        self.refill(source, spare)?;
        Ok(Some(&self.current))
    }

    /// Puts the next key of a source among the heads, into `spare`.
    fn refill(&mut self, source: usize, mut spare: Vec<u8>) -> Result<(), SortError> {
        spare.clear();
        if self.sources[source].next_into(&mut spare)? {
            self.heads.push(Head { key: spare, source });
        }
        Ok(())
    }
}

/// The next key of a source. The heap is of the largest, so the order is turned round.
#[derive(PartialEq, Eq)]
struct Head {
    key: Vec<u8>,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.key, other.source).cmp(&(&self.key, self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

enum Source {
    Memory { batch: Batch, next: usize },
    Run(Box<RunReader>),
}

impl Source {
    fn next_into(&mut self, key: &mut Vec<u8>) -> Result<bool, SortError> {
        match self {
            Self::Memory { batch, next } => {
                let Some(entry) = batch.entries.get(*next) else {
                    return Ok(false);
                };
                *next += 1;
                key.extend_from_slice(batch.key(entry));
                Ok(true)
            }
            Self::Run(run) => run.next_into(key),
        }
    }
}

/// Reads a run from its beginning.
struct RunReader {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Where the next block begins in the file.
    offset: u64,
    /// The keys of the block that is being read.
    block: Vec<u8>,
    at: usize,
}

impl RunReader {
    fn open(disk: &dyn Disk, run: &RunFile) -> Result<Self, SortError> {
        let opened = disk.open(&run.path).map_err(|source| SortError {
            path: run.path.clone(),
            source,
        });
        Ok(Self {
            path: run.path.clone(),
            file: opened?,
            offset: 0,
            block: Vec::new(),
            at: 0,
        })
    }

    fn next_into(&mut self, key: &mut Vec<u8>) -> Result<bool, SortError> {
        if self.at == self.block.len() {
            let read = self.next_block();
            let read = read.map_err(|source| SortError {
                path: self.path.clone(),
                source,
            })?;
            if !read {
                return Ok(false);
            }
        }
        let rest = &self.block[self.at..];
        let found = rest
            .split_at_checked(KEY_HEADER_BYTES)
            .and_then(|(len, rest)| {
                let len = u32::from_le_bytes(len.try_into().ok()?);
                rest.get(..len as usize)
            });
        let Some(found) = found else {
            return Err(SortError {
                path: self.path.clone(),
                source: damaged("a key leaves its block"),
            });
        };
        key.extend_from_slice(found);
        self.at += KEY_HEADER_BYTES + found.len();
        Ok(true)
    }

    fn next_block(&mut self) -> io::Result<bool> {
        let left = self.file.len_bytes() - self.offset;
        if left == 0 {
            return Ok(false);
        }
        let header = self.read(self.offset, (BLOCK_HEADER_BYTES as u64).min(left))?;
        let (Some(len), Some(checksum)) = (number_at(&header, 0), number_at(&header, 4)) else {
            return Err(damaged("it ends in the header of a block"));
        };
        let len = u64::from(len);
        let begin = self.offset + BLOCK_HEADER_BYTES as u64;
        if len == 0 || begin + len > self.file.len_bytes() {
            return Err(damaged("a block leaves it"));
        }
        self.block = self.read(begin, len)?;
        self.at = 0;
        if crc32c::crc32c(&self.block) != checksum {
            return Err(damaged("the checksum of a block is wrong"));
        }
        self.offset = begin + len;
        Ok(true)
    }

    /// Bytes from anywhere in the file, by reads of whole units.
    fn read(&self, begin: u64, len: u64) -> io::Result<Vec<u8>> {
        let first = begin / READ_UNIT_BYTES * READ_UNIT_BYTES;
        let end = (begin + len).next_multiple_of(READ_UNIT_BYTES);
        let mut units = AlignedBuf::zeroed((end - first) as usize);
        let read = self.file.read_at(first, &mut units)?;
        let skip = (begin - first) as usize;
        units[..read]
            .get(skip..skip + len as usize)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| damaged("it ends before its length"))
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a sorted run is damaged: {why}"),
    )
}

/// The number of the segment whose sorted run has this name: that of the segment's file, with a number and `run` in the
/// place of its ending. Nothing for any other name.
pub(crate) fn run_of(path: &Path) -> Option<FileNumber> {
    let name = path.file_name()?.to_str()?;
    let mut parts = name.split('.');
    let (file, number, ending) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_run = file.len() >= 8 && is_number(file) && is_number(number) && ending == "run";
    (is_run && parts.next().is_none())
        .then(|| file.parse().ok())
        .flatten()
        .map(FileNumber)
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;
    use namiki_platform::seeded_random::Random;

    use super::*;

    const DIR: &str = "/db/image";

    fn empty_disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk
    }

    fn sorter(disk: &SimDisk, budget_bytes: usize) -> ExternalSort {
        let path = Path::new(DIR).join("00000001.seg");
        ExternalSort::new(Arc::new(disk.clone()), path, budget_bytes)
    }

    fn drawn(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
        let key = |random: &mut Random| -> Vec<u8> {
            let len = random.index(40);
            (0..len).map(|_| random.below(3) as u8).collect()
        };
        (0..count).map(|_| key(random)).collect()
    }

    fn all(mut sorted: SortedKeys) -> Result<Vec<Vec<u8>>, SortError> {
        let mut keys = Vec::new();
        while let Some(key) = sorted.next()? {
            keys.push(key.to_vec());
        }
        Ok(keys)
    }

    #[test]
    fn keys_come_back_in_order_whatever_was_spilled() {
        for seed in 0..20 {
            let mut random = Random::seeded(seed);
            let disk = empty_disk();
            let count = random.index(30_000);
            let mut keys = drawn(&mut random, count);
            let budget = BLOCK_BYTES << random.index(5);
            let mut sort = sorter(&disk, budget);
            for key in &keys {
                sort.push(key).unwrap();
                let entries = sort.batch.entries.capacity() * size_of::<Entry>();
                let used = sort.batch.bytes.capacity() + entries;
                assert!(used <= budget.max(2 * BATCH_BYTES_MIN), "seed {seed}");
            }
            let runs = sort.runs.len();
            let found = all(sort.finish().unwrap()).unwrap();
            keys.sort();
            assert!(found == keys, "seed {seed}, {count} keys, {runs} runs");
            assert!(disk.list(Path::new(DIR)).unwrap().is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn a_flipped_bit_in_a_run_is_an_error() {
        let disk = empty_disk();
        let mut sort = sorter(&disk, BLOCK_BYTES);
        for key in drawn(&mut Random::seeded(3), 10_000) {
            sort.push(&key).unwrap();
        }
        let run = sort.runs[0].path.clone();
        assert_eq!(run_of(&run), Some(FileNumber(1)));
        let bytes = disk.read(&run).unwrap();
        for at in [0, 5, 9, 700, bytes.len() - 1] {
            disk.damage(&run, at as u64, &[bytes[at] ^ 4]).unwrap();
            let mut reader = RunReader::open(&disk, &sort.runs[0]).unwrap();
            let mut key = Vec::new();
            let error = loop {
                match reader.next_into(&mut key) {
                    Ok(true) => {}
                    Ok(false) => panic!("byte {at} was not missed"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.source.kind(), io::ErrorKind::InvalidData);
            assert_eq!(error.path, run);
            disk.damage(&run, at as u64, &[bytes[at]]).unwrap();
        }
        drop(sort);
        assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
    }
}
