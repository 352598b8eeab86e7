//! The position in the base node of a delta's key: the offset that the OpenBw-Tree's deltas keep,
//! too.
//!
//! A delta about an eight-byte key is only a header, so its size is known, and the field for the
//! size holds this position. A writer that looks for its key before it changes anything gets the
//! answer for free, and a consolidation is spared a search for each delta.
//!
//! It is right as long as the chain ends in the base node it was found in. So where chains are cut below
//! their deltas it is not recorded; a merge delta brings a second base node into the chain, and then it is
//! not read.
//!
//! Paper: bwtree §2.4, reference 11

use namiki_index::key::Key;

use super::kind::Kind;

/// Whether a node of this kind is only a header, so that its `extent` holds the position.
pub(super) const fn is_spotted<K: Key>(kind: Kind) -> bool {
    K::INLINE && matches!(kind, Kind::Put | Kind::Delete)
}

/// The position of a leaf delta's key among those of the base node below, as far as its writer knew
/// it: it spares a consolidation the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bwtree) struct Spot(u32);

impl Spot {
    pub(in crate::bwtree) const UNKNOWN: Self = Self(u32::MAX);

    /// The key is entry `i`, or (not `found`) belongs in front of it.
    #[inline]
    pub(in crate::bwtree) fn new(i: usize, found: bool) -> Self {
        u32::try_from(i * 2 + usize::from(found)).map_or(Self::UNKNOWN, Self)
    }

    #[inline]
    pub(in crate::bwtree) fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }

    #[inline]
    pub(in crate::bwtree) fn i(self) -> usize {
        self.0 as usize / 2
    }

    #[inline]
    pub(in crate::bwtree) fn found(self) -> bool {
        self.0 % 2 == 1
    }

    /// As a header holds it.
    #[inline]
    pub(super) const fn word(self) -> u32 {
        self.0
    }

    /// Reads it from a header.
    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word)
    }
}
