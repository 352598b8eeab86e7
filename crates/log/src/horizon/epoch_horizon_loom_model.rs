//! Release by epochs under a model checker: see `loom_model.rs`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loom::thread;
use namiki_platform::model_checker::{AtomicU64, explore};
use namiki_platform::sync::fence;
use namiki_platform::{Epoch, Generation, Stamp, WorkerId};

use crate::format::frame::{FrameHeader, epoch_word};
use crate::horizon::async_waiters::AckWaiter;
use crate::horizon::epoch_horizon::EpochHorizon;
use crate::horizon::epoch_source::EpochSource;
use crate::horizon::lsn_horizon::IDLE;
use crate::loom_model::{ModelDisk, Task};
use crate::streams::flush_for_tasks_loom_model::run_task;
use crate::{Entry, Group, Log, LogConfig, Placement, Prepare, Ticket};

const STREAMS: usize = 2;

/// Epochs as the engine gives them out, with a slot for each stream.
#[derive(Debug)]
struct ModelEpochs {
    current: AtomicU64,
    registered: [AtomicU64; STREAMS],
}

impl ModelEpochs {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            current: AtomicU64::new(1),
            registered: [0, 0].map(AtomicU64::new),
        })
    }

    fn register(&self, slot: usize) -> Epoch {
        loop {
            let epoch = self.current.load(Ordering::SeqCst);
            self.registered[slot].store(epoch, Ordering::Release);
            // The checker knows no order of all SeqCst accesses but that of fences.
            fence(Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) == epoch {
                return Epoch(epoch);
            }
        }
    }

    fn deregister(&self, slot: usize) {
        self.registered[slot].store(0, Ordering::Release);
    }
}

impl EpochSource for ModelEpochs {
    fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::SeqCst))
    }

    fn finished(&self) -> Epoch {
        let mut oldest = self.current.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for slot in &self.registered {
            match slot.load(Ordering::Acquire) {
                0 => {}
                epoch => oldest = oldest.min(epoch),
            }
        }
        Epoch(oldest - 1)
    }

    fn close(&self, Epoch(epoch): Epoch) {
        let (old, new) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.current.compare_exchange(epoch, epoch + 1, old, new);
    }
}

/// The same behind a lock, which the checker follows more easily in a whole log with waiters for a
/// finished epoch.
#[derive(Debug)]
struct LockedEpochs(loom::sync::Mutex<(u64, [u64; STREAMS])>);

impl LockedEpochs {
    fn register(&self, slot: usize) -> Epoch {
        let mut state = self.0.lock().unwrap();
        state.1[slot] = state.0;
        Epoch(state.0)
    }

    fn deregister(&self, slot: usize) {
        self.0.lock().unwrap().1[slot] = 0;
    }
}

impl EpochSource for LockedEpochs {
    fn current(&self) -> Epoch {
        Epoch(self.0.lock().unwrap().0)
    }

    fn finished(&self) -> Epoch {
        let state = self.0.lock().unwrap();
        let registered = state.1.iter().filter(|epoch| **epoch != 0);
        Epoch(registered.fold(state.0, |oldest, epoch| oldest.min(*epoch)) - 1)
    }

    fn close(&self, Epoch(epoch): Epoch) {
        let mut state = self.0.lock().unwrap();
        if state.0 == epoch {
            state.0 += 1;
        }
    }
}

/// The last epoch that recovery would find hardened everywhere.
fn certified_by(frames: &[FrameHeader]) -> Epoch {
    let of = |worker| {
        frames
            .iter()
            .filter(move |it| it.worker == WorkerId(worker))
    };
    let closed = |worker| of(worker).map(FrameHeader::closed_epoch).max();
    let by_all = (0..STREAMS as u16).map(|worker| closed(worker).unwrap_or_default());
    let carried = frames.iter().map(FrameHeader::hardened_epoch).max();
    by_all.min().max(carried).unwrap_or_default()
}

/// The low-water marks alone, with streams reduced to what is durable of them.
#[test]
fn no_epoch_is_certified_before_its_records_are_durable() {
    explore(2, || {
        let source = ModelEpochs::new();
        let horizon = Arc::new(EpochHorizon::new(source.clone(), STREAMS));
        let durable = Arc::new([0, 1].map(|_| AtomicU64::new(0)));
        let writers = [0, 1].map(|stream| {
            let (source, horizon) = (Arc::clone(&source), Arc::clone(&horizon));
            let durable = Arc::clone(&durable);
            thread::spawn(move || {
                // One thread per stream, so its lock is left out.
                let epoch = source.register(stream);
                horizon.appended(stream, epoch, false);
                source.deregister(stream);
                let closed = source.finished();
                durable[stream].store(1, Ordering::Relaxed);
                horizon.completed(stream, IDLE, closed, Epoch(0));
                epoch
            })
        });
        source.close(Epoch(1));
        let hardened = horizon.scan();
        let then = [0, 1].map(|stream| durable[stream].load(Ordering::Relaxed));
        let certified = horizon.certified();
        let later = [0, 1].map(|stream| durable[stream].load(Ordering::Relaxed));
        for (stream, writer) in writers.into_iter().enumerate() {
            let epoch = writer.join().unwrap();
            assert!(epoch > hardened || then[stream] == 1, "{hardened} hardened");
            assert!(
                epoch > certified || later[stream] == 1,
                "{certified} certified"
            );
        }
        source.close(Epoch(2));
        assert!(horizon.scan() >= Epoch(1));
    });
}

