//! A hash table over either kind of keys, called without a virtual call.

use std::ops::ControlFlow;

use namiki_index::hash::{FixedHash, VariableHash};
use namiki_index::{IndexError, LeafVersion};

use super::dispatch::dispatch_point_index;
use super::key_kind::KeyKind;

/// A hash table over any kind of keys.
#[derive(Debug)]
#[non_exhaustive]
pub enum Point {
    /// Eight-byte keys.
    Fixed8(FixedHash),
    /// Byte strings.
    Variable(VariableHash),
}

impl Point {
    /// An empty table with its default sizes.
    #[must_use]
    pub fn new(keys: KeyKind) -> Self {
        match keys {
            KeyKind::Fixed8 => Self::Fixed8(FixedHash::default()),
            KeyKind::Variable => Self::Variable(VariableHash::default()),
        }
    }

    /// The kind of its keys.
    #[must_use]
    pub const fn key_kind(&self) -> KeyKind {
        match self {
            Self::Fixed8(_) => KeyKind::Fixed8,
            Self::Variable(_) => KeyKind::Variable,
        }
    }
}

impl Point {
    /// Visits all keys, see [`HashIndex::for_each`](namiki_index::hash::HashIndex::for_each).
    pub fn for_each(&self, visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) {
        match self {
            Self::Fixed8(hash) => hash.for_each(visit),
            Self::Variable(hash) => hash.for_each(visit),
        }
    }
}

macro_rules! each_point {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            Point::Fixed8($index) => $call,
            Point::Variable($index) => $call,
        }
    };
}

impl Point {
    /// See [`HashIndex::leaf_of`](namiki_index::hash::HashIndex::leaf_of).
    pub(crate) fn leaf_of(&self, key: &[u8]) -> Result<LeafVersion, IndexError> {
        each_point!(self, hash => hash.leaf_of(key))
    }
}

dispatch_point_index!(Point, each_point);
