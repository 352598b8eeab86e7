//! Concurrent indexes from byte-string keys to eight-byte payloads.
//!
//! Two traits, [`PointIndex`] and [`OrderedIndex`], are what the engine is written against; [`Tree`]
//! chooses an implementation of the latter at run time and calls it without a virtual call:
//!
//! | tree | a word about it |
//! |---|---|
//! | [Bw-tree](bwtree::BwTree) | deltas on pages behind a mapping table; its variants too, the OpenBw-Tree's layout among them |
//! | [BzTree](bztree::BzTree) | multi-word compare-and-swap in the nodes, append or in place |
//! | [Masstree](masstree::Masstree) | a trie of B+-trees over eight-byte slices |
//! | [B-link tree](blink::BlinkTree) | latched writers, latch-free readers |
//! | [ART](art::ArtTree) | an adaptive radix tree with optimistic locks |
//!
//! The [hash table](hash::HashIndex) is for keys that are never scanned; [`Index`] is either, or both
//! together.
//!
//! Every index also reports a [`LeafVersion`] with each answer that depends on *absent* keys, and
//! keeps a stamp beside it, so that transactions can rule out phantoms without locks.
//!
//! Paper: bwtree §3, §4

pub mod art;
mod batch;
pub mod blink;
mod both;
pub mod bwtree;
pub mod bztree;
mod census;
mod choice;
#[doc(hidden)]
pub mod contract;
mod counters;
mod defer;
mod error;
mod forward;
mod growing;
pub mod hash;
pub mod key;
mod leaf_table;
mod lines;
#[cfg(test)]
#[cfg(loom)]
mod loom_beside;
#[cfg(test)]
#[cfg(loom)]
mod loom_contract;
pub mod masstree;
mod memory;
mod mwcas;
mod numbers;
mod pairs;
mod range;
#[doc(hidden)]
pub mod reclaim;
mod scan;
mod sync;
mod traits;
mod tree;
mod version;

pub use both::Both;
pub use choice::{Added, Index, IndexKind, Point};
pub use error::{IndexError, UnknownKind};
pub use pairs::{PairItem, PairOutcome, Pairs};
pub use traits::{
    Change, Changed, Direction, Expected, GetOrInsert, InsertOutcome, Inserted, Lookup,
    OrderedIndex, PointIndex, ScanItem, ScanRange, Statistics,
};
pub use tree::{KeyKind, Tree, TreeKind};
pub use version::LeafVersion;
