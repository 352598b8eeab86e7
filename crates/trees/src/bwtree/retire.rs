//! Retirement of chains: hands those that left the tree to the collector.
//!
//! The collector gathers the chains that a thread retires in a bag, and later frees a bag as a
//! whole within some operation. By default a bag takes 64 chains, some 300 nodes, which are long
//! out of the cache: one write in some hundred would wait 6 to 10 µs for them. So a thread hands
//! over its bag when it holds a few chains. They are freed sooner, too, while they are still in the
//! cache.
#![expect(unsafe_code, reason = "what is retired must be out of reach")]

use std::cell::Cell;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::defer::defer;

use super::node::{Header, free_chain};
use super::variant::Variant;

/// Chains in a bag. Handing a bag over reads the state of every thread that uses the collector.
const CHAINS: u32 = 16;

/// Frees a chain once nothing can refer to it.
///
/// # Safety
/// A thread that pins from now on cannot reach the chain; and it is retired once.
pub(super) unsafe fn retire_chain<K: Key, V: Variant>(chain: *const Header<K>, guard: &Guard) {
    // SAFETY: the caller's promise. `Header` pointers need no thread to be freed on.
    unsafe { defer(guard, move || free_chain::<K, V>(chain)) };
    thread_local!(static IN_BAG: Cell<u32> = const { Cell::new(0) });
    let in_bag = IN_BAG.get() + 1;
    if in_bag < CHAINS {
        IN_BAG.set(in_bag);
    } else {
        IN_BAG.set(0);
        guard.flush();
    }
}
