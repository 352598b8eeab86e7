//! The reader for the look-ups of one thread: it pins every page it returns, until it is told to
//! release them.
//!
//! A row that a look-up finds borrows from the reader, and [`PageReader::release`] borrows it
//! mutably: so no row can outlive its pin.
#![expect(
    unsafe_code,
    reason = "pages live as long as their pins, which the compiler cannot see"
)]

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use namiki_platform::disk::Frame;

use super::page_table::PageTable;
use super::{PageCache, PageFrame};
use crate::error::SegmentError;
use crate::format::PAGE_BYTES;
use crate::identity::{PageNo, SegmentId};
use crate::pages::Pages;
use crate::resident_page::PageRef;
use crate::segment::Segment;

/// Looks pages up for one thread, or one task: see the module.
///
/// # Invariants
/// - P1. Every element of `held` is a pin that was taken and not released, on a page of a table
///   that `tables` keeps.
/// - P2. Elements are removed only by [`PageReader::release`] and by dropping, which have the
///   reader to themselves: no [`PageRef`] that it gave out is alive then.
pub struct PageReader<F: PageFrame = Frame> {
    cache: Arc<PageCache<F>>,
    tables: RefCell<Vec<(SegmentId, Arc<PageTable>)>>,
    held: RefCell<Vec<Held>>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Held {
    /// Its table's place in `tables`.
    table: u32,
    page: PageNo,
    slot: u32,
}

/// Number of the latest pins that are searched before another one is taken.
const RECENT: usize = 4;

/// Counts of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounters {
    /// Look-ups of pages that were resident.
    pub hits: u64,
    /// Look-ups of pages that were not.
    pub misses: u64,
}

/// The outcome of inserting a page that was read.
#[derive(Debug)]
pub enum Inserted<F> {
    /// It is resident, and pinned by the reader.
    Resident,
    /// Another reader had made it resident first. That one is pinned; the frame was dropped.
    Duplicate,
    /// All pages of the cache are pinned. The frame, with the verified page in it: use it, or
    /// release other pages and try again.
    Full(F),
}

impl<F: PageFrame> PageReader<F> {
    pub(super) fn new(cache: &Arc<PageCache<F>>) -> Self {
        Self {
            cache: Arc::clone(cache),
            tables: RefCell::default(),
            held: RefCell::default(),
            hits: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<PageCache<F>> {
        &self.cache
    }

    /// Verifies a page that was read into `frame` and makes it resident, pinned until
    /// [`PageReader::release`].
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if the page is not what was written there; the frame is dropped.
    pub fn insert(
        &self,
        segment: &Segment,
        page: PageNo,
        frame: F,
    ) -> Result<Inserted<F>, SegmentError> {
        segment.verify_page(page, &frame[..])?;
        let number = self.table_number(segment);
        let table = Arc::clone(&self.tables.borrow()[number].1);
        match self.cache.insert(&table, page, frame) {
            Ok(pinned) => {
                self.hold(number, page, pinned.slot);
                Ok(if pinned.is_duplicate {
                    Inserted::Duplicate
                } else {
                    Inserted::Resident
                })
            }
            Err(frame) => Ok(Inserted::Full(frame)),
        }
    }

    /// Releases all pins. The pages stay resident until they are evicted.
    pub fn release(&mut self) {
        let tables = self.tables.get_mut();
        // P2: `&mut self`, so nothing refers to the pages.
        for held in self.held.get_mut().drain(..) {
            tables[held.table as usize].1.unpin(held.page);
        }
    }

    /// Number of held pins: a page that was returned twice may be counted twice.
    #[must_use]
    pub fn pins(&self) -> usize {
        self.held.borrow().len()
    }

    /// The counts.
    #[must_use]
    pub fn counters(&self) -> ReaderCounters {
        ReaderCounters {
            hits: self.hits.get(),
            misses: self.misses.get(),
        }
    }

    /// The place of a segment's table, which is fetched from the cache at first.
    #[inline]
    fn table_number(&self, segment: &Segment) -> usize {
        let id = segment.id();
        let known = self
            .tables
            .borrow()
            .iter()
            .position(|(known, _)| *known == id);
        known.unwrap_or_else(|| self.add_table(segment))
    }

    #[cold]
    fn add_table(&self, segment: &Segment) -> usize {
        let table = self.cache.table_of(segment);
        let mut tables = self.tables.borrow_mut();
        tables.push((segment.id(), table));
        tables.len() - 1
    }

    fn hold(&self, table: usize, page: PageNo, slot: u32) {
        self.held.borrow_mut().push(Held {
            table: table as u32,
            page,
            slot,
        });
    }

    /// The page in a slot on which this reader holds a pin.
    ///
    /// # Safety
    /// The pin is an element of `held`.
    unsafe fn page_in(&self, slot: u32) -> Option<PageRef<'_>> {
        // SAFETY: the pin stays as long as `self` is borrowed (P2), and `self` keeps the cache. So
        // for the lifetime of the result the slot is as the pin found it.
        let frame: Option<&F> = unsafe { self.cache.frames.get(slot) };
        let bytes: &[u8; PAGE_BYTES] = frame?;
        Some(PageRef::of_verified(bytes))
    }
}

impl<F: PageFrame> Pages for PageReader<F> {
    #[inline]
    fn page(&self, segment: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        let number = self.table_number(segment);
        // A walk asks for the same page again and again; a join, for two or three in turns.
        let recent = self
            .held
            .borrow()
            .iter()
            .rev()
            .take(RECENT)
            .copied()
            .find(|held| held.page == page && held.table as usize == number);
        if let Some(held) = recent {
            self.hits.set(self.hits.get() + 1);
            // SAFETY: it is an element of `held`.
            return unsafe { self.page_in(held.slot) };
        }
        let pinned = self.tables.borrow()[number].1.pin(page);
        let Some(slot) = pinned else {
            self.misses.set(self.misses.get() + 1);
            return None;
        };
        self.hits.set(self.hits.get() + 1);
        self.hold(number, page, slot);
        // SAFETY: it has just become an element of `held`.
        unsafe { self.page_in(slot) }
    }
}

impl<F: PageFrame> Drop for PageReader<F> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<F: PageFrame> std::fmt::Debug for PageReader<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageReader({} pins of {:?})", self.pins(), self.cache)
    }
}
