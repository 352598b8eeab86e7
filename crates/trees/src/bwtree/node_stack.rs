//! The node stack: the pages above a page that the descent to it passed.
//!
//! The paper's tree takes the parent of a page that it splits or merges from this stack. An entry is a
//! page number that was read under the guard of the operation, so it leads to the same page for as long
//! (M4 in `mapping_table.rs`), and that page has kept its lower fence. It may have been split since,
//! and the search goes right; or removed, and the search restarts from the root. The other variants
//! have no stack and search from the root.
//!
//! Paper: bwtree §4.1.1, figure 6 (`node_stack`)

use std::fmt;

use super::page_id::PageId;

/// The pages passed by a descent.
pub trait Stack: Copy + Default + fmt::Debug {
    /// Records the page of this level.
    fn record(&mut self, level: u8, page: PageId);

    /// The page of this level, if the descent passed one.
    fn page(&self, level: u8) -> Option<PageId>;
}

/// The stack of the variants that have none.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoStack;

impl Stack for NoStack {
    #[inline]
    fn record(&mut self, _level: u8, _page: PageId) {}

    #[inline]
    fn page(&self, _level: u8) -> Option<PageId> {
        None
    }
}

/// Levels above the leaves that a stack has room for. Pages above are searched for from the root.
const LEVELS: usize = 15;

/// The pages passed on each level above the leaves.
#[derive(Clone, Copy, Debug)]
pub struct NodeStack([PageId; LEVELS]);

impl Default for NodeStack {
    fn default() -> Self {
        Self([PageId::NONE; LEVELS])
    }
}

impl Stack for NodeStack {
    #[inline]
    fn record(&mut self, level: u8, page: PageId) {
        if let Some(entry) = usize::from(level)
            .checked_sub(1)
            .and_then(|i| self.0.get_mut(i))
        {
            *entry = page;
        }
    }

    #[inline]
    fn page(&self, level: u8) -> Option<PageId> {
        let entry = self.0.get(usize::from(level).checked_sub(1)?)?;
        (*entry != PageId::NONE).then_some(*entry)
    }
}
