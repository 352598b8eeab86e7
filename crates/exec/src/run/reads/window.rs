//! Page-sorted windows: many faults wait together and are read in the order of their pages,
//! neighbours in one request.
//!
//! A join that reaches a good part of a table's pages reaches many neighbours. With a window, far
//! more tasks may fault than reads are in flight. Their pages are read in the order of the elevator
//! (SCAN) algorithm: upwards from the current position, and from the lowest page again at the end.
//! Pages that lie close together share a request with the few pages between them. So the plan needs
//! no point at which a scan takes over from look-ups: the look-ups become one.
//!
//! Pages between that no task waits for go into the cache.

use std::collections::BTreeSet;

use namiki_segment::PageNo;

use super::pending_reads::{ReadId, number_of};
use crate::run::tasks::PageKey;

/// Longest gap that is read along, in pages, between two pages that tasks wait for.
const BETWEEN_MAX: u32 = 3;

/// See the module.
#[derive(Default)]
pub(crate) struct Window {
    /// Reads by their pages.
    waiting: BTreeSet<(u64, ReadId)>,
    /// Position of the elevator.
    at: u64,
    runs: Vec<Run>,
    free: Vec<u32>,
}

/// A request for consecutive pages.
#[derive(Default)]
struct Run {
    first: u64,
    /// Reads that it carries out, in the order of their pages.
    reads: Vec<ReadId>,
}

impl Window {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn add(&mut self, key: PageKey, read: ReadId) {
        self.waiting.insert((number_of(key), read));
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.runs.clear();
        self.free.clear();
    }

    /// Begins the next request, of at most `pages_max` pages. Returns its number and its length.
    pub(crate) fn next_run(&mut self, pages_max: usize) -> Option<(u32, u32)> {
        let above = self.waiting.range((self.at, 0)..).next();
        let first = above.or_else(|| self.waiting.first()).copied()?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.runs.push(Run::default());
            self.runs.len() as u32 - 1
        });
        let run = &mut self.runs[number as usize];
        run.first = first.0;
        run.reads.clear();
        let mut last = first.0;
        while let Some(&(page, read)) = self.waiting.range((last, 0)..).next() {
            // The numbers of another segment's pages are far away.
            if page - last > u64::from(BETWEEN_MAX) + 1 || page - first.0 >= pages_max as u64 {
                break;
            }
            self.waiting.remove(&(page, read));
            run.reads.push(read);
            last = page;
        }
        self.at = last + 1;
        Some((number, (last - first.0) as u32 + 1))
    }

    /// The first page of a request.
    pub(crate) fn first_page(&self, number: u32) -> PageKey {
        let first = self.runs[number as usize].first;
        PageKey {
            segment: (first >> 32) as u32,
            page: PageNo(first as u32),
        }
    }

    /// Takes a request out that has ended: its first page, and its reads, in memory that
    /// [`Window::reuse`] takes.
    pub(crate) fn take_run(&mut self, number: u32) -> (PageKey, Vec<ReadId>) {
        let first = self.first_page(number);
        self.free.push(number);
        (first, std::mem::take(&mut self.runs[number as usize].reads))
    }

    /// Keeps the memory of a request's reads.
    pub(crate) fn reuse(&mut self, number: u32, mut reads: Vec<ReadId>) {
        reads.clear();
        self.runs[number as usize].reads = reads;
    }

    /// Puts the reads of a request back that was not pushed.
    pub(crate) fn put_back(&mut self, number: u32, keys: impl Fn(ReadId) -> PageKey) {
        let run = &mut self.runs[number as usize];
        for read in run.reads.drain(..) {
            self.waiting.insert((number_of(keys(read)), read));
        }
        self.at = run.first;
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::frame_share::RUN_PAGES_MAX;

    fn key(segment: u32, page: u32) -> PageKey {
        PageKey {
            segment,
            page: PageNo(page),
        }
    }

    #[test]
    fn neighbours_are_read_together_and_upwards() {
        let mut window = Window::default();
        let pages = [
            (0, 100),
            (0, 3),
            (0, 5),
            (0, 4),
            (1, 6),
            (0, 9),
            (0, 14),
            (1, 0),
        ];
        for (id, (segment, page)) in pages.into_iter().enumerate() {
            window.add(key(segment, page), id as ReadId);
        }
        window.at = number_of(key(0, 50));
        let mut runs = Vec::new();
        while let Some((number, count)) = window.next_run(RUN_PAGES_MAX) {
            runs.push((window.runs[number as usize].reads.clone(), count));
            window.free.push(number);
        }
        let expected: [(&[ReadId], u32); 5] = [
            (&[0], 1),
            (&[7], 1),
            (&[4], 1),
            (&[1, 3, 2, 5], 7),
            (&[6], 1),
        ];
        let expected = expected.map(|(reads, pages)| (reads.to_vec(), pages));
        assert_eq!(runs, expected);
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn a_request_has_a_length_limit_and_can_return() {
        let mut window = Window::default();
        for page in 0..100 {
            window.add(key(0, page), page);
        }
        let (number, pages) = window.next_run(RUN_PAGES_MAX).unwrap();
        assert_eq!(pages, RUN_PAGES_MAX as u32);
        window.put_back(number, |read| key(0, read));
        assert_eq!((window.len(), window.at), (100, 0));
        assert_eq!(
            window.next_run(RUN_PAGES_MAX),
            Some((0, RUN_PAGES_MAX as u32))
        );
    }
}
