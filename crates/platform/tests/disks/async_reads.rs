//! The contract of asynchronous reads, tested on every queue.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::disk::{
    AlignedBuf, BlockingThreads, Completion, DelayedDisk, DirectDisk, Disk, DiskFile, Frame,
    FramePool, Frames, PAGE_BYTES, ReadQueue, SimDisk, SlowDisk, SyncedDisk, WriteMode, guarded,
    open_best,
};
use namiki_platform::seeded_random::Random;

const PAGES: u64 = 64;

/// A queue and its files.
struct Ground {
    name: &'static str,
    disk: Arc<dyn Disk>,
    pool: Arc<FramePool>,
    /// Makes a queue of this depth.
    reads: Box<dyn Fn(usize) -> Box<dyn ReadQueue>>,
    dir: tempfile::TempDir,
}

impl Ground {
    /// A file of this length, each page of which is full of its own number from 1 on.
    fn file(&self, name: &str, len_bytes: u64) -> Arc<dyn DiskFile> {
        let path = self.dir.path().join(name);
        let file = self.disk.create(&path, len_bytes).unwrap();
        for page in 0..len_bytes.div_ceil(PAGE_BYTES as u64) {
            let at = page * PAGE_BYTES as u64;
            let len = (len_bytes - at).min(PAGE_BYTES as u64) as usize;
            let mut bytes = AlignedBuf::zeroed(len);
            bytes.fill(page as u8 + 1);
            file.write_durable(at, &bytes).unwrap();
        }
        drop(file);
        self.disk.open(&path).unwrap()
    }

    fn frames(&self, count: usize) -> Frames {
        (0..count).map(|_| self.pool.take().unwrap()).collect()
    }
}

/// Runs `claim` on every kind of queue that keeps written bytes, and asserts that no frame is lost.
fn on_every_queue(claim: impl Fn(&Ground)) {
    let direct = || Arc::new(DirectDisk::new());
    let synced = || Arc::new(SyncedDisk::new());
    let simulated = || Arc::new(SimDisk::new());
    let delayed = || Arc::new(DelayedDisk::new(Duration::ZERO));
    let slowed = |disk| Arc::new(SlowDisk::new(disk, "5x20us".parse().unwrap()));
    let kinds: [(&str, Arc<dyn Disk>, bool); 9] = [
        ("direct", direct(), false),
        ("direct by threads", direct(), true),
        ("synced", synced(), false),
        ("synced by threads", synced(), true),
        ("simulated", simulated(), false),
        ("simulated by threads", simulated(), true),
        ("delayed", delayed(), false),
        ("slow", slowed(synced()), false),
        ("simulated and slow", slowed(simulated()), false),
    ];
    for (name, disk, by_threads) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let has_direct = open_best(dir.path()).unwrap().1 == WriteMode::Direct;
        if name.starts_with("direct") && !has_direct {
            continue;
        }
        disk.create_dir_all(dir.path()).unwrap();
        let pool = FramePool::new(256).unwrap();
        let reads: Box<dyn Fn(usize) -> Box<dyn ReadQueue>> = if by_threads {
            Box::new(|depth| Box::new(BlockingThreads::new(depth, "a test")))
        } else {
            let (disk, pool) = (Arc::clone(&disk), Arc::clone(&pool));
            Box::new(move |depth| disk.reads(depth, &pool).unwrap())
        };
        let ground = Ground {
            name,
            disk,
            pool,
            reads,
            dir,
        };
        assert!(!(ground.reads)(1).describe().is_empty());
        claim(&ground);
        assert_eq!(ground.pool.in_use(), 0, "{name}: frames are lost");
    }
}

/// Waits for everything in flight; completions in the order of their tags.
fn finish(queue: &mut dyn ReadQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    let all = queue.in_flight();
    queue.turn(all, &mut done).unwrap();
    assert_eq!((done.len(), queue.in_flight()), (all, 0));
    done.sort_by_key(|completion| completion.tag);
    done
}

fn expect_page(frame: &Frame, page: u64, context: &str) {
    assert!(
        frame.iter().all(|byte| *byte == page as u8 + 1),
        "{context}: page {page} has byte {}",
        frame[0]
    );
}

