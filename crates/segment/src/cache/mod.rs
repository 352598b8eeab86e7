//! The page cache: pages of open segments in memory, up to a number of bytes, shared by threads.
//!
//! ```text
//!  segment 7:  page   0      1      2      3      4          a page table for each segment: one word a page
//!                   | f2:1 |  –   | f0:0 |  –   |  –   |      frame, and how many readers have it pinned
//!                      │             │
//!  frames:   | f0 | f1 | f2 | f3 |      each with its owner: segment and page; the CLOCK's hand goes round here
//! ```
//!
//! A segment never changes and its length is known, so a page is found by its number in a table: no
//! hashing, and a hit takes one atomic addition, which pins the page, and no lock. A miss and
//! everything that changes what is resident take the one lock: a miss is followed by a read of the
//! device, a thousand times longer.
//!
//! Eviction is CLOCK with a small count instead of a bit: a hit raises a page's count up to three,
//! the hand lowers it, and evicts where it finds zero. A page begins at zero, so what a scan reads
//! once leaves before what is used again and again.
//!
//! A page is verified before it becomes resident
//! ([`Segment::verify_page`](crate::Segment::verify_page)): what is in the cache was checked
//! already.
//!
//! # Invariants
//! - K1. A page table's word names a frame only while that frame holds the page, whole and
//!   verified: it is set after the frame is filled (release) and cleared before the frame is
//!   emptied.
//! - K2. A frame is filled and emptied only under the lock, and only while no word names it.
//! - K3. A word that has pins keeps its frame: it is cleared by a compare-and-swap from a word
//!   without pins.
//! - K4. A pin is taken by an addition that finds a frame in the word (acquire, pairs with K1's
//!   release), and released by a subtraction (release, pairs with the acquire of the
//!   compare-and-swap of K3). One that finds no frame is taken back, and touches nothing else.
//!
//! K2 to K4 together: what a pin has found stays where it is, unchanged, until the pin is released.
//! `loom_model.rs` tries all interleavings.

mod clock;
mod frames;
#[cfg(test)]
#[cfg(loom)]
mod loom_model;
mod page_reader;
mod page_table;
mod residency;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use namiki_platform::disk::Frame;
use namiki_platform::sync::Mutex;

use self::clock::Clock;
use self::frames::Frames;
use self::page_table::PageTable;
use crate::format::PAGE_BYTES;
use crate::identity::SegmentId;
use crate::segment::Segment;

pub use self::page_reader::{Inserted, PageReader, ReaderCounters};

/// A buffer of one page in the cache, which others may read: a [`Frame`], which returns to its pool
/// when its page is evicted, or a `Box<[u8; PAGE_BYTES]>`.
pub trait PageFrame: Deref<Target = [u8; PAGE_BYTES]> + Send + Sync {}

impl<F: Deref<Target = [u8; PAGE_BYTES]> + Send + Sync> PageFrame for F {}

/// Pages in memory, shared by threads. Each thread looks pages up through a [`PageReader`] of its
/// own.
pub struct PageCache<F: PageFrame = Frame> {
    frames: Frames<F>,
    state: Mutex<State>,
}

/// The state under the lock.
struct State {
    tables: HashMap<SegmentId, Arc<PageTable>>,
    clock: Clock,
    inserted: u64,
    duplicates: u64,
    evicted: u64,
}

/// Contents and counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Number of pages that fit.
    pub capacity_pages: usize,
    /// Number of resident pages.
    pub resident_pages: usize,
    /// The number of pages that became resident.
    pub inserted: u64,
    /// Number of pages read although another reader had made them resident first.
    pub duplicates: u64,
    /// Number of evicted pages.
    pub evicted: u64,
}

impl<F: PageFrame> PageCache<F> {
    /// An empty cache for `bytes` of pages: one page at least. The tables, eight bytes a page of
    /// every segment that is read, come on top.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        let pages = (bytes / PAGE_BYTES).clamp(1, PageTable::FRAMES_MAX);
        Arc::new(Self {
            frames: Frames::new(pages),
            state: Mutex::new(State {
                tables: HashMap::new(),
                clock: Clock::new(pages),
                inserted: 0,
                duplicates: 0,
                evicted: 0,
            }),
        })
    }

    /// A reader for the look-ups of one thread.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> PageReader<F> {
        PageReader::new(self)
    }

    /// Counts, at about the same time.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        let state = self.state.lock();
        CacheCounters {
            capacity_pages: self.frames.len(),
            resident_pages: state.clock.resident(),
            inserted: state.inserted,
            duplicates: state.duplicates,
            evicted: state.evicted,
        }
    }

    /// The table of a segment, made if it is new.
    fn table_of(&self, segment: &Segment) -> Arc<PageTable> {
        let mut state = self.state.lock();
        let table = state.tables.entry(segment.id()).or_insert_with(|| {
            // Index and footer are pinned by the segment itself.
            Arc::new(PageTable::new(segment.data_pages() as usize))
        });
        Arc::clone(table)
    }
}

impl<F: PageFrame> std::fmt::Debug for PageCache<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counters = self.counters();
        let (resident, capacity) = (counters.resident_pages, counters.capacity_pages);
        write!(f, "PageCache({resident} of {capacity} pages)")
    }
}
