//! The papers' trees: concurrent ordered indexes from byte-string keys to eight-byte payloads.
//!
//! | tree | technique |
//! |---|---|
//! | [Bw-tree](bwtree::BwTree) | deltas on pages behind a mapping table; its variants too, the OpenBw-Tree's layout among them |
//! | [BzTree](bztree::BzTree) | multi-word compare-and-swap in the nodes, append or in place |
//! | [Masstree](masstree::Masstree) | a trie of B+-trees over eight-byte slices |
//! | [B-link tree](blink::BlinkTree) | latched writers, latch-free readers |
//!
//! `namiki-index` has their contract: the traits, the parts that trees share, and the test suite
//! and loom models. `namiki` includes these trees with its feature `all-indexes`.
//!
//! Paper: bwtree §3, §4

pub mod blink;
pub mod bwtree;
pub mod bztree;
pub mod masstree;
mod mwcas;
