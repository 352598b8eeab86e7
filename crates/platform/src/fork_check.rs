//! Which process something belongs to, so that a forked child does not act on what it inherited.
//!
//! `fork` copies memory and shares open files. A child that unlocked, flushed or wrote what it
//! found in its memory would do so to the files of its parent, and a child that joined a thread of
//! its parent would wait for ever. So what owns such things keeps a [`ProcessToken`], and asks it
//! first.
//!
//! A page of memory that the kernel empties in a forked child (`MADV_WIPEONFORK`, Linux 4.14)
//! answers with one load. Without it, process ids are compared, which costs a system call.
//!
//! # Invariants
//! - T1. The page is mapped once and never unmapped.
//! - T2. No two processes that descend from each other by `fork` have the same number: a child
//!   draws its own from the counter that it inherited, above all numbers of its parent at that
//!   time. The parent keeps the number that it had.
#![expect(
    unsafe_code,
    reason = "asks for a page that a forked child finds empty"
)]

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, madvise};

use crate::memory::memory_mapping::Mapping;

/// The process in which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessToken(u64);

impl ProcessToken {
    /// The token of this process.
    #[must_use]
    pub fn current() -> Self {
        match wiped_page() {
            Some(page) => Self(number_in(page)),
            None => Self(u64::from(process::id())),
        }
    }

    /// The token of a process that is not this one.
    #[cfg(test)]
    pub(crate) fn of_another() -> Self {
        Self(Self::current().0 + 1)
    }

    /// Whether this process made it. False in a forked child of that process.
    #[must_use]
    pub fn is_current(self) -> bool {
        match wiped_page() {
            Some(page) => page.load(Ordering::Relaxed) == self.0,
            None => u64::from(process::id()) == self.0,
        }
    }
}

/// The number of this process, drawn if it has none.
fn number_in(page: &AtomicU64) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let drawn = page.load(Ordering::Relaxed);
    if drawn != 0 {
        return drawn;
    }
    // Relaxed: the numbers guard no other memory.
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => number,
        Err(of_another_thread) => of_another_thread,
    }
}

/// A word that is zero in a new process; `None` where the kernel has no such memory.
fn wiped_page() -> Option<&'static AtomicU64> {
    static PAGE: OnceLock<Option<Mapping>> = OnceLock::new();
    let page = PAGE
        .get_or_init(|| {
            let page = Mapping::new(rustix::param::page_size()).ok()?;
            // SAFETY: the range is the mapping's own, and nothing refers to it yet.
            let wiped = unsafe {
                madvise(
                    page.start().as_ptr().cast(),
                    page.bytes(),
                    Advice::LinuxWipeOnFork,
                )
            };
            wiped.ok().map(|()| page)
        })
        .as_ref()?;
    // SAFETY: the mapping is page-aligned, holds zeros at first, is as long as a page and stays for
    // ever (T1). All access to it goes through this atomic.
    Some(unsafe { AtomicU64::from_ptr(page.start().as_ptr().cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_one_token_on_all_its_threads() {
        let token = ProcessToken::current();
        assert!(token.is_current());
        let others: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(ProcessToken::current));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!(others, [token; 4]);
    }

    #[test]
    fn a_token_of_another_process_is_not_current() {
        let token = ProcessToken::current();
        assert!(!ProcessToken::of_another().is_current());
        assert!(token.is_current());
    }
}
