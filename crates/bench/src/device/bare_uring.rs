//! A bare loop of reads by io_uring, as fast as this program can make one: the yardstick for queues of reads.
//!
//! Memory of its own, registered; a single issuer; deferred task run; one system call for a turn; nothing
//! else.
//!
//! # Invariants
//! - Y1. `memory` holds `bytes` for each slot, at `slot × bytes`, and a slot has one read in flight at most. It
//!   is written by the kernel alone, and never looked at.
//! - Y2. Dropped, it waits until nothing is in flight.
#![expect(unsafe_code, reason = "the kernel writes to memory after the call")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use io_uring::{IoUring, opcode, types};
use namiki_platform::Mapping;

use super::read_engine::ReadEngine;

/// A ring, its memory and a file.
pub(super) struct BareUring {
    ring: IoUring,
    file: File,
    memory: Mapping,
    bytes: u32,
    depth: usize,
    in_flight: usize,
}

impl BareUring {
    /// For so many reads of so many bytes at a time. To be used by the thread that calls this.
    pub(super) fn open(path: &Path, bytes: u32, depth: usize) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .build(depth as u32)?;
        let memory = Mapping::new(bytes as usize * depth)?;
        let registered = libc::iovec {
            iov_base: memory.start().as_ptr().cast(),
            iov_len: memory.bytes(),
        };
        // SAFETY: the mapping is dropped behind the ring, in the order of the fields.
        unsafe { ring.submitter().register_buffers(&[registered])? };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        Ok(Self {
            ring,
            file,
            memory,
            bytes,
            depth,
            in_flight: 0,
        })
    }
}

impl ReadEngine for BareUring {
    fn push(&mut self, at: u64, slot: usize) -> io::Result<()> {
        assert!(slot < self.depth);
        let start = self.memory.start().as_ptr();
        let start = start.wrapping_add(slot * self.bytes as usize);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::ReadFixed::new(file, start, self.bytes, 0)
            .offset(at)
            .build()
            .user_data(slot as u64);
        // SAFETY: the slot's memory and the file live until nothing is in flight (Y1, Y2).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.in_flight += 1;
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<usize>) -> io::Result<()> {
        self.ring.submit_and_wait(at_least)?;
        for completion in self.ring.completion() {
            self.in_flight -= 1;
            match completion.result() {
                read if read as u32 == self.bytes => done.push(completion.user_data() as usize),
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
                // Rather than give back memory that the kernel may write to.
                std::process::abort();
            }
        }
    }
}