#[test]
fn random_reads_return_the_bytes_of_their_pages() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let seed = 7;
        let mut random = Random::seeded(seed);
        let mut queue = (ground.reads)(16);
        let mut expected = std::collections::BTreeMap::new();
        let mut done = Vec::new();
        let (mut tag, mut seen) = (0, 0);
        while seen < 500 {
            while tag < 500 && queue.in_flight() < 16 {
                let count = 1 + random.index(4);
                let page = random.below(PAGES - count as u64 + 1);
                let at = page * PAGE_BYTES as u64;
                queue.push(&file, at, ground.frames(count), tag).unwrap();
                expected.insert(tag, (page, count));
                tag += 1;
            }
            queue.turn(random.index(17), &mut done).unwrap();
            for completion in done.drain(..) {
                let (page, count) = expected.remove(&completion.tag).unwrap();
                assert_eq!(completion.result.unwrap(), count * PAGE_BYTES);
                assert_eq!(completion.frames.len(), count);
                for (at, frame) in (page..).zip(completion.frames.iter()) {
                    expect_page(frame, at, &format!("{}, seed {seed}", ground.name));
                }
                seen += 1;
            }
        }
        assert!(expected.is_empty());
    });
}

#[test]
fn a_turn_waits_for_as_many_as_asked() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let mut queue = (ground.reads)(8);
        let mut done = Vec::new();
        queue.turn(5, &mut done).unwrap();
        assert!(done.is_empty());
        for page in 0..6 {
            let at = page * PAGE_BYTES as u64;
            queue.push(&file, at, ground.frames(1), page).unwrap();
        }
        assert_eq!(queue.in_flight(), 6);
        queue.turn(2, &mut done).unwrap();
        assert!(done.len() >= 2, "{}", ground.name);
        assert_eq!(queue.in_flight() + done.len(), 6);
        queue.turn(100, &mut done).unwrap();
        assert_eq!((done.len(), queue.in_flight()), (6, 0));
    });
}

#[test]
fn polls_that_do_not_wait_meet_every_completion() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let mut queue = (ground.reads)(8);
        for page in 0..8 {
            let at = page * PAGE_BYTES as u64;
            queue.push(&file, at, ground.frames(1), page).unwrap();
        }
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.turn(0, &mut done).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(done.len(), 8);
    });
}

#[test]
fn a_full_queue_gives_the_frames_back() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let mut queue = (ground.reads)(3);
        for tag in 0..3 {
            queue.push(&file, 0, ground.frames(2), tag).unwrap();
        }
        let frames = ground.frames(2);
        let numbers: Vec<u32> = frames.iter().map(Frame::number).collect();
        let back = queue.push(&file, 0, frames, 3).unwrap_err();
        assert_eq!(back.iter().map(Frame::number).collect::<Vec<_>>(), numbers);
        assert_eq!(queue.in_flight(), 3);
        drop(back);
        assert_eq!(ground.pool.in_use(), 6);
        assert_eq!(finish(&mut *queue).len(), 3);
        queue.push(&file, 0, ground.frames(1), 4).unwrap();
        assert_eq!(finish(&mut *queue)[0].tag, 4);
    });
}

#[test]
fn a_read_over_the_end_of_a_file_is_short() {
    on_every_queue(|ground| {
        let (page, block) = (PAGE_BYTES as u64, 512);
        let file = ground.file("a", 2 * page + block);
        if file.block_bytes() as u64 != block {
            return;
        }
        let mut queue = (ground.reads)(8);
        queue.push(&file, page, ground.frames(1), 0).unwrap();
        queue.push(&file, 2 * page, ground.frames(1), 1).unwrap();
        queue.push(&file, 3 * page, ground.frames(1), 2).unwrap();
        queue.push(&file, 0, ground.frames(4), 3).unwrap();
        queue.push(&file, 2 * page, ground.frames(2), 4).unwrap();
        queue.push(&file, 100 * page, ground.frames(3), 5).unwrap();
        let done = finish(&mut *queue);
        let read: Vec<usize> = done.iter().map(|it| *it.result.as_ref().unwrap()).collect();
        assert_eq!(read, [4096, 512, 0, 8704, 512, 0], "{}", ground.name);
        expect_page(&done[0].frames[0], 1, ground.name);
        assert!(done[1].frames[0][..512].iter().all(|byte| *byte == 3));
        expect_page(&done[3].frames[1], 1, ground.name);
    });
}

