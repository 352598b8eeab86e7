//! Asynchronous reads of a simulated disk: completions in an order drawn from a seed, and what goes
//! wrong with single reads.
//!
//! A queue draws everything from a stream of its own, chosen by the seed and by how many queues
//! there were before it. So what it does depends on the calls that it gets and on nothing else: a
//! run with one queue, or with queues that are made in the same order, reproduces.

use std::io;
use std::sync::Arc;

use super::{SECTOR_BYTES, SimDisk};
use crate::disk::async_read::read_frames;
use crate::disk::{Completion, DiskFile, Frames, ReadQueue};
use crate::seeded_random::Random;

/// The number of reads, of those that are not late, that have completed when a turn looks.
const READY: f64 = 0.5;
/// The same for late reads.
const LATE_READY: f64 = 0.03;

/// Faults of asynchronous reads, each with a probability from 0 to 1 for each read. Without a plan
/// half of the reads are late, and there are no other faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadFaults {
    /// The seed of all random choices. Queues created from now on use it.
    pub seed: u64,
    /// Overtaken by most reads that are pushed after it.
    pub late: f64,
    /// Ends early, at a sector's end; the bytes behind it are garbage.
    pub short: f64,
    /// Fails with `EIO`, and leaves garbage.
    pub error: f64,
    /// Succeeds with one bit that is wrong. The disk itself stays as it is.
    pub flipped: f64,
}

impl ReadFaults {
    /// Nothing goes wrong, but the order is the seed's.
    #[must_use]
    pub const fn harmless(seed: u64) -> Self {
        Self {
            seed,
            late: 0.5,
            short: 0.0,
            error: 0.0,
            flipped: 0.0,
        }
    }
}

/// Counts of a disk's completed asynchronous reads, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFaultCounts {
    /// All.
    pub completed: u64,
    /// Late reads.
    pub late: u64,
    /// Reads cut short by the plan, not by the file's end.
    pub short: u64,
    /// Reads that failed by the plan.
    pub errors: u64,
    /// Reads with a wrong bit.
    pub flipped: u64,
}

/// The state of a disk's reads.
pub(super) struct ReadPlan {
    faults: ReadFaults,
    queues_ever: u64,
    counts: ReadFaultCounts,
}

impl ReadPlan {
    pub(super) fn new() -> Self {
        Self {
            faults: ReadFaults::harmless(0),
            queues_ever: 0,
            counts: ReadFaultCounts::default(),
        }
    }

    /// Nothing goes wrong any more.
    pub(super) fn heal(&mut self) {
        self.faults = ReadFaults::harmless(self.faults.seed);
    }
}

impl SimDisk {
    /// Plans what goes wrong with asynchronous reads that complete from now on, until
    /// [`SimDisk::heal`].
    pub fn set_read_faults(&self, faults: ReadFaults) {
        self.0.state.lock().reads.faults = faults;
    }

    /// Counts of the faults of asynchronous reads.
    #[must_use]
    pub fn read_fault_counts(&self) -> ReadFaultCounts {
        self.0.state.lock().reads.counts
    }
}

/// A queue of reads of a simulated disk.
pub(super) struct SimReads {
    disk: SimDisk,
    random: Random,
    depth: usize,
    waiting: Vec<Waiting>,
    description: String,
}

struct Waiting {
    file: Arc<dyn DiskFile>,
    at: u64,
    frames: Frames,
    tag: u64,
    late: bool,
}

/// The result of a read, without its bytes.
enum Fate {
    Sound,
    Short,
    Error,
    Flipped,
}

impl SimReads {
    pub(super) fn new(disk: SimDisk, depth: usize) -> Self {
        let (seed, number) = {
            let plan = &mut disk.0.state.lock().reads;
            plan.queues_ever += 1;
            (plan.faults.seed, plan.queues_ever)
        };
        Self {
            disk,
            random: Random::stream(seed, number),
            depth: depth.max(1),
            waiting: Vec::new(),
            description: format!("simulated, completions in the order of seed {seed}"),
        }
    }

    /// Completes the read at this place.
    fn complete(&mut self, index: usize) -> Completion {
        let Waiting {
            file,
            at,
            mut frames,
            tag,
            late,
        } = self.waiting.swap_remove(index);
        let fate = self.draw(late);
        let read = match fate {
            Fate::Error => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => read_frames(&*file, at, &mut frames),
        };
        let result = match read {
            Ok(read) if read > 0 => Ok(self.spoil(&fate, &mut frames, read)),
            Ok(read) => Ok(read),
            Err(error) => {
                self.garble(&mut frames, 0);
                Err(error)
            }
        };
        Completion {
            tag,
            frames,
            result,
        }
    }

    fn draw(&mut self, late: bool) -> Fate {
        let plan = &mut self.disk.0.state.lock().reads;
        let faults = plan.faults;
        plan.counts.completed += 1;
        plan.counts.late += u64::from(late);
        // All are drawn, so that a plan with other chances leaves the rest of the stream as it is.
        let [error, short, flipped] =
            [faults.error, faults.short, faults.flipped].map(|chance| self.random.chance(chance));
        if error {
            plan.counts.errors += 1;
            Fate::Error
        } else if short {
            plan.counts.short += 1;
            Fate::Short
        } else if flipped {
            plan.counts.flipped += 1;
            Fate::Flipped
        } else {
            Fate::Sound
        }
    }

    /// Does to the `read` bytes in the frames what has to be done; returns how many are left.
    fn spoil(&mut self, fate: &Fate, frames: &mut Frames, read: usize) -> usize {
        match fate {
            Fate::Sound | Fate::Error => read,
            Fate::Short => {
                let left = self.random.index(read.div_ceil(SECTOR_BYTES)) * SECTOR_BYTES;
                self.garble(frames, left);
                left
            }
            Fate::Flipped => {
                let bit = self.random.index(read * 8);
                let (frame, byte) = place(bit / 8);
                frames[frame][byte] ^= 1 << (bit % 8);
                read
            }
        }
    }

    /// Puts garbage behind the first `from` bytes.
    fn garble(&mut self, frames: &mut Frames, from: usize) {
        let garbage = self.random.next_u64() as u8;
        let (first, within) = place(from);
        for (number, frame) in frames.iter_mut().enumerate().skip(first) {
            let start = if number == first { within } else { 0 };
            frame[start..].fill(garbage);
        }
    }
}

/// The frame, and the place in it, of a byte of a request.
fn place(byte: usize) -> (usize, usize) {
    const PAGE: usize = crate::disk::PAGE_BYTES;
    (byte / PAGE, byte % PAGE)
}

impl ReadQueue for SimReads {
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames> {
        if self.waiting.len() == self.depth {
            return Err(frames);
        }
        let late = self.disk.0.state.lock().reads.faults.late;
        let late = self.random.chance(late);
        self.waiting.push(Waiting {
            file: Arc::clone(file),
            at,
            frames,
            tag,
            late,
        });
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let end = done.len() + at_least.min(self.waiting.len());
        self.random.shuffle(&mut self.waiting);
        let mut index = 0;
        while index < self.waiting.len() {
            let ready = if self.waiting[index].late {
                LATE_READY
            } else {
                READY
            };
            if self.random.chance(ready) {
                done.push(self.complete(index));
            } else {
                index += 1;
            }
        }
        while done.len() < end {
            // Draws two reads and completes the one that is not late.
            let drawn = [(); 2].map(|()| self.random.index(self.waiting.len()));
            let index = drawn.into_iter().min_by_key(|at| self.waiting[*at].late);
            done.push(self.complete(index.expect("one of two")));
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn describe(&self) -> &str {
        &self.description
    }
}
