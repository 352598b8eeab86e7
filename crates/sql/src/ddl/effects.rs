//! What a transaction's changes of the catalogue leave to be done when it ends.

use std::collections::HashSet;

/// Core tables that were made or are no longer needed.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Made by this transaction: dropped if it does not commit. No committed row names them, so they are filled outside of
    /// the transaction.
    pub(crate) created: HashSet<u64>,
    /// Not named any more once it has committed.
    pub(crate) obsolete: Vec<u64>,
    /// Sequences: their reserved numbers are void once it has committed.
    pub(crate) sequences: Vec<u32>,
    /// Made by this transaction: no other one sees them, so their numbers are reserved by it.
    pub(crate) new_sequences: HashSet<u32>,
    /// Tables with a marker that the transaction removes.
    pub(crate) marked: Vec<u32>,
    /// Tables with another version once it has committed; `None`: they are dropped.
    pub(crate) versions: Vec<(u32, Option<u64>)>,
    /// Whether it has run a command, whatever is left to be done.
    pub(crate) has_changed_catalogue: bool,
}

impl Effects {
    /// Whether nothing is to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.obsolete.is_empty()
            && self.sequences.is_empty()
            && self.new_sequences.is_empty()
            && self.marked.is_empty()
            && self.versions.is_empty()
            && !self.has_changed_catalogue
    }
}