#[test]
fn a_file_that_was_truncated_behind_its_back_is_short() {
    on_every_queue(|ground| {
        if ground.name.starts_with("simulated") {
            return;
        }
        let page = PAGE_BYTES as u64;
        let file = ground.file("a", 8 * page);
        let real = std::fs::OpenOptions::new()
            .write(true)
            .open(ground.dir.path().join("a"))
            .unwrap();
        real.set_len(3 * page).unwrap();
        let mut queue = (ground.reads)(8);
        queue.push(&file, 2 * page, ground.frames(1), 0).unwrap();
        queue.push(&file, 3 * page, ground.frames(1), 1).unwrap();
        queue.push(&file, page, ground.frames(5), 2).unwrap();
        let done = finish(&mut *queue);
        let read: Vec<usize> = done.iter().map(|it| *it.result.as_ref().unwrap()).collect();
        assert_eq!(read, [4096, 0, 8192], "{}", ground.name);
    });
}

#[test]
fn requests_that_no_queue_takes_fail_alone() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let mut queue = (ground.reads)(8);
        queue.push(&file, 1, ground.frames(1), 0).unwrap();
        queue.push(&file, 0, ground.frames(1), 1).unwrap();
        let beyond = u64::MAX - 4095;
        queue.push(&file, beyond, ground.frames(2), 2).unwrap();
        let done = finish(&mut *queue);
        for tag in [0, 2] {
            let error = done[tag].result.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", ground.name);
        }
        assert_eq!(*done[1].result.as_ref().unwrap(), PAGE_BYTES);
    });
}

/// A file that the system does not let anyone read.
#[derive(Debug)]
struct WriteOnly(std::fs::File);

impl DiskFile for WriteOnly {
    fn write_durable(&self, _: u64, _: &[u8]) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn len_bytes(&self) -> u64 {
        1 << 20
    }

    fn block_bytes(&self) -> usize {
        512
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

#[test]
fn errors_of_the_system_are_in_the_completions() {
    on_every_queue(|ground| {
        let sound = ground.file("a", PAGES * PAGE_BYTES as u64);
        let path = ground.dir.path().join("write only");
        let refused: Arc<dyn DiskFile> = Arc::new(WriteOnly(std::fs::File::create(path).unwrap()));
        let mut queue = (ground.reads)(9);
        for tag in 0..9 {
            let file = if tag % 3 == 0 { &sound } else { &refused };
            queue.push(file, 0, ground.frames(2), tag).unwrap();
        }
        for completion in finish(&mut *queue) {
            assert_eq!(completion.frames.len(), 2);
            if completion.tag % 3 == 0 {
                assert_eq!(completion.result.unwrap(), 2 * PAGE_BYTES);
            } else {
                let error = completion.result.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(9), "{}: {error}", ground.name);
            }
        }
    });
}

#[test]
fn a_queue_dropped_with_reads_in_flight_loses_no_frame() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        for turn in [None, Some(0), Some(1)] {
            let mut queue = (ground.reads)(32);
            for tag in 0..32 {
                let at = (tag % 60) * PAGE_BYTES as u64;
                queue.push(&file, at, ground.frames(3), tag).unwrap();
            }
            let mut done = Vec::new();
            if let Some(at_least) = turn {
                queue.turn(at_least, &mut done).unwrap();
            }
            // More reads that were not submitted.
            while queue.push(&file, 0, ground.frames(1), 99).is_ok() {}
            drop(queue);
            drop(done);
            assert_eq!(ground.pool.in_use(), 0, "{}", ground.name);
        }
    });
}

#[test]
fn a_file_may_be_removed_while_it_is_read() {
    on_every_queue(|ground| {
        let mut queue = (ground.reads)(4);
        let file = ground.file("a", 4 * PAGE_BYTES as u64);
        for page in 0..4 {
            let at = page * PAGE_BYTES as u64;
            queue.push(&file, at, ground.frames(1), page).unwrap();
        }
        ground.disk.remove(&ground.dir.path().join("a")).unwrap();
        drop(file);
        for (page, completion) in (0..).zip(finish(&mut *queue)) {
            completion.result.unwrap();
            expect_page(&completion.frames[0], page, ground.name);
        }
    });
}

