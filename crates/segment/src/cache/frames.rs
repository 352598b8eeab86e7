//! The frames of a cache, by number.
#![expect(
    unsafe_code,
    reason = "a frame is read without a lock, by a reader that has pinned its page"
)]

use namiki_platform::sync::UnsafeCell;

/// Frames that are filled and emptied under the cache's lock, and read under pins.
pub(super) struct Frames<F> {
    cells: Box<[UnsafeCell<Option<F>>]>,
}

// SAFETY: a cell is written only under the cache's lock while no page table names it
// (`cache/mod.rs`, K2), and read only under a pin, which keeps it named (K3, K4). So `F` is moved
// between threads (Send) and read by several (Sync), never both at once.
unsafe impl<F: Send + Sync> Sync for Frames<F> {}
// SAFETY: it owns what is in the cells.
unsafe impl<F: Send> Send for Frames<F> {}

impl<F> Frames<F> {
    pub(super) fn new(count: usize) -> Self {
        Self {
            cells: (0..count).map(|_| UnsafeCell::new(None)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Puts a frame into a cell. Under the cache's lock, and while no page table names the cell (K2).
    ///
    /// # Safety
    /// As said: then nothing else reads or writes the cell.
    pub(super) unsafe fn fill(&self, cell: u32, frame: F) {
        // SAFETY: exclusive, by the caller's promise.
        self.cells[cell as usize].with_mut(|cell| unsafe { *cell = Some(frame) });
    }

    /// Drops the frame of a cell.
    ///
    /// # Safety
    /// As for [`Frames::fill`].
    pub(super) unsafe fn empty(&self, cell: u32) {
        // SAFETY: exclusive, by the caller's promise.
        self.cells[cell as usize].with_mut(|cell| unsafe { *cell = None });
    }

    /// The frame in a cell.
    ///
    /// # Safety
    /// The caller holds a pin that has found this cell, and keeps it for `'f`: the cell was filled before (K1), and is
    /// not written until the pin is released (K2, K3).
    pub(super) unsafe fn get<'f>(&self, cell: u32) -> Option<&'f F>
    where
        F: 'f,
    {
        // SAFETY: filled and not written for `'f`, by the caller's promise; and the cache is kept that long by the same
        // reader that holds the pin.
        self.cells[cell as usize].with(|cell| unsafe { (*cell).as_ref() })
    }
}
