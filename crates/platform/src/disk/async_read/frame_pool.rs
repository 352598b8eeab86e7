//! Page frames: a fixed number of 4 KiB buffers in one mapping.
//!
//! One mapping, because io_uring then pins it once ("registered buffers") and spares the kernel to
//! look up and pin each buffer of each read.
//!
//! # Invariants
//! - P1. The mapping is valid for `capacity × PAGE_BYTES` bytes, which were zero at first, and
//!   lives as long as the pool; each frame keeps the pool.
//! - P2. A number below `capacity` is either in `free` or in exactly one [`Frame`]: `take` removes
//!   it from `free` before the frame exists, and only the frame's drop puts it back. So two frames
//!   never overlap.
//! - P3. An operation outside of Rust's sight (a read in flight) writes a frame's bytes only while
//!   that frame is owned by a queue that makes no reference to them.
#![expect(unsafe_code, reason = "frames are parts of one mapping")]

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::PAGE_BYTES;
use crate::Mapping;

/// A fixed number of page frames.
pub struct FramePool {
    memory: Mapping,
    capacity: u32,
    /// Numbers of the frames that are not owned. The one given back last is taken first: its bytes
    /// may still be in the processor's cache.
    free: Mutex<Vec<u32>>,
}

impl FramePool {
    /// Maps memory for this number of frames, at least one. The kernel provides it as frames are
    /// first used, or all of it when a queue registers the pool.
    ///
    /// # Errors
    /// `OutOfMemory` if there is not that much, or more than 2³² frames.
    pub fn new(frames: usize) -> io::Result<Arc<Self>> {
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let frames = frames.max(1);
        let capacity = u32::try_from(frames).map_err(|_| too_many())?;
        let bytes = frames.checked_mul(PAGE_BYTES).ok_or_else(too_many)?;
        Ok(Arc::new(Self {
            memory: Mapping::new(bytes)?,
            capacity,
            free: Mutex::new((0..capacity).rev().collect()),
        }))
    }

    /// A frame, unless all are in use. Its bytes are what its last owner left.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<Frame> {
        let number = self.free.lock().pop()?;
        Some(Frame {
            pool: Arc::clone(self),
            number,
        })
    }

    /// Number of frames.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Number of frames that are owned at the moment.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.capacity() - self.free.lock().len()
    }

    /// The memory of all frames, in the order of their numbers.
    pub(super) fn memory(&self) -> (NonNull<u8>, usize) {
        (self.memory.start(), self.capacity() * PAGE_BYTES)
    }

    /// The first byte of a frame.
    fn start_of(&self, number: u32) -> NonNull<u8> {
        assert!(number < self.capacity);
        // SAFETY: below `capacity` (asserted), so that the frame lies in the mapping (P1).
        unsafe { self.memory.start().add(number as usize * PAGE_BYTES) }
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, all) = (self.in_use(), self.capacity);
        write!(f, "FramePool({used} of {all} frames in use)")
    }
}

/// The exclusive owner of one frame, aligned for direct I/O. Dropped, it gives the frame back.
pub struct Frame {
    pool: Arc<FramePool>,
    number: u32,
}

impl Frame {
    /// The pool that it came from.
    #[must_use]
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// Its place in the pool: below [`FramePool::capacity`], different from that of every other
    /// frame in use.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its first byte, for a device.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.pool.start_of(self.number)
    }
}

impl Deref for Frame {
    type Target = [u8; PAGE_BYTES];

    #[inline]
    fn deref(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: a whole frame of initialised bytes (P1), which no other frame overlaps (P2) and
        // no read in flight writes (P3); `&self` is shared.
        unsafe { self.start().cast().as_ref() }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { self.start().cast().as_mut() }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.free.lock().push(self.number);
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_do_not_overlap_and_come_back() {
        let pool = FramePool::new(700).unwrap();
        let mut frames: Vec<Frame> = (0..700).map(|_| pool.take().unwrap()).collect();
        assert!(pool.take().is_none());
        assert_eq!((pool.capacity(), pool.in_use()), (700, 700));
        for frame in &mut frames {
            assert_eq!(frame.as_ptr().addr() % PAGE_BYTES, 0);
            assert!(frame.iter().all(|byte| *byte == 0));
            let number = frame.number();
            frame.fill(number as u8);
        }
        for frame in &frames {
            assert!(frame.iter().all(|byte| *byte == frame.number() as u8));
        }
        frames.truncate(3);
        assert_eq!(pool.in_use(), 3);
        assert!(pool.take().is_some());
        drop(frames);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn a_frame_outlives_the_last_handle_of_its_pool() {
        let pool = FramePool::new(0).unwrap();
        let mut frame = pool.take().unwrap();
        drop(pool);
        frame.fill(7);
        assert_eq!(frame[PAGE_BYTES - 1], 7);
        assert_eq!(frame.pool().in_use(), 1);
    }

    #[test]
    fn threads_share_a_pool_without_losing_frames() {
        let pool = FramePool::new(8).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let Some(mut frame) = pool.take() else {
                            continue;
                        };
                        frame.fill(thread);
                        assert!(frame.iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        assert_eq!(pool.in_use(), 0);
    }
}
