//! Clock replacement: a hand that goes round the frames selects the page to evict. Under the
//! cache's lock.

use std::sync::Arc;

use super::page_table::{Aged, PageTable};
use crate::identity::PageNo;

/// Rounds after which a page that was used as often as is counted has to be found, if it is not
/// pinned.
const ROUNDS: usize = 5;

/// See the module.
pub(super) struct Clock {
    owners: Vec<Option<Owner>>,
    /// Frames without a page.
    free: Vec<u32>,
    hand: usize,
}

/// The page in a frame.
#[derive(Clone)]
struct Owner {
    table: Arc<PageTable>,
    page: PageNo,
}

impl Clock {
    pub(super) fn new(frames: usize) -> Self {
        Self {
            owners: vec![None; frames],
            free: (0..frames as u32).rev().collect(),
            hand: 0,
        }
    }

    pub(super) fn resident(&self) -> usize {
        self.owners.len() - self.free.len()
    }

    pub(super) fn take_free(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives back a frame without a page.
    pub(super) fn release(&mut self, frame: u32) {
        debug_assert!(self.owners[frame as usize].is_none());
        self.free.push(frame);
    }

    pub(super) fn own(&mut self, frame: u32, table: &Arc<PageTable>, page: PageNo) {
        self.owners[frame as usize] = Some(Owner {
            table: Arc::clone(table),
            page,
        });
    }

    /// Makes all pages of a segment absent that are not pinned, and returns their frames.
    pub(super) fn take_pages_of(&mut self, table: &Arc<PageTable>) -> Vec<u32> {
        let mut taken = Vec::new();
        for (owner, frame) in self.owners.iter_mut().zip(0..) {
            let is_taken = owner.as_ref().is_some_and(|owner| {
                Arc::ptr_eq(&owner.table, table)
                    && owner.table.take_if_unpinned(owner.page).is_some()
            });
            if is_taken {
                *owner = None;
                taken.push(frame);
            }
        }
        taken
    }

    /// Makes the next page absent that is neither pinned nor used lately, and returns its frame;
    /// nothing if all are pinned.
    pub(super) fn sweep(&mut self) -> Option<u32> {
        for _ in 0..self.owners.len() * ROUNDS {
            let frame = self.hand;
            self.hand = (self.hand + 1) % self.owners.len();
            let Some(owner) = &self.owners[frame] else {
                continue;
            };
            if owner.table.age(owner.page) == Aged::Evicted {
                self.owners[frame] = None;
                return Some(frame as u32);
            }
        }
        None
    }
}
