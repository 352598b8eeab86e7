//! A ring for one thread's reads, with the optional features that the kernel allows.
//!
//! The ring asks for three features: a single issuer, so that the kernel need not lock; deferred
//! task run, so that completions are processed when the thread asks for them and not whenever it
//! enters the kernel; and registered memory for the pool, so that no read has to look up and pin
//! its buffer. A kernel before 6.1 has a plain ring. If the limit on pinned memory
//! (`RLIMIT_MEMLOCK`) is too low, reads go into unregistered memory.
#![expect(unsafe_code, reason = "enters the kernel")]

use std::io;
use std::sync::Arc;

use io_uring::{EnterFlags, IoUring, Probe, opcode};

use super::registered::Registered;
use crate::disk::async_read::{Frame, FramePool};

/// The kernel takes no more entries.
pub(super) const ENTRIES_MAX: usize = 1 << 15;

/// A ring and what it can do. The ring itself is dropped first (R1 of `registered.rs`).
pub(super) struct Ring {
    pub(super) io: IoUring,
    /// Waits to be enabled by the thread that will use it.
    pub(super) disabled: bool,
    pub(super) registered: Registered,
    /// Registered memory can be read into in pieces.
    pub(super) vectored: bool,
    pub(super) description: String,
}

impl Ring {
    /// A ring for `depth` reads at a time.
    pub(super) fn new(depth: usize, pool: &Arc<FramePool>) -> io::Result<Self> {
        match Self::modern(depth, pool) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::plain(depth, pool),
            other => other,
        }
    }

    fn modern(depth: usize, pool: &Arc<FramePool>) -> io::Result<Self> {
        let io = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .build(entries(depth))?;
        Self::with(io, true, pool)
    }

    /// The plain ring of a kernel before 6.1.
    pub(super) fn plain(depth: usize, pool: &Arc<FramePool>) -> io::Result<Self> {
        let io = IoUring::builder().setup_clamp().build(entries(depth))?;
        Self::with(io, false, pool)
    }

    fn with(io: IoUring, disabled: bool, pool: &Arc<FramePool>) -> io::Result<Self> {
        // It came with reads that are not vectored (Linux 5.6).
        if !io.params().is_feature_rw_cur_pos() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut ring = Self {
            io,
            disabled,
            registered: Registered::new(pool),
            vectored: false,
            description: String::new(),
        };
        let opened = ring.registered.open(&ring.io.submitter());
        let kernel = if disabled { "" } else { " of an old kernel" };
        ring.description = match opened {
            Ok(()) => format!("io_uring{kernel} with registered buffers"),
            Err(error) => {
                format!("io_uring{kernel} without registered buffers (refused: {error})")
            }
        };
        ring.vectored = ring.has_vectored();
        Ok(ring)
    }

    /// The registered piece of memory in which all the frames lie, if there is one.
    pub(super) fn region_of(&mut self, frames: &[Frame]) -> Option<u16> {
        match self.registered.region_of(&self.io.submitter(), frames) {
            Ok(region) => region,
            Err(error) => {
                let (known, all) = self.registered.mib();
                self.description = format!(
                    "io_uring with {known} of {all} MiB of registered buffers (then refused: {error})"
                );
                None
            }
        }
    }

    /// Waits for `at_least` completions and submits nothing.
    pub(super) fn wait(&self, at_least: usize) -> io::Result<()> {
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: without an argument there is nothing that could be wrong.
        let entered = unsafe {
            self.io
                .submitter()
                .enter::<libc::sigset_t>(0, at_least as u32, flags, None)
        };
        entered.map(drop)
    }

    fn has_vectored(&self) -> bool {
        let mut probe = Probe::new();
        let asked = self.io.submitter().register_probe(&mut probe);
        asked.is_ok() && probe.is_supported(opcode::ReadvFixed::CODE)
    }
}

fn entries(depth: usize) -> u32 {
    depth.clamp(1, ENTRIES_MAX) as u32
}
