//! The index of a table, chosen at run time and called without a virtual call: a tree, a hash table, or
//! both together.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::str::FromStr;

use namiki_index::{
    IndexError, InsertOutcome, Inserted, LeafVersion, OrderedIndex, PointIndex, ScanItem, ScanRange,
};

use smallvec::SmallVec;

use super::dispatch::dispatch_point_index;
use super::hash_index::Point;
use super::hybrid::HybridIndex;
use super::key_kind::KeyKind;
use super::tree_kind::{Tree, TreeKind};
use super::unavailable_index_error::{IndexNotInBuild, UnknownKind};

/// The kind of an index. The names are those of `--index`: a tree's, `hash`, or a tree's with
/// `+hash` behind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum IndexKind {
    /// A tree.
    Ordered(TreeKind),
    /// A hash table: for keys that are looked up and never scanned.
    Hash,
    /// A tree for scans and a hash table for look-ups.
    OrderedAndHash(TreeKind),
}

impl IndexKind {
    /// Whether ranges of keys can be scanned.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        !matches!(self, Self::Hash)
    }

    /// That it is in this build: see [`TreeKind`].
    ///
    /// # Errors
    /// If its tree is not.
    pub fn check_in_build(self) -> Result<(), IndexNotInBuild> {
        match self {
            Self::Ordered(tree) | Self::OrderedAndHash(tree) => tree.check_in_build(),
            Self::Hash => Ok(()),
        }
    }
}

#[cfg(test)]
impl IndexKind {
    /// Those with these names that are in this build.
    pub(crate) fn those_in_build(names: &[&str]) -> Vec<Self> {
        let kinds = names.iter().map(|name| name.parse::<Self>().unwrap());
        kinds.filter(|kind| kind.check_in_build().is_ok()).collect()
    }
}

impl Default for IndexKind {
    fn default() -> Self {
        Self::Ordered(TreeKind::default())
    }
}

impl From<TreeKind> for IndexKind {
    fn from(tree: TreeKind) -> Self {
        Self::Ordered(tree)
    }
}

const HASH: &str = "hash";
const AND_HASH: &str = "+hash";

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered(tree) => tree.fmt(f),
            Self::Hash => f.pad(HASH),
            Self::OrderedAndHash(tree) => f.pad(&format!("{tree}{AND_HASH}")),
        }
    }
}

impl FromStr for IndexKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let known = match name.strip_suffix(AND_HASH) {
            _ if name == HASH => Ok(Self::Hash),
            Some(tree) => tree.parse().map(Self::OrderedAndHash),
            None => name.parse().map(Self::Ordered),
        };
        known.map_err(|unknown: UnknownKind| UnknownKind {
            what: "index",
            name: name.to_owned(),
            expected: format!(
                "{}, {HASH}, or one of the trees with {AND_HASH}",
                unknown.expected
            ),
        })
    }
}

/// The index of a table, inline: a look-up must not go through one more pointer.
#[cfg_attr(
    loom,
    allow(clippy::large_enum_variant, reason = "loom's atomics are large")
)]
#[derive(Debug)]
#[non_exhaustive]
pub enum Index {
    /// A tree.
    Ordered(Tree),
    /// A hash table.
    Hash(Point),
    /// Both over the same keys.
    OrderedAndHash(Box<HybridIndex>),
}

/// The result of [`Index::add`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// The key was absent and is now present.
    New {
        /// The change of the leaf in the part that look-ups use.
        leaf: Inserted,
        /// The change of the leaf that scans see, if that is another.
        scanned: Option<Inserted>,
        /// The larger of their rts, read after both were changed.
        rts: u64,
    },
    /// The key was present with this payload; nothing was done.
    Exists(u64),
}

impl Index {
    /// An empty index with its default sizes.
    ///
    /// # Errors
    /// If its tree is not in this build.
    pub fn new(kind: IndexKind, keys: KeyKind) -> Result<Self, IndexNotInBuild> {
        Ok(match kind {
            IndexKind::Ordered(tree) => Self::Ordered(Tree::new(tree, keys)?),
            IndexKind::Hash => Self::Hash(Point::new(keys)),
            IndexKind::OrderedAndHash(tree) => {
                let both = HybridIndex::new(Point::new(keys), Tree::new(tree, keys)?);
                Self::OrderedAndHash(Box::new(both))
            }
        })
    }

    /// Which index this is.
    #[must_use]
    pub fn kind(&self) -> IndexKind {
        match self {
            Self::Ordered(tree) => IndexKind::Ordered(tree.kind()),
            Self::Hash(_) => IndexKind::Hash,
            Self::OrderedAndHash(both) => IndexKind::OrderedAndHash(both.tree().kind()),
        }
    }

    /// The kind of its keys.
    #[must_use]
    pub fn key_kind(&self) -> KeyKind {
        match self {
            Self::Ordered(tree) => tree.key_kind(),
            Self::Hash(point) => point.key_kind(),
            Self::OrderedAndHash(both) => both.tree().key_kind(),
        }
    }

