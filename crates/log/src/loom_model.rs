//! The protocols of the log under a model checker: every interleaving of a few threads, and every
//! value that the memory model lets a load see, up to a bound on preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki-log --lib --release model
//! ```

use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use loom::thread;
use namiki_platform::disk::{AlignedBuf, DirLock, Disk, DiskFile, FileEntry, PendingWrite};
use namiki_platform::model_checker::{AtomicBool, AtomicU64, explore};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader, peek, record};
use crate::horizon::async_waiters::AckWaiters;
use crate::horizon::lsn_horizon::{Horizon, IDLE};
use crate::shared_state::Notifier;
use crate::{
    Entry, Group, Layout, Log, LogConfig, LogError, Placement, Prepare, SequencerKind, Ticket,
};

/// Keeps the LSNs that are durable, and the frames' headers.
pub(crate) struct ModelDisk {
    durable: Arc<StdMutex<Vec<u64>>>,
    frames: Arc<StdMutex<Vec<FrameHeader>>>,
    steps: Arc<AtomicU64>,
    fails: bool,
}

impl std::fmt::Debug for ModelDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModelDisk")
    }
}

impl ModelDisk {
    pub(crate) fn new(fails: bool) -> Self {
        Self {
            durable: Arc::default(),
            frames: Arc::default(),
            steps: Arc::new(AtomicU64::new(0)),
            fails,
        }
    }

    fn file(&self) -> Arc<dyn DiskFile> {
        Arc::new(Self {
            durable: Arc::clone(&self.durable),
            frames: Arc::clone(&self.frames),
            steps: Arc::clone(&self.steps),
            fails: self.fails,
        })
    }

    /// The headers of the durable frames.
    pub(crate) fn frames(&self) -> Vec<FrameHeader> {
        self.steps.load(Ordering::Relaxed);
        self.frames.lock().unwrap().clone()
    }

    pub(crate) fn holds(&self, lsn: u64) -> bool {
        self.steps.load(Ordering::Relaxed);
        self.durable.lock().unwrap().contains(&lsn)
    }
}

impl DiskFile for ModelDisk {
    fn write_durable(&self, _offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(header) = peek(bytes) else {
            return Ok(());
        };
        // The checker has to know that a write and a look conflict, or it leaves out orders.
        self.steps.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(io::ErrorKind::Other.into());
        }
        self.frames.lock().unwrap().push(header);
        let mut rest = &bytes[FRAME_HEADER_BYTES..header.length as usize];
        while let Some((record, bytes)) = record(rest) {
            self.durable.lock().unwrap().push(record.lsn.0);
            rest = &rest[bytes..];
        }
        Ok(())
    }

    fn begin_write(
        &self,
        _offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        let file = self.file();
        Ok(Box::new(ModelWrite {
            file,
            buf,
            len,
            is_complete: false,
        }))
    }

    fn read_at(&self, _offset: u64, _into: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn len_bytes(&self) -> u64 {
        8192
    }

    fn block_bytes(&self) -> usize {
        512
    }
}

/// A write that reaches the disk at the last moment.
struct ModelWrite {
    file: Arc<dyn DiskFile>,
    buf: AlignedBuf,
    len: usize,
    is_complete: bool,
}

impl PendingWrite for ModelWrite {
    /// False at the first poll.
    fn is_complete(&mut self) -> bool {
        std::mem::replace(&mut self.is_complete, true)
    }

    fn wait(self: Box<Self>) -> (AlignedBuf, io::Result<()>) {
        let written = self.file.write_durable(0, &self.buf[..self.len]);
        (self.buf, written)
    }
}

impl Disk for ModelDisk {
    fn open(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file())
    }
    fn create(&self, _path: &Path, _len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file())
    }
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn replace(&self, _path: &Path, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn list(&self, _dir: &Path) -> io::Result<Vec<FileEntry>> {
        Ok(Vec::new())
    }
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    fn lock_dir(&self, _dir: &Path) -> io::Result<DirLock> {
        Ok(DirLock::new(()))
    }
}

pub(crate) struct World {
    pub(crate) disk: Arc<ModelDisk>,
    pub(crate) log: Arc<Log<()>>,
}

impl World {
    fn new(streams: u16, layout: Layout, fails: bool) -> Arc<Self> {
        Self::with_group(streams, layout, Group::Auto, fails)
    }

    fn with_group(streams: u16, layout: Layout, group: Group, fails: bool) -> Arc<Self> {
        let config = LogConfig {
            layout,
            streams: NonZeroU16::new(streams).unwrap(),
            group,
            ..Self::config()
        };
        Self::with(config, fails)
    }

