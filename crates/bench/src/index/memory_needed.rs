//! Whether a run fits into memory: better asked before than found out by being killed.

use std::fs;

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

/// How many bytes the operating system can still give away, if it says so.
pub(crate) fn bytes_available() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable:   12345 kB`.
fn available(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let says = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes = says.trim().strip_suffix("kB")?.trim();
    kilobytes.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_says_what_is_left() {
        let text = "MemTotal: 9 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert!(bytes_available().unwrap() > 1 << 20);
    }
}
