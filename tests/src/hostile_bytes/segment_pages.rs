//! Pages of a data segment: those of a segment written by the product, or zeros, with changes.
//!
//! ```text
//!  flags u8 | which segment u8, or how many zero pages | draws u8 | changes u8 | change …
//!  change:  page u8 | at u16 | length u8 | bytes
//! ```
//! A page that is counted from the end (bit 7) is the footer, or one of the index.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, MemoryDisk, PAGE_BYTES};
use namiki_platform::seeded_random::Random;
use namiki_segment::hostile_bytes::{mend_checksums, use_all};
use namiki_segment::{Segment, SegmentId, Writer, check};

use super::Input;

const ID: SegmentId = SegmentId::new(1, 1);
const PATH: &str = "/1.run";

pub(super) const MENDS: u8 = 1;
const OF_ZEROS: u8 = 1 << 1;
const IS_CUT: u8 = 1 << 2;

/// For each segment: rows, length of the keys' common prefix, length of a value. Every tenth value
/// is a hundred times as long.
const SEGMENTS: &[(u64, usize, usize)] = &[(1, 0, 5), (40, 12, 70), (300, 3, 20), (30, 0, 300)];

/// Created once; each input changes a copy.
static WRITTEN: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| SEGMENTS.iter().map(|of| written(*of)).collect());

fn disk() -> Arc<dyn Disk> {
    let disk = MemoryDisk::new();
    let made = disk.create_dir_all(Path::new("/"));
    made.expect("memory has folders");
    Arc::new(disk)
}

fn written((rows, shared, value_bytes): (u64, usize, usize)) -> Vec<u8> {
    let disk = disk();
    let path = Path::new(PATH);
    let mut writer = Writer::create(&disk, path, ID).expect("a file is created in memory");
    for row in 0..rows {
        let mut key = vec![b'k'; shared];
        key.extend_from_slice(&(row * row).to_be_bytes());
        let len = match row % 10 {
            9 => 100 * value_bytes,
            _ => value_bytes,
        };
        let pushed = writer.push(&key, &vec![row as u8; len], Stamp(row + 2));
        pushed.expect("keys rise");
    }
    writer.finish().expect("memory has room");
    disk.read(path).expect("it was written")
}

/// Number of segments to change.
pub(super) fn segments() -> u8 {
    SEGMENTS.len() as u8
}

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let flags = input.byte();
    let which = usize::from(input.byte());
    let seed = u64::from(input.byte());
    let mut file = match flags & OF_ZEROS {
        0 => WRITTEN[which % SEGMENTS.len()].clone(),
        _ => vec![0; (1 + which % 4) * PAGE_BYTES],
    };
    let pages = file.len() / PAGE_BYTES;
    for _ in 0..input.byte() {
        let page = usize::from(input.byte());
        let page = match page & 0x80 {
            0 => page % pages,
            _ => pages - 1 - (page & 0x7f) % pages,
        };
        let at = usize::from(input.u16()) % PAGE_BYTES;
        let length = usize::from(input.byte()).min(PAGE_BYTES - at);
        let change = input.take(length);
        file[page * PAGE_BYTES + at..][..change.len()].copy_from_slice(change);
    }
    if flags & IS_CUT != 0 {
        file.truncate(usize::from(input.u16()));
    }
    if flags & MENDS != 0 {
        mend_checksums(ID, &mut file);
    }
    look_at(&file, seed)
}

fn look_at(file: &[u8], seed: u64) -> bool {
    let disk = disk();
    let path = Path::new(PATH);
    disk.replace(path, file).expect("memory has room");
    let checked = check(&disk, path, ID);
    match Segment::open(&disk, path, ID) {
        Ok(segment) => {
            let mut random = Random::seeded(seed);
            use_all(&segment, file, |below| random.index(below));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(checked.is_err(), "{error}, and the check says nothing");
        }
    }
    checked.is_ok()
}
