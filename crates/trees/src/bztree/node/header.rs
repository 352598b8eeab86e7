//! The header of every node.

use namiki_index::key::Key;
use namiki_platform::sync::AtomicU64;

use crate::bztree::status_word::SLOTS_MAX;

/// The header of every node. Look-ups and changes use its first line only.
#[repr(C, align(64))]
pub(super) struct Header<K: Key> {
    /// See `status_word.rs`.
    pub(super) status: AtomicU64,
    /// A byte for each slot, of the hash of its key.
    pub(super) hashes: [AtomicU64; SLOTS_MAX / 8],
    /// Counts of in-place replacements that were begun and done: see `scan.rs`.
    pub(super) updates_begun: AtomicU64,
    pub(super) updates_done: AtomicU64,
    /// Counter of the leaf's version when the node was built.
    pub(super) counter: u64,
    pub(super) number: u32,
    pub(super) len: u16,
    pub(super) level: u8,
    pub(super) slots: u8,
    pub(super) bytes: u32,
    /// Number of leading bytes that all keys of the sorted region share.
    pub(super) prefix: u32,
    pub(super) low: K::Raw,
    pub(super) high: K::Raw,
    pub(super) has_high: bool,
}