#[test]
fn frames_of_another_pool_are_read_into_as_well() {
    on_every_queue(|ground| {
        let file = ground.file("a", 8 * PAGE_BYTES as u64);
        let other = FramePool::new(4).unwrap();
        let mut queue = (ground.reads)(4);
        let taken = |count| -> Frames { (0..count).map(|_| other.take().unwrap()).collect() };
        queue.push(&file, 4096, taken(1), 0).unwrap();
        let mixed: Frames = taken(2).into_iter().chain(ground.frames(1)).collect();
        queue.push(&file, 8192, mixed, 1).unwrap();
        let done = finish(&mut *queue);
        expect_page(&done[0].frames[0], 1, ground.name);
        for (page, frame) in (2..).zip(done[1].frames.iter()) {
            expect_page(frame, page, ground.name);
        }
        drop(done);
        assert_eq!(other.in_use(), 0);
    });
}

#[test]
fn a_queue_may_change_threads_while_nothing_is_in_flight() {
    on_every_queue(|ground| {
        let file = ground.file("a", 8 * PAGE_BYTES as u64);
        let mut queue = (ground.reads)(4);
        for round in 0..4 {
            let frames = ground.frames(1);
            let file = &file;
            let name = ground.name;
            queue = std::thread::scope(|scope| {
                let run = scope.spawn(move || {
                    queue.push(file, 4096, frames, round).unwrap();
                    let done = finish(&mut *queue);
                    expect_page(&done[0].frames[0], 1, name);
                    queue
                });
                run.join().unwrap()
            });
        }
    });
}

/// The kernel reports to the thread that submitted, and to no other: frames are lost rather than
/// given to another owner while the device may write to them.
#[test]
fn a_drop_by_another_thread_gives_no_frame_away() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = open_best(dir.path()).unwrap();
    let file = disk.create(&dir.path().join("a"), 1 << 20).unwrap();
    let pool = FramePool::new(64).unwrap();
    let mut queue = disk.reads(32, &pool).unwrap();
    for tag in 0..32 {
        queue
            .push(&file, tag * 4096, pool.take().unwrap().into(), tag)
            .unwrap();
    }
    let (queue, done) = std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            let mut done = Vec::new();
            queue.turn(1, &mut done).unwrap();
            (queue, done)
        });
        run.join().unwrap()
    });
    let unseen = queue.in_flight();
    assert_eq!(unseen + done.len(), 32);
    drop(done);
    drop(queue);
    assert!(pool.in_use() <= unseen);
    while let Some(frame) = pool.take() {
        std::mem::forget(frame);
    }
    assert_eq!(pool.in_use(), 64);
}

#[test]
fn queues_of_several_threads_share_a_file_and_a_pool() {
    on_every_queue(|ground| {
        let file = ground.file("a", PAGES * PAGE_BYTES as u64);
        let queues: Vec<_> = (0..3).map(|_| (ground.reads)(8)).collect();
        std::thread::scope(|scope| {
            for (thread, mut queue) in (0_u64..).zip(queues) {
                let (pool, file, name) = (&ground.pool, &file, ground.name);
                scope.spawn(move || {
                    let mut random = Random::stream(3, thread);
                    for _ in 0..40 {
                        while queue.in_flight() < 8 {
                            let page = random.below(PAGES);
                            let frame = pool.take().unwrap();
                            queue.push(file, page * 4096, frame.into(), page).unwrap();
                        }
                        let mut done = Vec::new();
                        queue.turn(1, &mut done).unwrap();
                        for completion in done {
                            expect_page(&completion.frames[0], completion.tag, name);
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn a_guarded_disk_reads_and_appends_as_the_disk_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mode) = open_best(dir.path()).unwrap();
    let lock = disk.lock_dir(dir.path()).unwrap();
    let guarded = guarded(Arc::clone(&disk), &lock);
    let pool = FramePool::new(4).unwrap();
    let own = disk.reads(4, &pool).unwrap().describe().to_owned();
    assert_eq!(guarded.reads(4, &pool).unwrap().describe(), own, "{mode}");
    let path: &Path = &dir.path().join("a");
    let mut appender = guarded.append(path).unwrap();
    appender.append(&[1; 5000]).unwrap();
    assert_eq!(appender.finish().unwrap(), 5000);
    assert_eq!(disk.read(path).unwrap(), [1; 5000]);
}
