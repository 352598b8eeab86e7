//! Pending reads: the tasks that wait for each page, so that the page is read once (`run/mod.rs`,
//! T3).
//!
//! Paper: oode §2

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::run::tasks::{NONE, PageKey, TaskId};

/// Number of a read in its thread, and its tag in the queue.
pub(crate) type ReadId = u32;

/// A read that was requested and has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRead {
    /// The first page.
    pub(crate) key: PageKey,
    /// Number of pages.
    pub(crate) pages: u32,
    /// The newest task that waits for it, in front of the others; for an extent the only one.
    pub(crate) waiters: TaskId,
    /// Whether it is an extent, which tasks do not share.
    pub(crate) is_extent: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct PendingReads {
    reads: Vec<PendingRead>,
    free: Vec<ReadId>,
    by_page: HashMap<u64, ReadId, BuildHasherDefault<PageHasher>>,
}

/// Number of a page. Those of one segment are consecutive; other segments are far away.
pub(crate) fn number_of(key: PageKey) -> u64 {
    u64::from(key.segment) << 32 | u64::from(key.page.0)
}

impl PendingReads {
    /// Puts a task in front of those that wait for a page. Returns the read's number if it is new,
    /// and the first of the others.
    #[inline]
    pub(crate) fn wait(&mut self, id: TaskId, key: PageKey) -> (Option<ReadId>, TaskId) {
        let number = number_of(key);
        if let Some(read) = self.by_page.get(&number) {
            let read = &mut self.reads[*read as usize];
            return (None, std::mem::replace(&mut read.waiters, id));
        }
        let read = self.add(PendingRead {
            key,
            pages: 1,
            waiters: id,
            is_extent: false,
        });
        self.by_page.insert(number, read);
        (Some(read), NONE)
    }

    /// Adds a read of consecutive pages for one task.
    pub(crate) fn add_extent(&mut self, id: TaskId, key: PageKey, pages: u32) -> ReadId {
        self.add(PendingRead {
            key,
            pages,
            waiters: id,
            is_extent: true,
        })
    }

    fn add(&mut self, read: PendingRead) -> ReadId {
        match self.free.pop() {
            Some(id) => {
                self.reads[id as usize] = read;
                id
            }
            None => {
                self.reads.push(read);
                self.reads.len() as ReadId - 1
            }
        }
    }

    pub(crate) fn get(&self, id: ReadId) -> PendingRead {
        self.reads[id as usize]
    }

    /// Takes a read out that has ended.
    #[inline]
    pub(crate) fn take(&mut self, id: ReadId) -> PendingRead {
        let read = self.reads[id as usize];
        if !read.is_extent {
            self.by_page.remove(&number_of(read.key));
        }
        self.free.push(id);
        read
    }

    /// Number of reads.
    pub(crate) fn len(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// Forgets all reads.
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.free.clear();
        self.by_page.clear();
    }
}

/// Spreads page numbers by one multiplication.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes a bucket from the low bits and a tag from the high ones.
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use namiki_segment::PageNo;

    use super::*;
    use crate::run::tasks::{State, TaskSlab};

    fn key(segment: u32, page: u32) -> PageKey {
        PageKey {
            segment,
            page: PageNo(page),
        }
    }

    #[test]
    fn tasks_that_wait_for_one_page_share_its_read() {
        let (mut tasks, mut pending) = (TaskSlab::default(), PendingReads::default());
        let ids: Vec<TaskId> = (0..4).map(|_| tasks.make(0, State::Start)).collect();
        let mut wait = |pending: &mut PendingReads, id, key| {
            let (read, others) = pending.wait(id, key);
            tasks.link(id, others);
            read
        };
        let first = wait(&mut pending, ids[0], key(0, 7)).unwrap();
        assert_eq!(wait(&mut pending, ids[1], key(0, 7)), None);
        let other = wait(&mut pending, ids[2], key(1, 7)).unwrap();
        assert_eq!(wait(&mut pending, ids[3], key(0, 7)), None);
        let read = pending.take(first);
        let mut waiters = Vec::new();
        let mut id = read.waiters;
        while id != NONE {
            waiters.push(id);
            id = tasks.next(id);
        }
        assert_eq!(waiters, [ids[3], ids[1], ids[0]]);
        assert_eq!(pending.take(other).waiters, ids[2]);
        assert!(pending.wait(ids[0], key(0, 7)).0.is_some());
        assert_eq!(pending.len(), 1);
    }
}
