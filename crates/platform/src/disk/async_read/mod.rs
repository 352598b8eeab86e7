//! Asynchronous reads: one thread keeps many reads in flight.
//!
//! ```text
//!  FramePool ──take──▶ Frame ──push──▶ ReadQueue ──turn──▶ Completion ──drop──▶ FramePool
//!                                        │   ▲
//!                                        ▼   │  the queue owns the frames of a read in flight
//!                                       device
//! ```
//!
//! A [`ReadQueue`] belongs to one thread. [`ReadQueue::push`] only notes a read;
//! [`ReadQueue::turn`] submits all that were noted in one system call and, in the same one, waits
//! for as many completions as asked for. [`Disk::reads`](super::Disk::reads) makes the queue that
//! suits the disk:
//!
//! | queue | for | a read is carried out by |
//! |---|---|---|
//! | io_uring | real files | the kernel |
//! | blocking threads | where io_uring is refused, and disks of other crates | a few threads |
//! | immediate | memory and nothing | `turn`, at once |
//! | simulated | [`SimDisk`](super::SimDisk) | `turn`, in an order drawn from a seed |
//! | slow | [`SlowDisk`](super::SlowDisk) | the disk below, and held back |
//!
//! # Invariants
//! - Q1. A frame that was pushed comes back exactly once: in `Err` of `push`, in a [`Completion`],
//!   or to its pool when the queue is dropped.
//! - Q2. While a read is in flight nothing but the device reaches its frames.
//!
//! Paper: oode §2 (each thread reads asynchronously, so that a task that waits lets another one
//! run)

mod blocking_threads;
mod frame_pool;
mod frames;
mod immediate;
mod read_frames;
mod uring;

use std::io;
use std::sync::Arc;

use self::uring::UringReads;
use super::DiskFile;

pub use self::blocking_threads::BlockingThreads;
pub use self::frame_pool::{Frame, FramePool};
pub use self::frames::Frames;
pub(super) use self::immediate::ImmediateReads;
pub(super) use self::read_frames::read_frames;

/// Bytes of a frame: a page of what queries read.
pub const PAGE_BYTES: usize = 4096;

/// The queue for real files: the kernel's, or threads if it refuses one.
pub(super) fn system_reads(depth: usize, pool: &Arc<FramePool>) -> Box<dyn ReadQueue> {
    or_threads(depth, UringReads::new(depth, pool))
}

fn or_threads(depth: usize, made: io::Result<UringReads>) -> Box<dyn ReadQueue> {
    match made {
        Ok(queue) => Box::new(queue),
        Err(error) => {
            let why = format!("io_uring was refused: {error}");
            Box::new(BlockingThreads::new(depth, &why))
        }
    }
}

/// A read that came to its end.
#[derive(Debug)]
pub struct Completion {
    /// The tag with which it was pushed.
    pub tag: u64,
    /// The frames that were pushed. After an error, and beyond `result`, their bytes are anything.
    pub frames: Frames,
    /// Bytes read, from the first frame on. Fewer than asked for only where the file ends.
    ///
    /// # Errors
    /// `InvalidInput` if the offset is no multiple of the file's block or there are more than
    /// [`Frames::MAX`] frames; otherwise the error of the device.
    pub result: io::Result<usize>,
}

/// Reads that one thread keeps in flight. It may be made by another thread than the one that uses
/// it.
///
/// Dropped with reads in flight, it waits for what the device can no longer call off, and their
/// frames go back to the pool. That has to be done by the thread that submitted them: dropped by
/// another one, io_uring's queue has to leave them in use for good.
pub trait ReadQueue: Send {
    /// Notes a read of `frames.len()` pages from offset `at` of `file` on. Nothing happens before
    /// [`ReadQueue::turn`]. Takes no system call.
    ///
    /// # Errors
    /// The frames, if as many reads are in flight as the queue is deep.
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames>;

    /// Submits all reads that were pushed, waits until `at_least` reads have completed (or all, if
    /// fewer are in flight), and adds everything that has completed to `done`. With `at_least` 0 it
    /// does not wait.
    ///
    /// # Errors
    /// If reads cannot be submitted or waited for at all, as by a thread other than the one that
    /// has reads in flight. Those stay in flight. Errors of single reads are in their completions.
    fn turn(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Reads that were pushed and whose completions were not yet given out.
    fn in_flight(&self) -> usize;

    /// How reads are carried out, for people: `io_uring with registered buffers`. Says why the best
    /// way is not the one, and that an emulated device is one.
    fn describe(&self) -> &str;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_of_io_uring_is_said() {
        let refusal = io::Error::from_raw_os_error(libc::EPERM);
        let queue = or_threads(64, Err(refusal));
        let said = queue.describe();
        assert!(
            said.starts_with("16 blocking threads (io_uring was refused: "),
            "{said}"
        );
        assert!(said.contains("Operation not permitted"), "{said}");
    }
}
