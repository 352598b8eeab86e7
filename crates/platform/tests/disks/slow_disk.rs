//! Emulated slow drives take their time, and report that they are emulated.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_platform::disk::sim::ReadFaults;
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile, FramePool, SimDisk, SlowDisk};

const PAGE: u64 = 4096;

fn with_file(drives: &str, pages: u64) -> (SimDisk, SlowDisk, Arc<dyn DiskFile>) {
    let below = SimDisk::new();
    let disk = SlowDisk::new(Arc::new(below.clone()), drives.parse().unwrap());
    let file = disk.create(Path::new("/a"), pages * PAGE).unwrap();
    (below, disk, file)
}

/// Only a lower bound: the rest of the time depends on the machine.
#[test]
fn a_drive_takes_its_time_for_each_read() {
    let (_, disk, file) = with_file("2x4ms", 8);
    let pool = FramePool::new(8).unwrap();
    let began = Instant::now();
    let mut queue = disk.reads(8, &pool).unwrap();
    // Drive 0 has pages 0, 2, 4 and drive 1 page 1.
    for page in [0, 1, 2, 4] {
        let frame = pool.take().unwrap();
        queue.push(&file, page * PAGE, frame.into(), page).unwrap();
    }
    let mut done = Vec::new();
    queue.turn(4, &mut done).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(12));
    let order: Vec<u64> = done.iter().map(|it| it.tag).collect();
    let place = |tag| order.iter().position(|it| *it == tag).unwrap();
    assert!(place(0) < place(2) && place(2) < place(4), "{order:?}");
    let began = Instant::now();
    file.read_at(0, &mut AlignedBuf::zeroed(8192)).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(4));
}

#[test]
fn all_queues_of_a_disk_share_its_drives() {
    let (_, disk, file) = with_file("1x5ms", 8);
    let pool = FramePool::new(8).unwrap();
    let began = Instant::now();
    let disks = [disk.clone(), disk];
    let mut queues: Vec<_> = disks.map(|it| it.reads(2, &pool).unwrap()).into();
    let mut done = Vec::new();
    for queue in &mut queues {
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), 0).unwrap();
        queue.turn(0, &mut done).unwrap();
    }
    for queue in &mut queues {
        queue.turn(1, &mut done).unwrap();
    }
    assert_eq!(done.len(), 2);
    assert!(began.elapsed() >= Duration::from_millis(10));
}

#[test]
fn it_is_named_as_an_emulation() {
    let (_, disk, file) = with_file("192x5ms", 1);
    let pool = FramePool::new(1).unwrap();
    let queue = disk.reads(1, &pool).unwrap();
    let said = queue.describe();
    assert!(
        said.starts_with("EMULATED: 192 slow drives of 5ms"),
        "{said}"
    );
    assert!(said.contains("simulated"), "{said}");
    assert!(format!("{file:?} {disk:?}").contains("emulated drives 192x5ms"));
    assert_eq!(disk.drives().to_string(), "192x5ms");
}

#[test]
fn reads_that_are_held_back_count_as_in_flight() {
    let (_, disk, file) = with_file("1x1000ms", 1);
    let pool = FramePool::new(4).unwrap();
    let mut queue = disk.reads(3, &pool).unwrap();
    let mut done = Vec::new();
    for tag in 0..3 {
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), tag).unwrap();
        queue.turn(0, &mut done).unwrap();
    }
    let refused = queue.push(&file, 0, pool.take().unwrap().into(), 3);
    assert!(refused.is_err() && done.is_empty());
    drop(refused);
    // A drop does not wait for the drive.
    drop(queue);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn errors_of_the_disk_below_come_through() {
    let (below, disk, file) = with_file("3x1ms", 8);
    below.set_read_faults(ReadFaults {
        error: 1.0,
        ..ReadFaults::harmless(1)
    });
    let pool = FramePool::new(4).unwrap();
    let mut queue = disk.reads(4, &pool).unwrap();
    for tag in 10..14 {
        let frame = pool.take().unwrap();
        queue.push(&file, 0, frame.into(), tag).unwrap();
    }
    let mut done = Vec::new();
    queue.turn(4, &mut done).unwrap();
    assert!(done.iter().all(|it| it.result.is_err()));
    let mut tags: Vec<u64> = done.drain(..).map(|it| it.tag).collect();
    tags.sort_unstable();
    assert_eq!((tags, pool.in_use()), (vec![10, 11, 12, 13], 0));
}