    pub(crate) fn config() -> LogConfig {
        LogConfig {
            group_wait_max: Duration::MAX,
            async_flush_min_commits: Some(NonZeroU32::MIN),
            sequencer: SequencerKind::FetchAdd,
            buffer_bytes: 4096,
            placement: Placement::Files {
                log_file_bytes: 8192,
            },
            prepare: Prepare::Inline,
            ..LogConfig::new(7, Generation(1))
        }
    }

    pub(crate) fn with(config: LogConfig, fails: bool) -> Arc<Self> {
        let disk = Arc::new(ModelDisk::new(fails));
        let log = Log::create(disk.clone(), &PathBuf::from("/wal"), config).unwrap();
        Arc::new(Self { disk, log })
    }

    pub(crate) fn append(&self, worker: u16, bytes: usize) -> Result<Ticket, LogError> {
        let stream = self.log.stream(WorkerId(worker));
        let appended =
            stream.append(Entry::Commit, Stamp(1), Epoch(1), bytes, |_, _| {}, |()| {})?;
        Ok(appended.ticket)
    }

    fn check_horizon(&self) {
        let horizon = self.log.horizon();
        self.disk.steps.load(Ordering::Relaxed);
        for lsn in 1..horizon.0 {
            assert!(self.disk.holds(lsn), "{horizon}, but {lsn} is not durable");
        }
    }
}

/// The marks alone, with streams reduced to a lock and a list of what is durable.
#[test]
fn no_lsn_below_the_horizon_is_unhardened() {
    for kind in [SequencerKind::FetchAdd, SequencerKind::CompareAndSwap] {
        explore(2, move || {
            let horizon = Arc::new(Horizon::new(kind, Lsn(1), 2));
            let durable = Arc::new([1, 2].map(|_| AtomicBool::new(false)));
            let writers = [0, 1].map(|stream| {
                let (horizon, durable) = (Arc::clone(&horizon), Arc::clone(&durable));
                thread::spawn(move || {
                    // One thread per stream, so its lock is left out.
                    let lsn = horizon.draw(stream, &mut 0);
                    durable[lsn.0 as usize - 1].store(true, Ordering::Relaxed);
                    horizon.hardened_below(stream, IDLE);
                })
            });
            for _ in 0..2 {
                let below = horizon.scan();
                for lsn in 1..below.0 {
                    // What the scan acquired makes this visible.
                    assert!(durable[lsn as usize - 1].load(Ordering::Relaxed), "{below}");
                }
            }
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(horizon.scan(), Lsn(3));
        });
    }
}

#[test]
fn every_lsn_below_a_logs_horizon_is_hardened() {
    explore(3, move || {
        let world = World::new(2, Layout::PerWorker, false);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.append(0, 8).unwrap();
                world.log.stream(WorkerId(0)).flush().unwrap();
                world.append(1, 8).unwrap();
            })
        };
        world.check_horizon();
        writer.join().unwrap();
        assert_eq!(world.log.horizon(), Lsn(2));
        world.check_horizon();
    });
}

#[test]
fn the_horizon_jumps_no_commit_appended_during_a_flush() {
    explore(2, || {
        let world = World::new(2, Layout::PerWorker, false);
        world.append(0, 8).unwrap();
        let flusher = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.stream(WorkerId(0)).flush().unwrap())
        };
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.append(0, 8).unwrap();
                world.append(1, 8).unwrap();
            })
        };
        world.check_horizon();
        flusher.join().unwrap();
        writer.join().unwrap();
        world.check_horizon();
        assert!(world.log.horizon() < Lsn(4));
    });
}

#[test]
fn every_waiter_of_a_shared_stream_is_woken() {
    for layout in [Layout::PerWorker, Layout::Single] {
        explore(2, move || {
            let world = World::new(1, layout, false);
            let others = [0, 1].map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || wait_for_own(&world))
            });
            wait_for_own(&world);
            for other in others {
                other.join().unwrap();
            }
        });
    }
}

fn wait_for_own(world: &World) {
    let ticket = world.append(0, 8).unwrap();
    world.log.stream(WorkerId(0)).wait_hardened(ticket).unwrap();
    assert!(world.disk.holds(ticket.lsn.0));
}

#[test]
fn a_full_group_of_a_single_log_is_hardened() {
    explore(3, || {
        let group = Group::Count(NonZeroU32::new(2).unwrap());
        let world = World::with_group(1, Layout::Single, group, false);
        let others = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || append_to_groups_of_two(&world))
        });
        append_to_groups_of_two(&world);
        for other in others {
            other.join().unwrap();
        }
        append_to_groups_of_two(&world);
        assert_eq!(world.log.counters().flushes, 2);
        assert_eq!(world.log.horizon(), Lsn(5));
        world.check_horizon();
    });
}

