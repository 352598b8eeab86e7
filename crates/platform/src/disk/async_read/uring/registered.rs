//! The pool's memory, registered with a ring piece by piece as reads use it.
//!
//! Registering pins memory, so the kernel has to provide all of it at once. For a large cache of a
//! virtual machine that can take minutes, most of it for frames that are never used. So a piece of
//! 2 MiB, a huge page, is registered when the first of its frames is read into.
#![expect(unsafe_code, reason = "registers memory with the kernel")]

use std::io;
use std::sync::Arc;

use io_uring::Submitter;

use crate::disk::async_read::{Frame, FramePool, PAGE_BYTES};

/// The least frames of a piece: those of a huge page.
const REGION_FRAMES_MIN: usize = (2 << 20) / PAGE_BYTES;
/// The kernel keeps track of no more pieces.
const REGIONS_MAX: usize = 1 << 14;

/// The regions of a pool that one ring has registered.
///
/// # Invariants
/// - R1. Registered memory is that of `pool`, which is kept until the ring is gone.
pub(super) struct Registered {
    pool: Arc<FramePool>,
    region_frames: usize,
    /// Whether the ring knows each piece.
    known: Vec<bool>,
    /// More pieces may be registered.
    open: bool,
    known_bytes: usize,
}

impl Registered {
    /// Nothing yet. The ring must be gone when this is dropped.
    pub(super) fn new(pool: &Arc<FramePool>) -> Self {
        let least = pool.capacity().div_ceil(REGIONS_MAX);
        let region_frames = least.next_power_of_two().max(REGION_FRAMES_MIN);
        let regions = pool.capacity().div_ceil(region_frames);
        Self {
            pool: Arc::clone(pool),
            region_frames,
            known: vec![false; regions],
            open: false,
            known_bytes: 0,
        }
    }

    /// Makes room for all pieces in the ring.
    ///
    /// # Errors
    /// If the kernel has no such registration (before Linux 5.19).
    pub(super) fn open(&mut self, ring: &Submitter<'_>) -> io::Result<()> {
        ring.register_buffers_sparse(self.known.len() as u32)?;
        self.open = true;
        Ok(())
    }

    /// Registers nothing more, and forgets what was.
    #[cfg(test)]
    pub(super) fn close(&mut self) {
        self.open = false;
        self.known.fill(false);
    }

    pub(super) fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// The registered piece in which all the frames lie, if there is one. Registers it if need be.
    ///
    /// # Errors
    /// The kernel's refusal, once: nothing more is registered after it.
    pub(super) fn region_of(
        &mut self,
        ring: &Submitter<'_>,
        frames: &[Frame],
    ) -> io::Result<Option<u16>> {
        let Some(first) = frames.first() else {
            return Ok(None);
        };
        let region = first.number() as usize / self.region_frames;
        let inside = |frame: &Frame| {
            frame.number() as usize / self.region_frames == region
                && Arc::ptr_eq(frame.pool(), &self.pool)
        };
        if !frames.iter().all(inside) {
            return Ok(None);
        }
        if !self.known[region] {
            if !self.open {
                return Ok(None);
            }
            self.register(ring, region)
                .inspect_err(|_| self.open = false)?;
        }
        Ok(Some(region as u16))
    }

    fn register(&mut self, ring: &Submitter<'_>, region: usize) -> io::Result<()> {
        let (start, bytes) = self.pool.memory();
        let at = region * self.region_frames * PAGE_BYTES;
        let iov_len = (self.region_frames * PAGE_BYTES).min(bytes - at);
        let piece = libc::iovec {
            iov_base: start.as_ptr().wrapping_add(at).cast(),
            iov_len,
        };
        // SAFETY: part of the pool's mapping, which outlives the ring (R1).
        unsafe {
            ring.register_buffers_update(region as u32, &[piece], None)?;
        }
        self.known[region] = true;
        self.known_bytes += iov_len;
        Ok(())
    }

    /// The registered memory and the whole memory of the pool, in MiB.
    pub(super) fn mib(&self) -> (usize, usize) {
        (self.known_bytes >> 20, self.pool.memory().1 >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_of_a_pool_lies_in_a_piece() {
        for frames in [1, 511, 512, 513, 100_000] {
            let registered = Registered::new(&FramePool::new(frames).unwrap());
            assert!(registered.known.len() <= REGIONS_MAX);
            assert_eq!(registered.known.len(), frames.div_ceil(512));
        }
        // A pool of 64 GiB, whose memory is never used.
        if let Ok(pool) = FramePool::new(1 << 24) {
            let registered = Registered::new(&pool);
            assert_eq!(registered.known.len(), REGIONS_MAX);
            assert_eq!(registered.region_frames, 1024);
        }
    }
}
