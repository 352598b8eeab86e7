//! A ring for one thread's reads, and what the kernel allows it.
//!
//! Asked for: a single issuer, so that the kernel need not lock; deferred task run, so that completions are
//! processed when the thread asks for them and not whenever it enters the kernel; and the pool's memory
//! registered, so that no read has to look up and pin its buffer. A kernel before 6.1 has a plain ring, and a
//! process that may not pin so much memory (`RLIMIT_MEMLOCK`) reads into memory that is not registered.
#![expect(unsafe_code, reason = "registers memory with the kernel")]

use std::io;
use std::sync::Arc;

use io_uring::{EnterFlags, IoUring, Probe, opcode};

use crate::disk::async_read::FramePool;

/// The kernel takes no more entries.
pub(super) const ENTRIES_MAX: usize = 1 << 15;
/// The kernel registers no longer pieces of memory.
const REGION_BYTES: usize = 1 << 30;
/// Frames of one registered piece.
pub(super) const REGION_FRAMES: u32 = (REGION_BYTES / super::PAGE_BYTES) as u32;

/// A ring and what it can do.
///
/// # Invariants
/// - R1. Registered memory is that of `pool`, which is kept as long as the ring.
pub(super) struct Ring {
    pub(super) io: IoUring,
    pub(super) pool: Arc<FramePool>,
    /// Waits to be enabled by the thread that will use it.
    pub(super) disabled: bool,
    /// The pool's memory is registered.
    pub(super) registered: bool,
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

    /// What a kernel before 6.1 has.
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
            pool: Arc::clone(pool),
            disabled,
            registered: false,
            vectored: false,
            description: String::new(),
        };
        let registered = ring.register();
        let mut description = "io_uring".to_owned();
        if !disabled {
            description += " of an old kernel";
        }
        description += &match &registered {
            Ok(()) => " with registered buffers".to_owned(),
            Err(error) => format!(
                " without registered buffers ({} MiB were refused: {error})",
                pool.memory().1 >> 20
            ),
        };
        ring.registered = registered.is_ok();
        ring.vectored = ring.registered && ring.has_vectored();
        ring.description = description;
        Ok(ring)
    }

    fn register(&self) -> io::Result<()> {
        let (start, bytes) = self.pool.memory();
        let regions: Vec<libc::iovec> = (0..bytes)
            .step_by(REGION_BYTES)
            .map(|at| libc::iovec {
                iov_base: start.as_ptr().wrapping_add(at).cast(),
                iov_len: REGION_BYTES.min(bytes - at),
            })
            .collect();
        // SAFETY: the pieces are the pool's mapping, which outlives the ring (R1).
        unsafe { self.io.submitter().register_buffers(&regions) }
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