fn append_to_groups_of_two(world: &World) {
    let ticket = world.append(0, 8).unwrap();
    if ticket.number.is_multiple_of(2) {
        assert!(world.log.stream(WorkerId(0)).is_hardened(ticket));
        assert!(world.disk.holds(ticket.lsn.0 - 1) && world.disk.holds(ticket.lsn.0));
    }
}

#[test]
fn every_waiter_of_an_asynchronous_flush_is_woken() {
    explore(2, || {
        let group = Group::Count(NonZeroU32::new(2).unwrap());
        let world = World::with_group(1, Layout::PerWorker, group, false);
        let others = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || submit_and_wait(&world))
        });
        submit_and_wait(&world);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(world.log.horizon(), Lsn(4));
        world.check_horizon();
    });
}

fn submit_and_wait(world: &World) {
    let stream = world.log.stream(WorkerId(0));
    let appended = stream
        .append(Entry::Commit, Stamp(1), Epoch(1), 8, |_, _| {}, |()| {})
        .unwrap();
    if appended.group_is_full {
        stream.begin_flush(appended.ticket).unwrap();
    }
    stream.wait_hardened(appended.ticket).unwrap();
    assert!(world.disk.holds(appended.ticket.lsn.0));
}

#[test]
fn every_waiter_for_a_full_group_is_woken() {
    // Time does not advance, so a waiter for a deadline sleeps for ever.
    for threads in [1, 2] {
        explore(if threads == 1 { 4 } else { 2 }, move || {
            let config = LogConfig {
                group: Group::Count(NonZeroU32::new(threads + 1).unwrap()),
                group_wait_max: Duration::from_secs(3600),
                async_flush_min_commits: Some(NonZeroU32::MAX),
                ..World::config()
            };
            let world = World::with(config, false);
            let others = (0..threads).map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || submit_and_wait(&world))
            });
            let others: Vec<_> = others.collect();
            submit_and_wait(&world);
            for other in others {
                other.join().unwrap();
            }
            world.check_horizon();
        });
    }
}

#[test]
fn an_immediate_flush_does_not_wait_for_a_group() {
    explore(3, || {
        let config = LogConfig {
            group: Group::Count(NonZeroU32::new(9).unwrap()),
            group_wait_max: Duration::from_secs(3600),
            ..World::config()
        };
        let world = World::with(config, false);
        world.append(0, 8).unwrap();
        let first = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.stream(WorkerId(0)).flush().unwrap())
        };
        let ticket = world.append(0, 8).unwrap();
        // Parks behind that flush if it does not carry its commit, is woken first, and waits for
        // its group.
        let patient = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let stream = world.log.stream(WorkerId(0));
                stream.wait_hardened(ticket).unwrap();
                assert!(world.disk.holds(ticket.lsn.0));
            })
        };
        let last = world.append(0, 8).unwrap();
        world.log.stream(WorkerId(0)).flush().unwrap();
        assert!(world.disk.holds(ticket.lsn.0) && world.disk.holds(last.lsn.0));
        first.join().unwrap();
        patient.join().unwrap();
        world.check_horizon();
    });
}

#[test]
fn an_unattended_flush_wakes_its_waiters() {
    explore(3, || {
        let world = World::new(1, Layout::PerWorker, false);
        let ticket = world.append(0, 8).unwrap();
        let submitter = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.stream(WorkerId(0)).begin_flush(ticket).unwrap())
        };
        world.log.stream(WorkerId(0)).wait_hardened(ticket).unwrap();
        assert!(world.disk.holds(ticket.lsn.0));
        submitter.join().unwrap();
    });
    // And the waiters for the one behind it.
    explore(3, || {
        let world = World::new(1, Layout::PerWorker, false);
        let ticket = world.append(0, 8).unwrap();
        let submitter = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.stream(WorkerId(0)).begin_flush(ticket).unwrap())
        };
        wait_for_own(&world);
        submitter.join().unwrap();
    });
}

#[test]
fn an_asynchronous_flush_is_completed_once() {
    explore(2, || {
        let world = World::new(1, Layout::PerWorker, false);
        let first = world.append(0, 8).unwrap();
        world.log.stream(WorkerId(0)).begin_flush(first).unwrap();
        let others = [true, false].map(|polls| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let stream = world.log.stream(WorkerId(0));
                if polls {
                    stream.poll().unwrap();
                } else {
                    stream.flush().unwrap();
                    assert!(stream.is_hardened(first));
                }
                if stream.is_hardened(first) {
                    assert!(world.disk.holds(first.lsn.0));
                }
            })
        });
        // Completes it, too, or finds it completed, and submits another.
        let second = world.append(0, 8).unwrap();
        world.log.stream(WorkerId(0)).begin_flush(second).unwrap();
        world.check_horizon();
        for other in others {
            other.join().unwrap();
        }
        world.log.close().unwrap();
        assert_eq!(world.log.counters().flushes, 2);
        assert_eq!(world.log.horizon(), Lsn(3));
        world.check_horizon();
    });
}

