//! The indexes of tables: the available kinds, and the chosen one, called without a virtual call.
//!
//! [`Tree`] is any of the ordered trees, [`Point`] the hash table, [`HybridIndex`] the two together, and [`Index`]
//! whichever of these a table has. ART and the hash table are in every build; the other trees are in
//! `namiki-trees`, which the feature `all-indexes` adds. Their names are known in every build, so that a
//! tree which was left out is distinguished from an unknown name ([`IndexNotInBuild`]).

mod dispatch;
mod hash_index;
mod hybrid;
mod index_kind;
mod key_kind;
mod tree_kind;
mod unavailable_index_error;

pub use hash_index::Point;
pub use hybrid::HybridIndex;
pub use index_kind::{Added, Index, IndexKind};
pub use key_kind::KeyKind;
pub use tree_kind::{Tree, TreeKind};
pub use unavailable_index_error::{IndexNotInBuild, UnknownKind};
