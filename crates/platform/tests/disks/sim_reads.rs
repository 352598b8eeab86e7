//! Faults of asynchronous reads of the simulated disk are determined by the seed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::sim::{Fault, ReadFaultCounts, ReadFaults, Step};
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile, FramePool, SimDisk};
use namiki_platform::seeded_random::Random;

const PAGES: u64 = 32;
const PAGE: u64 = 4096;

fn with_file() -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    let file = disk.create(Path::new("/a"), PAGES * PAGE).unwrap();
    for page in 0..PAGES {
        let mut bytes = AlignedBuf::zeroed(PAGE as usize);
        Random::seeded(page).fill(&mut bytes);
        file.write_durable(page * PAGE, &bytes).unwrap();
    }
    (disk, file)
}

fn page_bytes(page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    Random::seeded(page).fill(&mut bytes);
    bytes
}

const HOSTILE: ReadFaults = ReadFaults {
    seed: 0,
    late: 0.2,
    short: 0.1,
    error: 0.1,
    flipped: 0.1,
};

/// The visible results of a run of 400 reads: tag, result, and a sum of the bytes of each
/// completion.
fn run(faults: ReadFaults) -> (Vec<(u64, String, u64)>, ReadFaultCounts) {
    let (disk, file) = with_file();
    disk.set_read_faults(faults);
    let pool = FramePool::new(64).unwrap();
    let mut queue = disk.reads(16, &pool).unwrap();
    let mut random = Random::seeded(faults.seed);
    let mut seen = Vec::new();
    let mut done = Vec::new();
    let mut tag = 0;
    while seen.len() < 400 {
        while tag < 400 && queue.in_flight() < 16 {
            let frames = (0..1 + random.index(3)).map(|_| pool.take().unwrap());
            let page = random.below(PAGES);
            queue
                .push(&file, page * PAGE, frames.collect(), tag)
                .unwrap();
            tag += 1;
        }
        queue.turn(random.index(4), &mut done).unwrap();
        for completion in done.drain(..) {
            let frames = completion.frames.iter();
            let sum = frames
                .flat_map(|frame| frame.iter())
                .map(|byte| u64::from(*byte));
            let sum = sum.sum();
            seen.push((completion.tag, format!("{:?}", completion.result), sum));
        }
    }
    drop(queue);
    assert_eq!(pool.in_use(), 0);
    (seen, disk.read_fault_counts())
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    for seed in 0..20 {
        let faults = ReadFaults { seed, ..HOSTILE };
        let (first, counts) = run(faults);
        // Bytes of frames that no read has written, beyond a file's end, differ: pools are new.
        assert_eq!((&first, counts), (&run(faults).0, counts), "seed {seed}");
        let other = ReadFaults {
            seed: seed + 100,
            ..HOSTILE
        };
        assert_ne!(first, run(other).0, "seed {seed}");
        assert_eq!(counts.completed, 400);
        for count in [counts.late, counts.short, counts.errors, counts.flipped] {
            assert!((5..200).contains(&count), "seed {seed}: {counts:?}");
        }
    }
}

#[test]
fn without_a_plan_only_the_order_changes() {
    let (disk, file) = with_file();
    let pool = FramePool::new(32).unwrap();
    let mut queue = disk.reads(32, &pool).unwrap();
    for page in 0..32 {
        let frame = pool.take().unwrap();
        queue.push(&file, page * PAGE, frame.into(), page).unwrap();
    }
    let mut done = Vec::new();
    let mut polls = 0;
    while queue.in_flight() > 0 {
        queue.turn(0, &mut done).unwrap();
        polls += 1;
    }
    assert!(polls > 2, "{polls}");
    assert!(!done.is_sorted_by_key(|it| it.tag));
    for completion in done {
        assert_eq!(completion.result.unwrap() as u64, PAGE);
        assert_eq!(completion.frames[0][..], page_bytes(completion.tag)[..]);
    }
}

#[test]
fn each_fault_is_what_it_says() {
    let base = ReadFaults::harmless(3);
    let cases = [
        ("short", ReadFaults { short: 1.0, ..base }),
        ("error", ReadFaults { error: 1.0, ..base }),
        (
            "flipped",
            ReadFaults {
                flipped: 1.0,
                ..base
            },
        ),
    ];
    for (name, faults) in cases {
        let (disk, file) = with_file();
        disk.set_read_faults(faults);
        let pool = FramePool::new(32).unwrap();
        let mut queue = disk.reads(16, &pool).unwrap();
        for tag in 0..16 {
            let frames = (0..2).map(|_| pool.take().unwrap()).collect();
            queue.push(&file, tag * PAGE, frames, tag).unwrap();
        }
        let mut done = Vec::new();
        queue.turn(16, &mut done).unwrap();
        assert_eq!(done.len(), 16);
        for completion in done {
            let right = [page_bytes(completion.tag), page_bytes(completion.tag + 1)].concat();
            let read = completion.frames.iter().flat_map(|frame| frame.iter());
            let wrong_bits: u32 = read
                .clone()
                .zip(&right)
                .map(|(is, should)| (is ^ should).count_ones())
                .sum();
            match (name, completion.result) {
                ("error", result) => {
                    assert_eq!(result.unwrap_err().raw_os_error(), Some(5));
                }
                ("flipped", result) => assert_eq!((result.unwrap(), wrong_bits), (8192, 1)),
                (_, result) => {
                    let left = result.unwrap();
                    assert!(left < 8192 && left % 512 == 0, "{left}");
                    assert!(read.take(left).eq(&right[..left]));
                }
            }
        }
        // Only the reads were wrong, and after healing all are right.
        disk.heal();
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), 0).unwrap();
        let mut done = Vec::new();
        queue.turn(1, &mut done).unwrap();
        assert_eq!(done[0].frames[0][..], page_bytes(0)[..], "{name}");
    }
}

#[test]
fn planned_failures_of_reads_count_asynchronous_ones() {
    let (disk, file) = with_file();
    let pool = FramePool::new(8).unwrap();
    let mut queue = disk.reads(8, &pool).unwrap();
    disk.inject(Fault::once(Step::Read, 3, ErrorKind::TimedOut));
    for tag in 0..8 {
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), tag).unwrap();
    }
    let mut done = Vec::new();
    queue.turn(8, &mut done).unwrap();
    let failed: Vec<usize> = (0..8).filter(|at| done[*at].result.is_err()).collect();
    assert_eq!(failed, [3]);
}

#[test]
fn a_read_that_panics_loses_no_frame() {
    let (disk, file) = with_file();
    let pool = FramePool::new(8).unwrap();
    let mut queue = disk.reads(8, &pool).unwrap();
    disk.inject(Fault::once(Step::Read, 2, ErrorKind::Other).panicking());
    for tag in 0..8 {
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), tag).unwrap();
    }
    let mut done = Vec::new();
    let turned = catch_unwind(AssertUnwindSafe(|| queue.turn(8, &mut done)));
    assert!(turned.is_err());
    queue.turn(8, &mut done).unwrap();
    assert_eq!((done.len(), queue.in_flight()), (7, 0));
    drop(done);
    assert_eq!(pool.in_use(), 0);
}