#[test]
fn a_failed_asynchronous_write_wakes_all_with_the_error() {
    explore(3, || {
        let world = World::new(1, Layout::PerWorker, true);
        let others = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let stream = world.log.stream(WorkerId(0));
                if let Ok(ticket) = world.append(0, 8) {
                    // The error of its own write comes later, but may be another's.
                    let _ = stream.begin_flush(ticket);
                    assert!(stream.wait_hardened(ticket).is_err());
                    assert!(!stream.is_hardened(ticket));
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert!(world.log.poisoned().is_some());
        assert!(world.log.close().is_err());
        assert_eq!(world.log.horizon(), Lsn(1));
    });
}

#[test]
fn waiting_for_the_horizon_flushes_the_streams_that_lag() {
    explore(3, || {
        let world = World::new(2, Layout::PerWorker, false);
        let other = {
            let world = Arc::clone(&world);
            // Appends and never flushes.
            thread::spawn(move || world.append(1, 8).unwrap())
        };
        let ticket = world.append(0, 8).unwrap();
        world.log.wait_covered(ticket.lsn).unwrap();
        for lsn in 1..=ticket.lsn.0 {
            assert!(world.disk.holds(lsn));
        }
        other.join().unwrap();
    });
}

#[test]
fn an_append_to_a_full_buffer_waits_for_the_batch() {
    explore(3, || {
        let world = World::new(1, Layout::PerWorker, false);
        world.append(0, 2500).unwrap();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || [(); 2].map(|()| world.append(0, 2500).unwrap()))
        };
        world.append(0, 2500).unwrap();
        other.join().unwrap();
        world.log.flush_all().unwrap();
        assert_eq!(world.log.horizon(), Lsn(5));
        world.check_horizon();
    });
}

#[test]
fn a_failed_write_wakes_all_with_the_error() {
    explore(3, || {
        let world = World::new(1, Layout::PerWorker, true);
        let others = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                if let Ok(ticket) = world.append(0, 8) {
                    let stream = world.log.stream(WorkerId(0));
                    assert!(stream.wait_hardened(ticket).is_err());
                    assert!(!stream.is_hardened(ticket));
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert!(world.log.poisoned().is_some());
        assert_eq!(world.log.horizon(), Lsn(1));
    });
}

#[test]
fn a_sleeping_flusher_is_woken_by_work() {
    explore(3, || {
        let notifier = Arc::new(Notifier::new());
        let work = Arc::new(AtomicBool::new(false));
        let worker = {
            let (notifier, work) = (Arc::clone(&notifier), Arc::clone(&work));
            thread::spawn(move || {
                work.store(true, Ordering::Release);
                notifier.notify();
            })
        };
        let is_there = || work.load(Ordering::Acquire);
        while !is_there() {
            notifier.clear();
            assert!(notifier.sleep(None, true, is_there));
        }
        worker.join().unwrap();
    });
}

/// A task, reduced to what it waits for.
pub(crate) struct Task {
    woken: loom::sync::Mutex<bool>,
    condvar: loom::sync::Condvar,
}

impl Task {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            woken: loom::sync::Mutex::new(false),
            condvar: loom::sync::Condvar::new(),
        })
    }

    /// Sleeps until it is woken.
    pub(crate) fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.condvar.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl std::task::Wake for Task {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.condvar.notify_one();
    }
}

#[test]
fn a_waiting_task_is_woken_by_its_event() {
    explore(3, || {
        let ack_waiters = Arc::new(AckWaiters::new());
        let hardened = Arc::new(AtomicU64::new(0));
        let other = {
            let (ack_waiters, hardened) = (Arc::clone(&ack_waiters), Arc::clone(&hardened));
            thread::spawn(move || {
                for number in 1..=2 {
                    let _wake = ack_waiters.at_the_end();
                    hardened.store(number, Ordering::Release);
                    ack_waiters.announce();
                }
            })
        };
        let task = Task::new();
        let waker = Arc::clone(&task).into();
        let mut key = None;
        loop {
            key = Some(ack_waiters.enter(&waker, key));
            if hardened.load(Ordering::Acquire) == 2 {
                break;
            }
            task.sleep();
        }
        other.join().unwrap();
    });
}
