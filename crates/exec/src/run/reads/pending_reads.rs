//! Reads on their way: for each page the tasks that wait for it, so that it is read once.
//!
//! Paper: oode §2

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::run::tasks::{NONE, PageKey, TaskId, Tasks};

/// A read's number in its thread, its tag in the queue.
pub(crate) type ReadId = u32;

/// A read that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRead {
    /// The first page.
    pub(crate) key: PageKey,
    /// How many.
    pub(crate) pages: u32,
    /// The tasks that wait for it. Of an extent: the one task that gets it.
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

/// Pages side by side have numbers side by side; those of different segments are far apart.
pub(crate) fn number_of(key: PageKey) -> u64 {
    u64::from(key.segment) << 32 | u64::from(key.page.0)
}

impl PendingReads {
    /// Lets a task wait for a page. Gives the read's number if it is a new one.
    #[inline]
    pub(crate) fn wait(&mut self, tasks: &mut Tasks, id: TaskId, key: PageKey) -> Option<ReadId> {
        let number = number_of(key);
        if let Some(read) = self.by_page.get(&number) {
            let read = &mut self.reads[*read as usize];
            tasks.link(id, read.waiters);
            read.waiters = id;
            return None;
        }
        tasks.link(id, NONE);
        let read = self.add(PendingRead {
            key,
            pages: 1,
            waiters: id,
            is_extent: false,
        });
        self.by_page.insert(number, read);
        Some(read)
    }

    /// A read of pages side by side, for one task.
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

    /// Takes a read out that has come to its end.
    #[inline]
    pub(crate) fn take(&mut self, id: ReadId) -> PendingRead {
        let read = self.reads[id as usize];
        if !read.is_extent {
            self.by_page.remove(&number_of(read.key));
        }
        self.free.push(id);
        read
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// Forgets all.
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
        // The table takes its place from the low bits and its tags from the high ones.
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use namiki_segment::PageNo;

    use super::*;

    fn key(segment: u32, page: u32) -> PageKey {
        PageKey {
            segment,
            page: PageNo(page),
        }
    }

    #[test]
    fn tasks_that_wait_for_one_page_share_its_read() {
        let (mut tasks, mut pending) = (Tasks::default(), PendingReads::default());
        let ids: Vec<TaskId> = (0..4).map(|_| tasks.make(0)).collect();
        let first = pending.wait(&mut tasks, ids[0], key(0, 7)).unwrap();
        assert_eq!(pending.wait(&mut tasks, ids[1], key(0, 7)), None);
        let other = pending.wait(&mut tasks, ids[2], key(1, 7)).unwrap();
        assert_eq!(pending.wait(&mut tasks, ids[3], key(0, 7)), None);
        let read = pending.take(first);
        let mut waiters = Vec::new();
        let mut id = read.waiters;
        while id != NONE {
            waiters.push(id);
            id = tasks.next(id);
        }
        assert_eq!(waiters, [ids[3], ids[1], ids[0]]);
        assert_eq!(pending.take(other).waiters, ids[2]);
        assert!(pending.wait(&mut tasks, ids[0], key(0, 7)).is_some());
        assert_eq!(pending.len(), 1);
    }
}
