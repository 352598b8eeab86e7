//! Helpers for the tests of segments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{AlignedBuf, Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_segment::{
    Found, LongReader, MemoryPages, PAGE_BYTES, PageNo, PageRef, Pages, Row, Segment, SegmentError,
    SegmentId, Summary, Value, Writer,
};

pub(crate) const ID: SegmentId = SegmentId::new(0x6e61_6d69_6b69_0000_1234, 7);

/// The model that a segment is compared with.
pub(crate) type Model = BTreeMap<Vec<u8>, (Vec<u8>, Stamp)>;

pub(crate) fn path() -> PathBuf {
    PathBuf::from("/db/7.run")
}

pub(crate) fn disk() -> Arc<dyn Disk> {
    Arc::new(sim_disk())
}

pub(crate) fn sim_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    disk
}

pub(crate) fn write(disk: &Arc<dyn Disk>, rows: &Model) -> Summary {
    try_write(disk, &path(), ID, rows).unwrap()
}

pub(crate) fn try_write(
    disk: &Arc<dyn Disk>,
    path: &Path,
    id: SegmentId,
    rows: &Model,
) -> Result<Summary, SegmentError> {
    let mut writer = Writer::create(disk, path, id)?;
    for (key, (value, stamp)) in rows {
        writer.push(key, value, *stamp)?;
    }
    writer.finish()
}

pub(crate) fn open(disk: &Arc<dyn Disk>) -> Arc<Segment> {
    Arc::new(Segment::open(disk, &path(), ID).unwrap())
}

/// Writes the rows, opens the segment and reads it into memory.
pub(crate) fn loaded(rows: &Model) -> MemoryPages {
    let disk = disk();
    write(&disk, rows);
    MemoryPages::load(&open(&disk)).unwrap()
}

/// The answer of a look-up without faults.
pub(crate) fn is<T>(found: Found<T>) -> T {
    match found {
        Found::Is(answer) => answer,
        Found::Fault(page) => panic!("{page} is not resident"),
    }
}

/// A row in memory of its own.
pub(crate) fn owned(
    segment: &Segment,
    pages: &impl Pages,
    row: &Row<'_>,
) -> (Vec<u8>, (Vec<u8>, Stamp)) {
    let value = match row.value {
        Value::Inline(bytes) => bytes.to_vec(),
        Value::Long(long) => {
            let mut bytes = Vec::new();
            let mut reader = LongReader::new(long);
            is(reader.read_to_end(segment, pages, &mut bytes).unwrap());
            bytes
        }
    };
    assert_eq!(value.len() as u64, row.value.len());
    (row.key.to_vec(), (value, row.stamp))
}

/// Pages that become resident when they are asked for a second time: every look-up faults first.
pub(crate) struct FaultingPages {
    segment: Arc<Segment>,
    resident: BTreeMap<u32, AlignedBuf>,
    missed: RefCell<Vec<PageNo>>,
    /// The number of times that each page was read.
    pub(crate) reads: BTreeMap<u32, usize>,
}

impl FaultingPages {
    pub(crate) fn new(segment: &Arc<Segment>) -> Self {
        Self {
            segment: Arc::clone(segment),
            resident: BTreeMap::new(),
            missed: RefCell::default(),
            reads: BTreeMap::new(),
        }
    }

    /// Reads the page of a fault, which has to be one that was asked for.
    pub(crate) fn load(&mut self, page: PageNo) {
        assert!(self.missed.borrow().contains(&page));
        self.missed.borrow_mut().clear();
        let bytes = self.segment.read_pages(page, 1).unwrap();
        self.resident.insert(page.0, bytes);
        *self.reads.entry(page.0).or_default() += 1;
    }

    pub(crate) fn evict_all(&mut self) {
        self.resident.clear();
    }

    /// Repeats a call until it has an answer, and converts that into an owned value.
    pub(crate) fn until<T>(&mut self, mut call: impl FnMut(&Self) -> Found<T>) -> T {
        for _ in 0..10_000 {
            let page = match call(self) {
                Found::Is(answer) => return answer,
                Found::Fault(page) => page,
            };
            self.load(page);
        }
        panic!("a call that faults for ever");
    }
}

