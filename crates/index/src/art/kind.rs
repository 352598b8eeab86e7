//! The kinds of nodes.

/// The kind of a node. Its number is in the low bits of links, see `node.rs`.
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

impl Kind {
    /// The kind of a number.
    #[inline]
    pub(super) const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Node4),
            2 => Some(Self::Node16),
            3 => Some(Self::Node48),
            4 => Some(Self::Node256),
            5 => Some(Self::Bucket),
            6 => Some(Self::Block),
            _ => None,
        }
    }

    /// Most children of an inner node of this kind.
    #[inline]
    pub(super) const fn most(self) -> usize {
        match self {
            Self::Node4 => 4,
            Self::Node16 => 16,
            Self::Node48 => 48,
            _ => 257,
        }
    }

    /// Words of an inner node before its links.
    #[inline]
    pub(super) const fn index_words(self) -> usize {
        match self {
            Self::Node4 => 1,
            Self::Node16 => 2,
            Self::Node48 => 32,
            _ => 0,
        }
    }

    /// Fewer children than this are moved to a smaller kind. Less than what that kind can have, so
    /// that a node does not change its kind all the time.
    #[inline]
    pub(super) const fn least(self) -> usize {
        match self {
            Self::Node4 => 2,
            Self::Node16 => 4,
            Self::Node48 => 13,
            _ => 40,
        }
    }

    /// The smallest kind that holds this number of children.
    #[inline]
    pub(super) const fn for_children(count: usize) -> Self {
        match count {
            0..=4 => Self::Node4,
            5..=16 => Self::Node16,
            17..=48 => Self::Node48,
            _ => Self::Node256,
        }
    }
}
