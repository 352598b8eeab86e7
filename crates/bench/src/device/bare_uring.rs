//! A bare loop of reads by io_uring, as fast as this program can make it: the baseline for read
//! queues.
//!
//! Separate registered memory; a single issuer; deferred task run; one system call per turn;
//! nothing else.
//!
//! # Invariants
//! - Y1. `memory` holds `bytes` for each buffer, at `buffer × bytes`. A buffer that is not in
//!   `free` belongs to one slot, which has one read in flight at most. Only the kernel writes to
//!   buffers, and nothing reads them.
//! - Y2. Drop waits until nothing is in flight.
#![expect(unsafe_code, reason = "the kernel writes to memory after the call")]

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use io_uring::{IoUring, opcode, types};
use namiki_platform::Mapping;

use super::read_engine::ReadEngine;

/// Maximal size of memory that can be registered as one buffer.
const PIECE_BYTES_MAX: usize = 1 << 30;

/// A ring, its memory and files.
pub(super) struct BareUring {
    ring: IoUring,
    files: Vec<File>,
    memory: Mapping,
    bytes: u32,
    /// Buffers without a read, the longest unused one first. All buffers are used in rotation, as
    /// in a system that keeps the data read for a while.
    free: VecDeque<u32>,
    /// The buffer of each slot.
    buffers: Vec<u32>,
    in_flight: usize,
}

impl BareUring {
    /// Opens a ring for `depth` reads of `bytes` bytes each, into `buffers` buffers or `depth`,
    /// whichever is more. Only the calling thread may use it.
    pub(super) fn open<'p>(
        paths: impl Iterator<Item = &'p Path>,
        bytes: u32,
        depth: usize,
        buffers: usize,
    ) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .build(depth as u32)?;
        let buffers = buffers.max(depth);
        let memory = Mapping::new(bytes as usize * buffers)?;
        // A registered buffer has at most one gigabyte.
        let piece_bytes = bytes as usize * (PIECE_BYTES_MAX / bytes as usize);
        let pieces = (0..memory.bytes())
            .step_by(piece_bytes)
            .map(|at| libc::iovec {
                iov_base: memory.start().as_ptr().wrapping_add(at).cast(),
                iov_len: piece_bytes.min(memory.bytes() - at),
            });
        let pieces: Vec<libc::iovec> = pieces.collect();
        // SAFETY: fields drop in declaration order, so the mapping outlives the ring.
        unsafe { ring.submitter().register_buffers(&pieces)? };
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_DIRECT).open(path)
        };
        Ok(Self {
            ring,
            files: paths.map(open).collect::<io::Result<_>>()?,
            memory,
            bytes,
            free: (0..buffers as u32).collect(),
            buffers: vec![0; depth],
            in_flight: 0,
        })
    }

    fn piece_of(&self, buffer: u32) -> u16 {
        (buffer as usize / (PIECE_BYTES_MAX / self.bytes as usize)) as u16
    }
}

impl ReadEngine for BareUring {
    fn push(&mut self, file: usize, at: u64, slot: usize) -> io::Result<()> {
        let buffer = self.free.pop_front();
        let buffer = buffer.ok_or_else(|| io::Error::other("all buffers are in use"))?;
        self.buffers[slot] = buffer;
        let start = self.memory.start().as_ptr();
        let start = start.wrapping_add(buffer as usize * self.bytes as usize);
        let file = types::Fd(self.files[file].as_raw_fd());
        let entry = opcode::ReadFixed::new(file, start, self.bytes, self.piece_of(buffer))
            .offset(at)
            .build()
            .user_data(slot as u64);
        // SAFETY: the buffer and the file live until nothing is in flight (Y1, Y2).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.in_flight += 1;
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> io::Result<()> {
        self.ring.submit_and_wait(at_least)?;
        for completion in self.ring.completion() {
            self.in_flight -= 1;
            let slot = completion.user_data() as usize;
            self.free.push_back(self.buffers[slot]);
            match completion.result() {
                read if read as u32 == self.bytes => done.push(slot),
                read @ 0.. => {
                    let why = format!("a read ended after {read} bytes");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                failed => return Err(io::Error::from_raw_os_error(-failed)),
            }
        }
        Ok(())
    }

    fn describe(&self) -> &str {
        "a bare io_uring loop"
    }
}

impl Drop for BareUring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            let waited = self.ring.submit_and_wait(self.in_flight);
            self.in_flight -= self.ring.completion().count();
            if let Err(error) = waited
                && error.kind() != io::ErrorKind::Interrupted
            {
                // Aborts rather than frees memory that the kernel may still write to.
                std::process::abort();
            }
        }
    }
}
