//! The root word: the page at which a search begins.

use std::sync::atomic::Ordering;

use namiki_platform::sync::AtomicU64;

use super::page_id::PageId;

/// The root page's id and the number of changes of the root.
///
/// ```text
///  63        32 31        0
/// |  changes   |  page id  |
/// ```
/// The count guards against the root going from P to N (split) and back to P (collapse) between a
/// slow thread's look and its compare-and-swap: otherwise it would install a root that knows a page
/// long merged away (trap "root split and collapse").
pub(super) struct Root(AtomicU64);

/// One value of the root word.
#[derive(Clone, Copy)]
pub(super) struct RootWord {
    word: u64,
    pub(super) page: PageId,
}

impl Root {
    pub(super) fn new(page: PageId) -> Self {
        Self(AtomicU64::new(u64::from(page.0)))
    }

    /// `Acquire` pairs with the `Release` of `replace`: the page's slot is filled.
    #[inline]
    pub(super) fn load(&self) -> RootWord {
        let word = self.0.load(Ordering::Acquire);
        RootWord {
            word,
            page: PageId(word as u32),
        }
    }

    /// Makes `page` the root if nothing changed since `seen`.
    #[inline]
    pub(super) fn replace(&self, seen: RootWord, page: PageId) -> bool {
        let next = ((seen.word >> 32) + 1) << 32 | u64::from(page.0);
        self.0
            .compare_exchange(seen.word, next, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }
}
