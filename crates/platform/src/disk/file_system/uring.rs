//! Asynchronous direct writes through io_uring.
//!
//! A ring carries one write at a time. Idle rings wait in a pool, so there are as many as there ever
//! were writes under way at once.
//!
//! The kernel reports a completion to the thread that submitted the write, and to no other before that
//! thread has taken notice. So a system call in which it sleeps may be interrupted (`EINTR`), and while it
//! is in one that cannot be interrupted, others wait with it. A process that is killed leaves its writes
//! under way, which may reach the disk when it is gone.
//!
//! # Invariants
//! - U1. From its submission to its completion a write owns its buffer and its file, because the
//!   kernel may look at either until then. Whatever happens to it, it waits for its completion first.
//! - U2. A ring in the pool is empty, and one in use holds one entry: a completion in it is that of
//!   its write.
#![expect(
    unsafe_code,
    reason = "the kernel reads a buffer after the call returns"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use crate::disk::{AlignedBuf, BUFFER_ALIGN_BYTES, PendingWrite};

/// Entries of a ring; one is used.
const ENTRIES: u32 = 2;

/// Rings that are not in use.
#[derive(Default)]
pub(in crate::disk) struct RingPool {
    idle: Mutex<Vec<IoUring>>,
    /// The kernel gives no rings, or not to us.
    refused: AtomicBool,
}

impl RingPool {
    /// Begins to write the first `len` bytes of `buf`, which lie in the buffer, to `offset`. Gives the
    /// buffer back if that cannot be done without waiting.
    pub(in crate::disk) fn begin(
        self: &Arc<Self>,
        file: &Arc<File>,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        let Some(mut ring) = u32::try_from(len).ok().and_then(|_| self.take()) else {
            return Err(buf);
        };
        let bytes = &buf[..len];
        let entry = opcode::Write::new(
            types::Fd(file.as_raw_fd()),
            bytes.as_ptr(),
            bytes.len() as u32,
        )
        .offset(offset)
        .build();
        // SAFETY: the buffer's bytes do not move with it, and both it and the file are kept until the
        // write has completed (U1): by `RingWrite`, or if it was not submitted, the ring goes first.
        let pushed = unsafe { ring.submission().push(&entry) };
        if pushed.is_err() || !matches!(ring.submit(), Ok(1)) {
            // A ring with an entry that the kernel did not take is dropped, and the entry with it.
            drop(ring);
            return Err(buf);
        }
        Ok(Box::new(RingWrite {
            ring: Some(ring),
            pool: Arc::clone(self),
            file: Arc::clone(file),
            offset,
            buf,
            len,
        }))
    }

    fn take(&self) -> Option<IoUring> {
        // Relaxed: only saves an attempt.
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(ring) = self.idle.lock().pop() {
            return Some(ring);
        }
        match IoUring::new(ENTRIES) {
            // It came with the operation that is needed here (Linux 5.6).
            Ok(ring) if ring.params().is_feature_rw_cur_pos() => return Some(ring),
            Ok(_) => self.refused.store(true, Ordering::Relaxed),
            Err(error) => {
                // Others, like too many open files, pass.
                let for_good = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EINVAL];
                if error
                    .raw_os_error()
                    .is_some_and(|code| for_good.contains(&code))
                {
                    self.refused.store(true, Ordering::Relaxed);
                }
            }
        }
        None
    }
}

impl std::fmt::Debug for RingPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RingPool({} idle)", self.idle.lock().len())
    }
}

/// A write that was submitted.
struct RingWrite {
    /// None once the write has completed.
    ring: Option<IoUring>,
    pool: Arc<RingPool>,
    file: Arc<File>,
    offset: u64,
    buf: AlignedBuf,
    len: usize,
}

impl RingWrite {
    /// Waits for the completion: how many bytes were written, or the system's error.
    fn reap(&mut self) -> i32 {
        let Some(mut ring) = self.ring.take() else {
            return 0;
        };
        let result = loop {
            if let Some(completion) = ring.completion().next() {
                break completion.result();
            }
            // Whatever a wait has to complain about, the buffer is the kernel's until then (U1).
            if let Err(error) = ring.submit_and_wait(1)
                && error.kind() != io::ErrorKind::Interrupted
            {
                std::thread::yield_now();
            }
        };
        self.pool.idle.lock().push(ring);
        result
    }
}

/// Finishes a write of `bytes` that completed with `result`. Continues where it was interrupted or
/// cut short, like every durable write (R1 of `direct.rs`).
fn settle(file: &File, offset: u64, bytes: &[u8], result: i32) -> io::Result<()> {
    let written = match result {
        written @ 0.. => written as usize,
        failed => match -failed {
            // The thread that submitted it ended, or the kernel wants to be asked again.
            libc::EINTR | libc::EAGAIN | libc::ECANCELED => 0,
            other => return Err(io::Error::from_raw_os_error(other)),
        },
    };
    if written >= bytes.len() {
        return Ok(());
    }
    // A direct write continues at a block boundary.
    let whole = written - written % BUFFER_ALIGN_BYTES;
    file.write_all_at(&bytes[whole..], offset + whole as u64)
}

impl PendingWrite for RingWrite {
    fn is_complete(&mut self) -> bool {
        match &mut self.ring {
            Some(ring) => !ring.completion().is_empty(),
            None => true,
        }
    }

    fn wait(mut self: Box<Self>) -> (AlignedBuf, io::Result<()>) {
        let result = self.reap();
        let outcome = settle(&self.file, self.offset, &self.buf[..self.len], result);
        (std::mem::take(&mut self.buf), outcome)
    }
}

impl Drop for RingWrite {
    fn drop(&mut self) {
        self.reap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_and_short_writes_are_finished() {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..3 * BUFFER_ALIGN_BYTES).map(|at| at as u8).collect();
        let (block, all) = (BUFFER_ALIGN_BYTES, bytes.len());
        // The reported result of the write, and the number of bytes that count as written.
        for (result, done) in [
            (-libc::ECANCELED, 0),
            (-libc::EINTR, 0),
            (-libc::EAGAIN, 0),
            (0, 0),
            (512, 0),
            (block as i32, block),
            (2 * block as i32 + 512, 2 * block),
            (all as i32, all),
        ] {
            file.write_all_at(&vec![0xff; all + 10], 0).unwrap();
            settle(&file, 10, &bytes, result).unwrap();
            let mut back = vec![0; all + 10];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(
                back[..10 + done].iter().all(|byte| *byte == 0xff),
                "{result}"
            );
            assert!(back[10 + done..] == bytes[done..], "{result}");
        }
        for code in [libc::EIO, libc::ENOSPC, libc::EINVAL] {
            let error = settle(&file, 0, &bytes, -code).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(code));
        }
    }
}
