//! Asynchronous reads by io_uring: one ring, used by one thread, one system call for a turn.
//!
//! ```text
//!  push: slot ◀─ file, frames, offset         turn: queued ─▶ submission queue ─┐
//!        queued ◀─ number of the slot               io_uring_enter (submit, wait) ◀┘
//!                                                   completion queue ─▶ slot ─▶ done
//! ```
//!
//! A read into one frame of the queue's pool is a fixed read; one into several frames is a vectored fixed
//! read, where the kernel has it and they lie in one registered piece of memory, or a plain vectored read.
//!
//! The kernel binds a ring to the thread that first uses it: it reports completions to no other. So the
//! ring is enabled in the first turn. If another thread uses the queue later, when nothing is in flight, the
//! ring is replaced.
//!
//! # Invariants
//! - G1. While the kernel may look at a read (it is in the submission queue or counted by `in_kernel`), its
//!   slot keeps the file, the frames and the list of pieces, and nothing refers to the frames' bytes (P3 of
//!   `frame_pool.rs`, Q2 of `async_read/mod.rs`).
//! - G2. A slot's number is in `free`, in `queued`, or with the kernel. A completion in the ring is that of
//!   the read in its slot.
//! - G3. A queue that is dropped waits until `in_kernel` is 0. If it cannot, because the reads are another
//!   thread's, it leaks the ring and all slots.
#![expect(
    unsafe_code,
    reason = "the kernel writes to frames after the call returns"
)]

mod registered;
mod ring;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};

use self::ring::{ENTRIES_MAX, Ring};
use super::read_frames::{check_request, complete, read_frames};
use super::{Completion, FramePool, Frames, PAGE_BYTES, ReadQueue};
use crate::disk::DiskFile;
use crate::fork_check::ProcessToken;

/// A queue of reads that the kernel carries out.
pub(in crate::disk) struct UringReads {
    /// Given back only in [`Drop`], if that may be (G3).
    ring: ManuallyDrop<Ring>,
    slots: ManuallyDrop<Vec<Slot>>,
    free: Vec<u32>,
    /// Slots that the kernel has not taken yet, in order. The first `submitted` are in the submission queue.
    queued: Vec<u32>,
    submitted: usize,
    /// Reads that the kernel has taken, and whose completions were not seen.
    in_kernel: usize,
    /// Slots of files that the kernel cannot read.
    blocking: Vec<u32>,
    /// Completions of requests that cannot be submitted.
    refused: Vec<Completion>,
    in_flight: usize,
    process: ProcessToken,
}

#[derive(Default)]
struct Slot {
    request: Option<Request>,
    pieces: Pieces,
}

struct Request {
    file: Arc<dyn DiskFile>,
    at: u64,
    frames: Frames,
    tag: u64,
}

/// The addresses of the frames of a run, for the kernel. Its memory is reused.
#[derive(Default)]
struct Pieces(Vec<libc::iovec>);

// SAFETY: the addresses are only handed to the kernel; they belong to frames, which are `Send`.
unsafe impl Send for Pieces {}

impl UringReads {
    /// A queue of `depth` reads, at least one and at most what a ring can have (32,768).
    pub(in crate::disk) fn new(depth: usize, pool: &Arc<FramePool>) -> io::Result<Self> {
        let depth = depth.clamp(1, ENTRIES_MAX);
        Ok(Self::over(Ring::new(depth, pool)?, depth))
    }

    fn over(ring: Ring, depth: usize) -> Self {
        Self {
            ring: ManuallyDrop::new(ring),
            slots: ManuallyDrop::new((0..depth).map(|_| Slot::default()).collect()),
            free: (0..depth as u32).rev().collect(),
            queued: Vec::with_capacity(depth),
            submitted: 0,
            in_kernel: 0,
            blocking: Vec::new(),
            refused: Vec::new(),
            in_flight: 0,
            process: ProcessToken::current(),
        }
    }

    /// Fills the submission queue from `queued`.
    fn fill(&mut self) {
        if self.submitted == self.queued.len() {
            return;
        }
        for &number in &self.queued[self.submitted..] {
            let Slot { request, pieces } = &mut self.slots[number as usize];
            let request = request.as_ref().expect("a queued slot has a request (G2)");
            let file = request
                .file
                .os_file()
                .expect("asked for when it was pushed");
            let region = self.ring.region_of(&request.frames);
            let entry = request
                .entry(file.as_raw_fd(), region, self.ring.vectored, pieces)
                .user_data(number.into());
            // SAFETY: the slot keeps what the entry refers to until the read's completion (G1).
            if unsafe { self.ring.io.submission().push(&entry) }.is_err() {
                break;
            }
            self.submitted += 1;
        }
    }

