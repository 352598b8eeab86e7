//! Estimates whether a run fits into memory, which is better than being killed.

use super::drawn_operations::{Choice, Operations};

/// For each key: facts, payload, last writer, and its position in the key order.
const CHECK_BYTES: u64 = 1 + 8 + 8 + 24;
/// Overhead of a lean tree for each key, in addition to the key's bytes.
const NODE_BYTES: u64 = 16;

/// A rough lower bound for the bytes that a run takes.
pub(crate) fn bytes_needed(choice: &Choice) -> u64 {
    let key_bytes = choice.keys.bytes as u64;
    let load = Operations::bytes(choice.keys.bytes, choice.initial);
    let tree = choice.initial.saturating_mul(key_bytes + NODE_BYTES);
    let check = choice.keys.count.saturating_mul(CHECK_BYTES);
    // The load is freed before the check; the tree is not.
    tree.saturating_add(load.max(check))
}
