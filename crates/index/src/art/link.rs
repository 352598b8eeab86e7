//! A link from a node to what is below it: the address of a node, and of which kind it is.
//!
//! ```text
//!  63                                    6  3      0
//! |  address, a multiple of 64           | . | kind |
//! ```
//!
//! A link never holds a payload (those are in the leaves), so payloads may be any number.

use std::ptr::NonNull;

/// What a link leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Up to 4 children, found by comparing bytes.
    Node4 = 1,
    /// Up to 16.
    Node16 = 2,
    /// Up to 48, found through an index of 256 bytes.
    Node48 = 3,
    /// Any number up to one for each byte and one before all.
    Node256 = 4,
    /// A leaf with sorted records.
    Bucket = 5,
    /// A leaf with a place for each of 256 keys that differ in their last byte alone.
    Block = 6,
}

/// Bytes that the address of a node is a multiple of: a cache line.
pub(super) const ALIGN: usize = 64;

/// See the module. Zero leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link(u64);

impl Link {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(node: NonNull<u8>, kind: Kind) -> Self {
        let address = node.as_ptr().expose_provenance() as u64;
        assert!(
            address.is_multiple_of(ALIGN as u64),
            "nodes begin with a cache line"
        );
        Self(address | kind as u64)
    }

    #[inline]
    pub(super) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    /// The kind. `None`: the link leads nowhere.
    #[inline]
    pub(super) const fn kind(self) -> Option<Kind> {
        match self.0 & 7 {
            1 => Some(Kind::Node4),
            2 => Some(Kind::Node16),
            3 => Some(Kind::Node48),
            4 => Some(Kind::Node256),
            5 => Some(Kind::Bucket),
            6 => Some(Kind::Block),
            _ => None,
        }
    }

    /// Whether it leads to a leaf.
    #[inline]
    pub(super) const fn is_leaf(self) -> bool {
        self.0 & 7 >= Kind::Bucket as u64
    }

    /// The address.
    #[inline]
    pub(super) fn address(self) -> Option<NonNull<u8>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(
            (self.0 & !(ALIGN as u64 - 1)) as usize,
        ))
    }
}