    /// Submits what is in the submission queue and waits for `at_least` completions.
    fn enter(&mut self, at_least: usize) -> io::Result<()> {
        if self.ring.disabled {
            self.ring.io.submitter().register_enable_rings()?;
            self.ring.disabled = false;
        }
        match self.ring.io.submit_and_wait(at_least) {
            Ok(taken) => {
                self.queued.drain(..taken);
                self.submitted -= taken;
                self.in_kernel += taken;
                Ok(())
            }
            Err(error) => match error.raw_os_error() {
                // Interrupted, or short of a resource that completions release.
                Some(libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                    std::thread::yield_now();
                    Ok(())
                }
                // The ring belongs to another thread.
                Some(libc::EEXIST) if self.in_kernel == 0 => self.replace_ring(),
                Some(libc::EEXIST) => Err(io::Error::other(
                    "another thread has reads of this queue in flight",
                )),
                _ => Err(error),
            },
        }
    }

    /// Nothing that was in the submission queue was submitted; it will be by this thread.
    fn replace_ring(&mut self) -> io::Result<()> {
        *self.ring = Ring::new(self.slots.len(), self.ring.registered.pool())?;
        self.submitted = 0;
        Ok(())
    }

    /// Adds everything that has completed to `done`.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        for entry in self.ring.io.completion() {
            let number = entry.user_data() as u32;
            let request = self.slots[number as usize].request.take();
            let request = request.expect("a completion is of a read in a slot (G2)");
            self.free.push(number);
            self.in_kernel -= 1;
            self.in_flight -= 1;
            done.push(request.completed(entry.result()));
        }
    }

    /// Adds what needs no kernel to `done`.
    fn without_kernel(&mut self, done: &mut Vec<Completion>) {
        self.in_flight -= self.refused.len();
        done.append(&mut self.refused);
        for number in self.blocking.drain(..) {
            let request = self.slots[number as usize].request.take();
            let request = request.expect("a blocking slot has a request");
            self.free.push(number);
            self.in_flight -= 1;
            // As if the kernel had asked to try again.
            done.push(request.completed(-libc::EAGAIN));
        }
    }

    /// Waits for all that the kernel has; false if that cannot be.
    fn wait_for_kernel(&mut self) -> bool {
        let mut done = Vec::new();
        self.queued.clear();
        loop {
            self.reap(&mut done);
            done.clear();
            if self.in_kernel == 0 {
                return true;
            }
            // Entries in the submission queue that the kernel has not taken must not be taken any
            // more.
            let waited = self.ring.wait(self.in_kernel);
            if let Err(error) = waited
                && !matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)
                )
            {
                return false;
            }
        }
    }
}

impl Request {
    /// The submission queue entry. All frames are in the registered region `region`, if it is
    /// given.
    fn entry(
        &self,
        file: RawFd,
        region: Option<u16>,
        vectored: bool,
        pieces: &mut Pieces,
    ) -> squeue::Entry {
        let file = types::Fd(file);
        if let [frame] = &self.frames[..] {
            let (start, bytes) = (frame.start().as_ptr(), PAGE_BYTES as u32);
            return match region {
                Some(region) => opcode::ReadFixed::new(file, start, bytes, region)
                    .offset(self.at)
                    .build(),
                None => opcode::Read::new(file, start, bytes)
                    .offset(self.at)
                    .build(),
            };
        }
        pieces.0.clear();
        pieces.0.extend(self.frames.iter().map(|frame| libc::iovec {
            iov_base: frame.start().as_ptr().cast(),
            iov_len: PAGE_BYTES,
        }));
        let (start, count) = (pieces.0.as_ptr(), pieces.0.len() as u32);
        match region.filter(|_| vectored) {
            Some(region) => opcode::ReadvFixed::new(file, start, count, region)
                .offset(self.at)
                .build(),
            None => opcode::Readv::new(file, start, count)
                .offset(self.at)
                .build(),
        }
    }

    /// The completion of a read with `result`: the bytes it read, or the system's error.
    fn completed(mut self, result: i32) -> Completion {
        let wanted = self.frames.len_bytes();
        let (file, at) = (&*self.file, self.at);
        let result = match result {
            read @ 0.. if read as usize == wanted => Ok(wanted),
            // Cut short, by the end of the file or by something else.
            read @ 0.. => complete(file, at, &mut self.frames, read as usize),
            failed => match -failed {
                libc::EINTR | libc::EAGAIN | libc::ECANCELED => {
                    read_frames(file, at, &mut self.frames)
                }
                other => Err(io::Error::from_raw_os_error(other)),
            },
        };
        Completion {
            tag: self.tag,
            frames: self.frames,
            result,
        }
    }
}

