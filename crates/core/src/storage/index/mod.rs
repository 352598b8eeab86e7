//! The index of a table: which there are, and the one that was chosen, called without a virtual call.
//!
//! [`Tree`] is any of the ordered trees, [`Point`] the hash table, [`HybridIndex`] the two together, and [`Index`]
//! whichever of these a table has. ART and the hash table are in every build; the other trees are in
//! `namiki-trees`, which the feature `all-indexes` adds. Their names are known in every build, so that a
//! tree which was left out is distinguished from an unknown name ([`IndexNotInBuild`]).

mod choice;
mod dispatch;
mod error;
mod hybrid;
mod key_kind;
mod point;
mod tree;

pub use choice::{Added, Index, IndexKind};
pub use error::{IndexNotInBuild, UnknownKind};
pub use hybrid::HybridIndex;
pub use key_kind::KeyKind;
pub use point::Point;
pub use tree::{Tree, TreeKind};