    /// Adds a key that is absent, and then reads the rts of what has changed.
    ///
    /// # Errors
    /// As [`PointIndex::insert`]. The payload was visible to no thread then.
    pub fn add(&self, key: &[u8], payload: u64) -> Result<Added, IndexError> {
        let (leaf, scanned) = match self {
            Self::OrderedAndHash(both) => match both.add(key, payload)? {
                Ok(done) => (done.point, Some(done.tree)),
                Err(found) => return Ok(Added::Exists(found)),
            },
            _ => match self.insert(key, payload)? {
                InsertOutcome::Inserted(leaf) => (leaf, None),
                InsertOutcome::Exists(found) => return Ok(Added::Exists(found)),
            },
        };
        let of_scanned = scanned.map_or(0, |scanned| self.leaf_rts(scanned.after.leaf));
        let rts = self.leaf_rts(leaf.after.leaf).max(of_scanned);
        Ok(Added::New { leaf, scanned, rts })
    }

    /// The leaves that hold a key, or would: the leaf on which a failed look-up relies, and that of
    /// a scan.
    ///
    /// # Errors
    /// If the key is not one that this index can hold.
    pub(crate) fn leaves_of(&self, key: &[u8]) -> Result<SmallVec<[LeafVersion; 2]>, IndexError> {
        let mut leaves = SmallVec::new();
        match self {
            Self::Hash(point) => leaves.push(point.leaf_of(key)?),
            Self::OrderedAndHash(both) => leaves.push(both.point().leaf_of(key)?),
            Self::Ordered(_) => {}
        }
        if self.kind().is_ordered() {
            self.scan(
                ScanRange::forward(Bound::Included(key), Bound::Included(key)),
                |item| {
                    if let ScanItem::Leaf(leaf) = item {
                        leaves.push(leaf);
                    }
                    ControlFlow::Continue(())
                },
            )?;
        }
        Ok(leaves)
    }

    /// Leaves its tree no page number that was never used, so that it soon has to refuse new keys with
    /// [`IndexError::OutOfPages`]: for tests, which cannot wait for 2²⁸ pages. A hash table has no such end.
    #[doc(hidden)]
    pub fn use_up(&self) {
        match self {
            Self::Ordered(tree) => tree.use_up(),
            Self::Hash(_) => {}
            Self::OrderedAndHash(both) => both.tree().use_up(),
        }
    }

    /// Visits the keys of a range: see [`OrderedIndex::scan`].
    ///
    /// # Errors
    /// [`IndexError::Unordered`] if this index keeps no order; or as there.
    pub fn scan(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        match self {
            Self::Ordered(tree) => tree.scan(range, visit),
            Self::Hash(_) => Err(IndexError::Unordered),
            Self::OrderedAndHash(both) => both.scan(range, visit),
        }
    }

    /// Visits all keys with their payloads, in their order if the index has one. A key that is
    /// present throughout is visited once; one that is inserted or removed concurrently is visited
    /// once or not at all.
    ///
    /// # Errors
    /// As [`OrderedIndex::scan`].
    pub fn for_each(
        &self,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        if let Self::Hash(point) = self {
            point.for_each(visit);
            return Ok(());
        }
        self.scan(ScanRange::all(), |item| match item {
            ScanItem::Entry(key, payload) => visit(key, payload),
            ScanItem::Leaf(_) | ScanItem::Ahead(_) => ControlFlow::Continue(()),
        })
    }

    /// Fills an empty index that no other thread uses yet, and returns how many keys there were.
    /// They come in ascending order, unless the index keeps none. After an error the index has to
    /// be dropped.
    ///
    /// # Errors
    /// As [`OrderedIndex::bulk_load`].
    pub fn fill<B: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        match self {
            Self::Ordered(tree) => tree.bulk_load(entries),
            Self::Hash(point) => {
                let mut count = 0;
                for (key, payload) in entries {
                    point.insert(key.as_ref(), payload)?;
                    count += 1;
                }
                Ok(count)
            }
            Self::OrderedAndHash(both) => both.fill(entries),
        }
    }
}

macro_rules! each_index {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            Index::Ordered($index) => $call,
            Index::Hash($index) => $call,
            Index::OrderedAndHash($index) => $call,
        }
    };
}

dispatch_point_index!(Index, each_index);

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        let trees = TreeKind::ALL.iter().copied();
        let kinds = trees
            .clone()
            .map(IndexKind::Ordered)
            .chain(trees.map(IndexKind::OrderedAndHash))
            .chain([IndexKind::Hash]);
        for kind in kinds {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            match Index::new(kind, KeyKind::Variable) {
                Ok(index) => assert_eq!(index.kind(), kind),
                Err(left_out) => {
                    assert_eq!(kind.check_in_build(), Err(left_out));
                    assert!(kind.to_string().starts_with(left_out.tree));
                }
            }
        }
        for name in ["", "+hash", "hash+hash", "trie", "trie+hash"] {
            let error = name.parse::<IndexKind>().unwrap_err();
            assert!(error.expected.contains("hash"), "{error}");
        }
    }
}