impl ReadQueue for UringReads {
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames> {
        if self.in_flight == self.slots.len() {
            return Err(frames);
        }
        if let Err(error) = check_request(&**file, at, &frames) {
            self.refused.push(Completion {
                tag,
                frames,
                result: Err(error),
            });
        } else {
            let number = self.free.pop().expect("fewer are in flight than slots");
            match file.os_file() {
                Some(_) => self.queued.push(number),
                None => self.blocking.push(number),
            }
            self.slots[number as usize].request = Some(Request {
                file: Arc::clone(file),
                at,
                frames,
                tag,
            });
        }
        self.in_flight += 1;
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        let at_least = at_least.min(self.in_flight);
        self.without_kernel(done);
        loop {
            self.fill();
            let missing = at_least.saturating_sub(done.len() - before);
            // Nothing to say to the kernel, and nothing to hear from it.
            if missing > 0 || self.submitted > 0 || self.ring.io.submission().taskrun() {
                self.enter(missing.min(self.in_kernel + self.submitted))?;
            }
            self.reap(done);
            if self.queued.is_empty() && done.len() - before >= at_least {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn describe(&self) -> &str {
        &self.ring.description
    }
}

impl Drop for UringReads {
    fn drop(&mut self) {
        // A forked child has a copy of the queue, and the parent's ring.
        if self.process.is_current() && self.wait_for_kernel() {
            // SAFETY: nothing uses either after this, which is done once. No read is in the kernel (G3), and
            // the ring goes first, with what may be left in its submission queue.
            unsafe {
                ManuallyDrop::drop(&mut self.ring);
                ManuallyDrop::drop(&mut self.slots);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{AlignedBuf, Disk, SyncedDisk};

    fn with_file(dir: &Path) -> Arc<dyn DiskFile> {
        let file = SyncedDisk::new().create(&dir.join("a"), 8 * 4096).unwrap();
        for page in 0..8 {
            let mut bytes = AlignedBuf::zeroed(4096);
            bytes.fill(page as u8);
            file.write_durable(page * 4096, &bytes).unwrap();
        }
        file
    }

    /// Whatever the kernel gives, reads of one frame and of several have the right bytes.
    fn reads_well(ring: Ring, pool: &Arc<FramePool>) {
        let dir = tempfile::tempdir().unwrap();
        let file = with_file(dir.path());
        let mut queue = UringReads::over(ring, 4);
        for _ in 0..3 {
            let frame = pool.take().unwrap();
            queue.push(&file, 4096, frame.into(), 1).unwrap();
            let frames = (0..3).map(|_| pool.take().unwrap()).collect();
            queue.push(&file, 2 * 4096, frames, 2).unwrap();
            let mut done = Vec::new();
            queue.turn(1, &mut done).unwrap();
            queue.turn(1, &mut done).unwrap();
            assert_eq!((done.len(), queue.in_flight()), (2, 0));
            for completion in done {
                for (page, frame) in (completion.tag..).zip(completion.frames) {
                    assert_eq!(frame[..], [page as u8; 4096]);
                }
            }
        }
        drop(queue);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn a_ring_reads_with_whatever_the_kernel_gives_it() {
        let pool = FramePool::new(8).unwrap();
        let Ok(plain) = Ring::plain(4, &pool) else {
            return; // no io_uring here
        };
        assert!(plain.description.contains("old kernel"));
        reads_well(plain, &pool);
        for (registered, vectored) in [(true, true), (true, false), (false, false)] {
            let mut ring = Ring::new(4, &pool).unwrap();
            if !registered {
                ring.registered.close();
            }
            ring.vectored &= vectored;
            reads_well(ring, &pool);
        }
    }

    #[test]
    fn completions_that_ask_to_try_again_are_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = with_file(dir.path());
        let pool = FramePool::new(4).unwrap();
        let request = || Request {
            file: Arc::clone(&file),
            at: 6 * 4096,
            frames: (0..3).map(|_| pool.take().unwrap()).collect(),
            tag: 0,
        };
        // The file ends after two pages.
        for result in [
            0,
            512,
            4096,
            5000,
            8192,
            -libc::EINTR,
            -libc::EAGAIN,
            -libc::ECANCELED,
        ] {
            let mut request = request();
            if result >= 4096 {
                request.frames[0].fill(6);
            }
            if result >= 8192 {
                request.frames[1].fill(7);
            }
            let completion = request.completed(result);
            assert_eq!(completion.result.unwrap(), 8192, "{result}");
            for (frame, page) in completion.frames.iter().zip([6, 7]) {
                assert_eq!(frame[..], [page; 4096], "{result}");
            }
        }
        let failed = request().completed(-libc::EIO).result.unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
    }
}
