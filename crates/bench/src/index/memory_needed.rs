//! Whether a run fits into memory: better asked before than found out by being killed.

use super::drawn_operations::{Choice, Operations};

/// For each key: facts, payload, last writer, and its place in the order of all.
const CHECK_BYTES: u64 = 1 + 8 + 8 + 24;
/// For each key in a tree, beside its own bytes: a lean tree's.
const NODE_BYTES: u64 = 16;

/// About how many bytes a run takes, at the least.
pub(crate) fn bytes_needed(choice: &Choice) -> u64 {
    let key_bytes = choice.keys.bytes as u64;
    let load = Operations::bytes(choice.keys.bytes, choice.initial);
    let tree = choice.initial.saturating_mul(key_bytes + NODE_BYTES);
    let check = choice.keys.count.saturating_mul(CHECK_BYTES);
    // What is loaded is forgotten before the check, and the tree is not.
    tree.saturating_add(load.max(check))
}
