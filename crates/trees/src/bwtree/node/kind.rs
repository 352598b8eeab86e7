//! The kinds of nodes.

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(in crate::bwtree) enum Kind {
    /// Sorted entries; the bottom of every chain.
    Base,
    /// Leaf: `key` has this payload.
    Put,
    /// Leaf: `key` is absent.
    Delete,
    /// The page was split at `key`, everything from there on is in page `child`; stays until the
    /// parent knows. Lies directly on a fresh base node that holds the left half only.
    Split,
    /// The page is being removed: merged into its left sibling (see `merge.rs`), or a root that is replaced by
    /// its only child. Always the head, nothing can be put on top.
    Remove,
    /// The removed right sibling's chain `other` belongs to this page now, from `key` on.
    Merge,
    /// Inner: keys in `key .. upper` are in page `child`.
    IndexInsert,
    /// Inner: the entry at `key` is gone; keys in `lower .. upper` are in page `child`.
    IndexDelete,
    /// Inner: the child page `child`, entry `key`, is being merged into its left sibling.
    Merging,
}
