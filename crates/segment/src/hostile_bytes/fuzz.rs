//! Pages that were changed by hand and have the right checksum: whatever is accepted can be used
//! without a panic, and what is refused names its page.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

use crate::format::{PAGE_BYTES, Page, Seal};
use crate::hostile_bytes::use_all;
use crate::{PageNo, Segment, SegmentId, Writer, check};

const ID: SegmentId = SegmentId::new(1, 1);
const PATH: &str = "/1.run";

/// A small segment with all kinds of pages.
fn written(random: &mut Random) -> (Arc<dyn Disk>, Vec<u8>) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut writer = Writer::create(&disk, Path::new(PATH), ID).unwrap();
    let (shared, bits) = (random.index(20), random.index(40));
    let step = 1 + random.below(1 << bits);
    let long_chance = [0.0, 0.05][random.index(2)];
    for row in 0..random.below(300) {
        let mut key = vec![b'k'; shared];
        key.extend_from_slice(&(row * step).to_be_bytes());
        let len = if random.chance(long_chance) {
            1001 + random.index(9000)
        } else {
            random.index(80)
        };
        writer
            .push(&key, &vec![row as u8; len], Stamp(random.below(1000)))
            .unwrap();
    }
    writer.finish().unwrap();
    let bytes = disk.read(Path::new(PATH)).unwrap();
    (disk, bytes)
}

/// Changes a page: single bytes, most of them where the structure is, or all of it.
fn change(page: &mut Page, random: &mut Random) {
    match random.index(10) {
        0 => random.fill(&mut page[5..]),
        1 => page[5 + random.index(PAGE_BYTES - 5)..].fill(random.next_u64() as u8),
        _ => {
            for _ in 0..=random.index(3) {
                let reach = [24, 96, 1000, PAGE_BYTES][random.index(4)];
                let at = 4 + random.index(reach - 4);
                page[at] = match random.index(4) {
                    0 => 0,
                    1 => 255,
                    2 => page[at].wrapping_add(1),
                    _ => random.next_u64() as u8,
                };
            }
        }
    }
}

/// A sparse file, whose index would take as much memory as it says.
#[test]
fn more_index_pages_than_leaves_are_not_read() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut writer = Writer::create(&disk, Path::new(PATH), ID).unwrap();
    writer.push(b"key", b"value", Stamp(1)).unwrap();
    writer.finish().unwrap();
    let mut bytes = disk.read(Path::new(PATH)).unwrap();
    let mut footer: Box<Page> = Box::new(*bytes.last_chunk().unwrap());
    let pages: u32 = 1000;
    footer[20..24].copy_from_slice(&pages.to_le_bytes());
    Seal::of(ID).close(PageNo(pages - 1), &mut footer);
    bytes.truncate(PAGE_BYTES);
    bytes.resize((pages as usize - 1) * PAGE_BYTES, 0);
    bytes.extend_from_slice(&*footer);
    disk.replace(Path::new(PATH), &bytes).unwrap();
    let error = Segment::open(&disk, Path::new(PATH), ID).unwrap_err();
    let named = format!("page {} ", pages - 1);
    assert!(error.to_string().contains(&named), "{error}");
}

#[test]
fn what_is_accepted_can_be_used_without_a_panic() {
    let rounds = match std::env::var("NAMIKI_FUZZ_ROUNDS") {
        Ok(rounds) => rounds.parse().unwrap(),
        Err(_) => 4000,
    };
    let (mut opened, mut sound) = (0, 0);
    for seed in 0..rounds {
        // A panic tells the seed.
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let (disk, mut bytes) = written(&mut random);
        let pages = bytes.len() / PAGE_BYTES;
        for _ in 0..=random.index(2) {
            // Footer and index are few: as often as all others.
            let no = match random.index(3) {
                0 => pages - 1 - random.index(pages.min(2)),
                _ => random.index(pages),
            };
            let page = bytes[no * PAGE_BYTES..][..PAGE_BYTES]
                .as_mut_array()
                .unwrap();
            change(page, &mut random);
            Seal::of(ID).close(PageNo(no as u32), page);
        }
        disk.replace(Path::new(PATH), &bytes).unwrap();
        let checked = check(&disk, Path::new(PATH), ID);
        sound += u32::from(checked.is_ok());
        if let Ok(segment) = Segment::open(&disk, Path::new(PATH), ID) {
            opened += 1;
            use_all(&segment, &bytes, |below| random.index(below));
        } else {
            assert!(checked.is_err());
        }
    }
    // Some changes make another sound segment, as of a value's bytes. Most do not.
    println!("{opened} opened, {sound} sound, of {rounds}");
    assert!(opened > rounds as u32 / 4 && sound < opened);
}
