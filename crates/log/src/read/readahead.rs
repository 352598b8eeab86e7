//! Reading ahead: the next pieces of a stream come in while the one before is looked at.
//!
//! The device works while a thread of the reader's own waits for it; more than [`AHEAD`] pieces are
//! never under way, so memory is bounded. The thread is started with the second piece: what fits
//! into one is read by the caller. The caller requests pieces in the order in which it will need
//! them; a piece that it does not need after all costs a read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use namiki_platform::disk::{AlignedBuf, DiskFile};
use namiki_platform::threads;

/// Pieces that are asked for before they are wanted.
pub(super) const AHEAD: usize = 2;

/// A stretch of a file that is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) file: Arc<dyn DiskFile>,
    /// The index of the file among the stream's files.
    pub(super) number: usize,
    pub(super) start: u64,
    pub(super) bytes: usize,
    /// Room to leave before it in the buffer.
    pub(super) room: usize,
}

/// A stretch that was read.
pub(super) struct Piece {
    /// The stretch is behind the room.
    pub(super) buf: AlignedBuf,
    pub(super) room: usize,
    /// Number of bytes.
    pub(super) len: usize,
}

struct Job {
    wanted: Wanted,
    buf: AlignedBuf,
}

type Done = (AlignedBuf, io::Result<usize>);

/// The reads that are requested and not yet taken, and the thread that makes them.
#[derive(Default)]
pub(super) struct Ahead {
    asked: VecDeque<Asked>,
    thread: Option<Thread>,
    /// Buffers that are free at the moment.
    spare: Vec<AlignedBuf>,
}

/// A requested piece: under way, or still to be read by the thread that takes it.
enum Asked {
    Underway(PieceId),
    Later(Wanted),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceId {
    pub(super) number: usize,
    pub(super) start: u64,
    pub(super) bytes: usize,
    room: usize,
}

impl Wanted {
    fn id(&self) -> PieceId {
        PieceId {
            number: self.number,
            start: self.start,
            bytes: self.bytes,
            room: self.room,
        }
    }
}

impl Asked {
    fn id(&self) -> PieceId {
        match self {
            Self::Underway(id) => *id,
            Self::Later(wanted) => wanted.id(),
        }
    }
}

impl Ahead {
    /// The piece that comes next.
    pub(super) fn first(&self) -> Option<PieceId> {
        self.asked.front().map(Asked::id)
    }

    /// The piece that was asked for last.
    pub(super) fn last(&self) -> Option<PieceId> {
        self.asked.back().map(Asked::id)
    }

    /// Number of pieces that are requested and not taken.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Starts the read-ahead: from now on pieces are read before they are waited for, if the system
    /// has a thread for that.
    pub(super) fn start(&mut self) {
        if self.thread.is_none() {
            self.thread = Thread::start();
        }
    }

    pub(super) fn ask(&mut self, wanted: Wanted) {
        let asked = match &self.thread {
            None => Asked::Later(wanted),
            Some(thread) => {
                let id = wanted.id();
                let buf = self.spare.pop().unwrap_or_else(no_bytes);
                thread.ask(Job { wanted, buf });
                Asked::Underway(id)
            }
        };
        self.asked.push_back(asked);
    }

    /// Waits for the piece that comes next, if any is asked for.
    pub(super) fn take(&mut self) -> Option<io::Result<Piece>> {
        let asked = self.asked.pop_front()?;
        let room = asked.id().room;
        let (buf, result) = match (asked, &self.thread) {
            (Asked::Later(wanted), _) => {
                let buf = self.spare.pop().unwrap_or_else(no_bytes);
                read(Job { wanted, buf })
            }
            (Asked::Underway(_), Some(thread)) => thread.take(),
            (Asked::Underway(_), None) => (no_bytes(), Err(gone())),
        };
        Some(match result {
            Ok(len) => Ok(Piece { buf, room, len }),
            Err(error) => {
                self.give_back(buf);
                Err(error)
            }
        })
    }

    /// Skips the piece that comes next.
    pub(super) fn pass_over(&mut self) {
        if let Some(Asked::Later(_)) = self.asked.front() {
            self.asked.pop_front();
        } else if let Some(Ok(piece)) = self.take() {
            self.give_back(piece.buf);
        }
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&mut self, buf: AlignedBuf) {
        if self.spare.len() < AHEAD {
            self.spare.push(buf);
        }
    }
}

fn no_bytes() -> AlignedBuf {
    AlignedBuf::default()
}

fn gone() -> io::Error {
    io::Error::other("the thread that reads ahead is gone")
}

fn read(Job { wanted, mut buf }: Job) -> Done {
    let whole = wanted.room + wanted.bytes;
    if buf.capacity() < whole {
        // Nothing of the old one is to be kept.
        buf = AlignedBuf::zeroed(whole);
    }
    buf.resize(whole);
    let result = wanted
        .file
        .read_at(wanted.start, &mut buf[wanted.room..whole]);
    (buf, result)
}

/// A thread that carries out reads in order. It ends when this is dropped.
struct Thread {
    /// `None` while it ends.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    fn start() -> Option<Self> {
        let (jobs, to_do) = channel::<Job>();
        let (finished, done) = channel();
        let work = move || {
            for job in to_do {
                if finished.send(read(job)).is_err() {
                    return;
                }
            }
        };
        let handle = threads::start("namiki-log-ahead", work).ok()?;
        Some(Self {
            jobs: Some(jobs),
            done,
            handle: Some(handle),
        })
    }

    fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread is gone, the taker of the piece gets the error.
            let _ = jobs.send(job);
        }
    }

    fn take(&self) -> Done {
        self.done
            .recv()
            .unwrap_or_else(|_| (no_bytes(), Err(gone())))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take() {
            // The thread ends after at most a few reads. If it panicked, `take` has reported it, or
            // nothing was requested.
            let _ = handle.join();
        }
    }
}
