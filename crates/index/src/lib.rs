//! Concurrent indexes from byte-string keys to eight-byte payloads.
//!
//! The engine uses indexes through two traits, [`PointIndex`] and [`OrderedIndex`]. This crate has
//! the two indexes that tables use by default:
//!
//! - [ART](art::ArtTree), an adaptive radix tree with optimistic locks;
//! - the [hash table](hash::HashIndex), for keys that are never scanned.
//!
//! The other trees are in the crate `namiki-trees`, built from the same parts (`shared`) and tested
//! by the same suite (`contract`, a feature). `namiki` chooses between all of them at run time.
//!
//! Every index also reports a [`LeafVersion`] with each answer that depends on *absent* keys, and
//! keeps a stamp for that leaf, so that transactions can rule out phantoms without locks.
//!
//! Paper: bwtree §3, §4

pub mod art;
#[cfg(feature = "contract")]
#[doc(hidden)]
pub mod contract;
mod error;
pub mod hash;
pub mod key;
mod leaf_version;
#[cfg(all(loom, feature = "contract"))]
#[doc(hidden)]
pub mod loom_contract;
#[cfg(all(loom, feature = "contract"))]
#[doc(hidden)]
pub mod loom_two_threads;
#[doc(hidden)]
pub mod reclaim;
#[doc(hidden)]
pub mod shared;
mod traits;

pub use error::IndexError;
pub use leaf_version::LeafVersion;
pub use traits::{
    Change, Changed, Direction, Expected, GetOrInsert, InsertOutcome, Inserted, Lookup,
    OrderedIndex, PointIndex, ScanItem, ScanRange, Statistics,
};
