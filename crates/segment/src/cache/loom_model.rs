//! The cache under a model checker: every interleaving of readers without locks and of insertions
//! that evict what they read.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki-segment --lib --release model
//! ```

use std::sync::Arc;

use loom::thread;
use namiki_platform::model_checker::explore;

use super::page_table::PageTable;
use super::{PAGE_BYTES, PageCache};
use crate::identity::PageNo;

type Cache = PageCache<Box<[u8; PAGE_BYTES]>>;

/// A page of bytes that tell its number.
fn frame(page: u32) -> Box<[u8; PAGE_BYTES]> {
    Box::new([page as u8 + 1; PAGE_BYTES])
}

fn cache(pages: usize) -> (Arc<Cache>, Arc<PageTable>) {
    (
        PageCache::new(pages * PAGE_BYTES),
        Arc::new(PageTable::new(3)),
    )
}

/// Looks a page up as a reader does, and reads it twice before the pin is released.
fn look(cache: &Cache, table: &PageTable, page: u32) -> bool {
    let Some(slot) = table.pin(PageNo(page)) else {
        return false;
    };
    for _ in 0..2 {
        assert_eq!(cache.byte_in(slot), Some(page as u8 + 1));
        // Another thread may come between the two reads.
        assert!(table.pins(PageNo(page)) > 0);
    }
    table.unpin(PageNo(page));
    true
}

fn add(cache: &Cache, table: &Arc<PageTable>, page: u32) -> bool {
    match cache.insert(table, PageNo(page), frame(page)) {
        Ok(pinned) => {
            assert_eq!(cache.byte_in(pinned.slot), Some(page as u8 + 1));
            table.unpin(PageNo(page));
            true
        }
        Err(_) => false,
    }
}

#[test]
fn a_pinned_page_stays_while_another_takes_its_frame() {
    explore(3, || {
        let (cache, table) = cache(1);
        assert!(add(&cache, &table, 0));
        let reader = thread::spawn({
            let (cache, table) = (Arc::clone(&cache), Arc::clone(&table));
            move || look(&cache, &table, 0)
        });
        // With one frame, this evicts page 0 or finds it pinned.
        let is_in = add(&cache, &table, 1);
        let was_hit = reader.join().unwrap();
        assert!(is_in || was_hit);
        assert_eq!(table.pins(PageNo(0)) + table.pins(PageNo(1)), 0);
        assert_eq!(look(&cache, &table, 1), is_in);
    });
}

#[test]
fn a_reader_never_sees_a_page_that_is_not_whole() {
    explore(3, || {
        let (cache, table) = cache(1);
        let reader = thread::spawn({
            let (cache, table) = (Arc::clone(&cache), Arc::clone(&table));
            move || {
                look(&cache, &table, 0);
                look(&cache, &table, 1);
            }
        });
        add(&cache, &table, 0);
        add(&cache, &table, 1);
        reader.join().unwrap();
        assert_eq!(table.pins(PageNo(0)) + table.pins(PageNo(1)), 0);
    });
}

#[test]
fn two_insertions_of_a_page_make_one_resident() {
    explore(3, || {
        let (cache, table) = cache(2);
        let other = thread::spawn({
            let (cache, table) = (Arc::clone(&cache), Arc::clone(&table));
            move || add(&cache, &table, 0)
        });
        assert!(add(&cache, &table, 0));
        assert!(other.join().unwrap());
        let counters = cache.counters();
        assert_eq!((counters.inserted, counters.duplicates), (1, 1));
        assert_eq!((counters.resident_pages, table.pins(PageNo(0))), (1, 0));
    });
}

#[test]
fn eviction_and_forgetting_empty_a_frame_once() {
    explore(3, || {
        let (cache, table) = cache(1);
        assert!(add(&cache, &table, 0));
        let evictor = thread::spawn({
            let cache = Arc::clone(&cache);
            move || cache.evict(1)
        });
        let is_in = add(&cache, &table, 1);
        look(&cache, &table, 0);
        let evicted = evictor.join().unwrap();
        assert!(is_in);
        let counters = cache.counters();
        assert_eq!(counters.inserted, 2);
        assert_eq!(counters.resident_pages as u64, 2 - counters.evicted);
        assert!(evicted <= 1);
    });
}