impl Pages for FaultingPages {
    fn page(&self, _: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        let Some(buffer) = self.resident.get(&page.0) else {
            self.missed.borrow_mut().push(page);
            return None;
        };
        let bytes: &[u8; PAGE_BYTES] = buffer[..].as_array().unwrap();
        Some(PageRef::of_verified(bytes))
    }
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Eight bytes, dense.
    Dense,
    /// Eight random bytes.
    Sparse,
    /// Text of few letters and any length: many keys are prefixes of others.
    Prefixes,
    /// Bytes 0 and 255 in short keys.
    Extremes,
    /// Long common prefixes, which change now and then.
    Deep,
    /// Few prefixes, each with many keys that differ late.
    Late,
    /// Up to the longest key.
    Long,
}

pub(crate) const SHAPES: [Shape; 7] = [
    Shape::Dense,
    Shape::Sparse,
    Shape::Prefixes,
    Shape::Extremes,
    Shape::Deep,
    Shape::Late,
    Shape::Long,
];

pub(crate) fn key(shape: Shape, random: &mut Random, rows: u64) -> Vec<u8> {
    match shape {
        Shape::Dense => random.below(rows * 2).to_be_bytes().to_vec(),
        Shape::Sparse => random.next_u64().to_be_bytes().to_vec(),
        Shape::Prefixes => {
            let len = random.index(24);
            (0..len).map(|_| b'a' + random.index(2) as u8).collect()
        }
        Shape::Extremes => {
            let len = random.index(9);
            (0..len)
                .map(|_| if random.chance(0.5) { 0 } else { 255 })
                .collect()
        }
        Shape::Deep => {
            let mut key = vec![b'p'; 40 + random.index(3) * 30];
            key.extend_from_slice(&random.below(rows).to_be_bytes()[4..]);
            key
        }
        Shape::Late => {
            let mut key = vec![random.index(3) as u8];
            key.resize(1 + random.index(2) * 14, b'z');
            key.extend_from_slice(&random.below(rows).to_be_bytes()[5..]);
            key
        }
        Shape::Long => {
            let len = random.index(namiki_segment::KEY_BYTES_MAX + 1);
            let mut key = vec![random.index(3) as u8; len];
            if let Some(last) = key.last_mut() {
                *last = random.next_u64() as u8;
            }
            key
        }
    }
}

/// Kinds of values: empty, short, just in a leaf, long, over several pages.
pub(crate) fn value(random: &mut Random, longest: usize) -> Vec<u8> {
    let len = match random.index(8) {
        0 => 0,
        1..=5 => random.index(60),
        6 => random.index(1100),
        _ => random.index(longest.max(1)),
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Random rows.
pub(crate) fn rows(shape: Shape, random: &mut Random, count: u64, longest: usize) -> Model {
    let stamps = 1_u64 << (random.index(5) * 11);
    let base = random.below(1 << 40);
    (0..count)
        .map(|_| {
            let key = key(shape, random, count.max(1));
            let stamp = Stamp(base + random.below(stamps));
            (key, (value(random, longest), stamp))
        })
        .collect()
}

/// Keys of the rows, neighbours of them, and others.
pub(crate) fn probes(model: &Model, shape: Shape, random: &mut Random) -> BTreeSet<Vec<u8>> {
    let mut probes = BTreeSet::from([Vec::new(), vec![0], vec![255; 40]]);
    for key in model.keys() {
        let mut longer = key.clone();
        longer.push(0);
        let mut shorter = key.clone();
        shorter.pop();
        let mut higher = key.clone();
        if let Some(last) = higher.last_mut() {
            *last = last.wrapping_add(1);
        }
        probes.extend([key.clone(), longer, shorter, higher]);
    }
    for _ in 0..50 {
        probes.insert(self::key(shape, random, model.len().max(1) as u64));
    }
    probes
}
