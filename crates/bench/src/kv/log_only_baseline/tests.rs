use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::ScopedJoinHandle;

use namiki_platform::disk::{Disk, FileLayer, PendingWrite, SyncedDisk};

use super::*;
use crate::kv::planted_faults::run_small;
use crate::kv::workload::KvWorkload;
use crate::txn::workload::tag;

const VALUE_BYTES: u16 = 20;

fn value(thread: usize, number: u64) -> Payload {
    Payload {
        tag: tag(thread, number),
        bytes: VALUE_BYTES,
    }
}

fn file(dir: &Path, bytes: u64) -> Arc<dyn DiskFile> {
    SyncedDisk::new().create(&dir.join(FILE), bytes).unwrap()
}

fn floor(file: Arc<dyn DiskFile>) -> Floor {
    Floor::on(file, String::new(), VALUE_BYTES).unwrap()
}

/// A file that blocks its first write until it is released.
#[derive(Debug)]
struct Gate {
    file: Arc<dyn DiskFile>,
    open: Mutex<Receiver<()>>,
    begun: AtomicBool,
    fails: bool,
}

impl FileLayer for Gate {
    fn inner(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.begun.swap(true, Ordering::SeqCst) {
            self.open.lock().unwrap().recv().unwrap();
            if self.fails {
                return Err(io::ErrorKind::Other.into());
            }
        }
        self.file.write_durable(offset, bytes)
    }

    /// Only synchronous writes can be blocked.
    fn begin_write(
        &self,
        _: u64,
        buf: AlignedBuf,
        _: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        Err(buf)
    }
}

/// One thread leads, and three follow during its write. Returns their results, and the log.
fn leader_and_followers(fails: bool) -> (Vec<Result<Committed, BenchError>>, Floor) {
    let dir = tempfile::tempdir().unwrap();
    let (word, open) = channel();
    let gate = Arc::new(Gate {
        file: file(dir.path(), 1 << 20),
        open: Mutex::new(open),
        begun: AtomicBool::new(false),
        fails,
    });
    let floor = floor(gate.clone());
    let commit = |thread: usize| {
        let mut handle = floor.handle().unwrap();
        handle.update(&[thread as u64], value(thread, 0))
    };
    let ended = std::thread::scope(|scope| {
        let leader = scope.spawn(|| commit(0));
        while !gate.begun.load(Ordering::SeqCst) && !leader.is_finished() {
            std::thread::yield_now();
        }
        let followers: Vec<_> = (1..4)
            .map(|thread| scope.spawn(move || commit(thread)))
            .collect();
        let group = HEADER_BYTES + 3 * (KEY_BYTES + usize::from(VALUE_BYTES));
        // Ends also if the followers do not wait, which is the property under test.
        while floor.log().open.len() < group && !followers.iter().any(ScopedJoinHandle::is_finished)
        {
            std::thread::yield_now();
        }
        let waited = !followers.iter().any(ScopedJoinHandle::is_finished);
        let durable = floor.log().durable;
        // The leader is released before the assertions, so that it can end.
        word.send(()).unwrap();
        assert!(
            waited,
            "a follower was acknowledged before its group was written"
        );
        assert_eq!(durable, 0, "no write has ended");
        let threads = [leader].into_iter().chain(followers);
        threads.map(|thread| thread.join().unwrap()).collect()
    });
    (ended, floor)
}

#[test]
fn commits_during_a_write_share_the_next() {
    let (ended, floor) = leader_and_followers(false);
    for ended in ended {
        assert_eq!(ended.unwrap(), Committed::AT_ONCE);
    }
    assert_eq!(floor.log().durable, 2);
    let found = floor.contents(5).unwrap();
    let written: Vec<_> = (0..4).map(|thread| Some(value(thread, 0))).collect();
    assert_eq!(found[..4], written);
    assert_eq!(found[4].unwrap().tag, 4);
}

#[test]
fn nothing_is_acknowledged_after_a_failed_write() {
    let (ended, _) = leader_and_followers(true);
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
}