struct World {
    disk: Arc<ModelDisk>,
    source: Arc<LockedEpochs>,
    log: Arc<Log<()>>,
}

impl World {
    fn new() -> Arc<Self> {
        Self::with(Duration::MAX)
    }

    fn with(group_wait_max: Duration) -> Arc<Self> {
        let disk = Arc::new(ModelDisk::new(false));
        let source = Arc::new(LockedEpochs(loom::sync::Mutex::new((1, [0; STREAMS]))));
        let config = LogConfig {
            streams: NonZeroU16::new(STREAMS as u16).unwrap(),
            group: Group::Auto,
            group_wait_max,
            epochs: Some(source.clone()),
            buffer_bytes: 4096,
            placement: Placement::Files {
                log_file_bytes: 4 * 4096,
            },
            prepare: Prepare::Inline,
            ..LogConfig::new(7, Generation(1))
        };
        let log = Log::create(disk.clone(), &PathBuf::from("/wal"), config).unwrap();
        Arc::new(Self { disk, source, log })
    }

    fn commit(&self, worker: u16) -> (Ticket, Epoch) {
        self.append(worker, Entry::Commit)
    }

    fn append(&self, worker: u16, entry: Entry) -> (Ticket, Epoch) {
        let epoch = self.source.register(worker.into());
        let stream = self.log.stream(WorkerId(worker));
        let appended = stream.append(entry, Stamp(1), epoch, 8, |_, _| {}, |()| {});
        self.source.deregister(worker.into());
        (appended.unwrap().ticket, epoch)
    }

    /// Commits, waits, and looks at what a crash would leave.
    fn commit_and_wait(&self, worker: u16) {
        let (ticket, epoch) = self.commit(worker);
        self.log.wait_certified(Some(ticket), epoch).unwrap();
        assert!(self.disk.holds(epoch_word(epoch, false).0));
        assert!(certified_by(&self.disk.frames()) >= epoch, "{epoch}");
    }
}

#[test]
fn a_waiter_for_an_epoch_finds_it_on_the_disk() {
    explore(2, || {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit_and_wait(1))
        };
        world.commit_and_wait(0);
        other.join().unwrap();
    });
}

#[test]
fn an_idle_stream_is_flushed_for_a_waiter() {
    explore(2, || {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            // Appends and never flushes.
            thread::spawn(move || world.commit(1).1)
        };
        world.commit_and_wait(0);
        let certified = world.log.certified_epoch();
        let frames = world.disk.frames();
        assert!(certified_by(&frames) >= certified);
        let epoch = other.join().unwrap();
        let is_durable = (frames.iter()).any(|it| it.worker == WorkerId(1) && it.records > 0);
        assert!(epoch > certified || is_durable);
    });
}

/// As a transaction that has only read: no other wants its epoch certified.
#[test]
fn a_waiter_for_an_epoch_survives_the_log_being_closed() {
    explore(2, || {
        let world = World::new();
        let (_, epoch) = world.append(1, Entry::Independent);
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.wait_certified(None, epoch))
        };
        world.log.close().unwrap();
        reader.join().unwrap().unwrap();
    });
}

#[test]
fn a_task_is_woken_by_the_later_certifying_stream() {
    explore(3, || {
        let horizon = Arc::new(EpochHorizon::new(ModelEpochs::new(), STREAMS));
        let others = [0, 1].map(|stream| {
            let horizon = Arc::clone(&horizon);
            thread::spawn(move || {
                let _wake = horizon.ack_waiters.at_the_end();
                horizon.completed(stream, IDLE, Epoch(1), Epoch(0));
            })
        });
        let task = Task::new();
        let waker = Arc::clone(&task).into();
        let mut key = None;
        loop {
            key = Some(horizon.ack_waiters.enter(&waker, key));
            if horizon.certifies(Epoch(1)) {
                break;
            }
            task.sleep();
        }
        for other in others {
            other.join().unwrap();
        }
    });
}

/// The commit of a task, and what a task has only read.
#[test]
fn a_task_has_its_epoch_certified_by_the_flusher() {
    for has_only_read in [false, true] {
        explore(2, move || {
            let wait = Duration::from_secs(3600);
            let world = World::with(wait);
            let (ticket, epoch) = world.commit(1);
            let ticket = (!has_only_read).then_some(ticket);
            let flusher = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.log.flush_late(wait))
            };
            let mut ack_waiter = AckWaiter::default();
            let ended = run_task(|waker| {
                world
                    .log
                    .poll_certified(ticket, epoch, waker, &mut ack_waiter)
            });
            ended.unwrap();
            assert!(certified_by(&world.disk.frames()) >= epoch, "{epoch}");
            world.log.stop_flusher();
            flusher.join().unwrap();
        });
    }
}