#[test]
fn many_threads_leave_their_last_writes_and_a_usable_log() {
    const COMMITS: u64 = 50;
    let dir = tempfile::tempdir().unwrap();
    let file = file(dir.path(), 1 << 20);
    let first = floor(file.clone());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let mut handle = first.handle().unwrap();
            scope.spawn(move || {
                for number in 0..COMMITS {
                    let keys = [thread as u64, 8 + number % 3];
                    let ended = handle.update(&keys, value(thread, number)).unwrap();
                    assert_eq!(ended, Committed::AT_ONCE);
                }
            });
        }
    });
    let found = first.contents(11).unwrap();
    let written: Vec<_> = (0..8)
        .map(|thread| Some(value(thread, COMMITS - 1)))
        .collect();
    assert_eq!(found[..8], written);
    let groups = first.log().durable;
    assert!((1..=8 * COMMITS).contains(&groups));
    let again = floor(file);
    assert_eq!(again.contents(11).unwrap(), found);
    again.handle().unwrap().update(&[3], value(9, 1)).unwrap();
    assert_eq!(again.log().durable, groups + 1);
    assert_eq!(again.contents(11).unwrap()[3], Some(value(9, 1)));
}

/// Number of one-block groups in a half of such a file.
const BLOCKS: u64 = 10;

fn small_file(dir: &Path) -> Arc<dyn DiskFile> {
    // A block is not longer than this.
    let file = file(dir, 2 * BLOCKS * 4096);
    let block = file.block_bytes() as u64;
    let path = dir.join("small");
    SyncedDisk::new().create(&path, 2 * BLOCKS * block).unwrap()
}

#[test]
fn a_full_log_is_written_over_from_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let file = small_file(dir.path());
    let first = floor(file.clone());
    for number in 0..7 * BLOCKS {
        let mut handle = first.handle().unwrap();
        handle.update(&[number], value(0, number)).unwrap();
        let found = first.contents(7 * BLOCKS).unwrap();
        // The newest half, full or not, and the previous one.
        let begun = number / BLOCKS * BLOCKS;
        let forgotten = begun.saturating_sub(BLOCKS);
        for key in 0..7 * BLOCKS {
            let due = match key {
                _ if key < forgotten => None,
                _ if key <= number => Some(value(0, key)),
                _ if forgotten > 0 => None,
                tag => Some(Payload {
                    tag,
                    bytes: VALUE_BYTES,
                }),
            };
            assert_eq!(found[key as usize], due, "{key} after {number}");
        }
        let again = floor(file.clone());
        let (log, before) = (again.log(), first.log());
        assert_eq!((log.durable, log.end), (before.durable, before.end));
    }
}

#[test]
fn a_run_over_an_overwritten_log_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = small_file(dir.path());
    for workload in [KvWorkload::U1, KvWorkload::U10] {
        let open = |_: &Setting<'_>| -> Result<Box<dyn Store>, BenchError> {
            Ok(Box::new(floor(file.clone())))
        };
        assert_eq!(run_small(workload, &open).unwrap(), 2000);
    }
}

#[test]
fn what_no_half_has_room_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let floor = floor(small_file(dir.path()));
    let mut handle = floor.handle().unwrap();
    let error = handle.update(&[3; 10_000], value(0, 1)).unwrap_err();
    assert!(matches!(error, BenchError::Usage(_)), "{error}");
    handle.update(&[3], value(0, 2)).unwrap();
    assert_eq!(floor.contents(4).unwrap()[3], Some(value(0, 2)));
}

/// The group is longer than one read.
#[test]
fn long_groups_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let floor = floor(file(dir.path(), 8 << 20));
    let keys: Vec<u64> = (0..50_000).collect();
    let mut handle = floor.handle().unwrap();
    for number in 0..2 {
        handle.update(&keys, value(0, number)).unwrap();
    }
    let found = floor.contents(50_000).unwrap();
    assert!(found.iter().all(|found| *found == Some(value(0, 1))));
}

/// In the newest half, also at its start, and in the previous one.
#[test]
fn a_group_that_was_damaged_is_missed() {
    for number in [1, BLOCKS, BLOCKS + 1, BLOCKS + 3] {
        let dir = tempfile::tempdir().unwrap();
        let file = small_file(dir.path());
        let floor = floor(file.clone());
        let mut handle = floor.handle().unwrap();
        for number in 0..BLOCKS + 5 {
            handle.update(&[0], value(0, number)).unwrap();
        }
        assert_eq!(floor.contents(1).unwrap(), [Some(value(0, BLOCKS + 4))]);
        let block = file.block_bytes();
        let offset = (number - 1) * block as u64;
        let mut bytes = AlignedBuf::zeroed(block);
        file.read_at(offset, &mut bytes).unwrap();
        bytes[HEADER_BYTES + KEY_BYTES] ^= 1;
        file.write_durable(offset, &bytes).unwrap();
        let error = floor.contents(1).unwrap_err();
        assert!(matches!(error, BenchError::Check(_)), "{number}: {error}");
    }
}
