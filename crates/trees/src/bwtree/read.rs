//! Point reads.
//!
//! Paper: bwtree §4.1.1, figure 6 (Read)

use std::cmp::Ordering;

use crossbeam_epoch::{self as epoch};
use namiki_index::key::Key;
use namiki_index::{IndexError, LeafVersion, Lookup};

use super::BwTree;
use super::descend::{At, Place};
use super::node::{Kind, NodeRef, Spot};
use super::variant::Variant;

/// The result that a search for a key returns.
trait Finding {
    fn of(payload: Option<u64>, spot: Spot) -> Self;
}

impl Finding for Option<u64> {
    #[inline]
    fn of(payload: Option<u64>, _spot: Spot) -> Self {
        payload
    }
}

impl Finding for (Option<u64>, Spot) {
    #[inline]
    fn of(payload: Option<u64>, spot: Spot) -> Self {
        (payload, spot)
    }
}

impl<K: Key, V: Variant> NodeRef<'_, K, V> {
    /// The payload of a key in the range of this leaf, in the state that this head stands for.
    #[inline]
    pub(super) fn find(self, key: K::Ref<'_>) -> Option<u64> {
        // The common case.
        if self.kind() == Kind::Base {
            return self.base_get(key);
        }
        if let Some(base) = self.past_deltas(key) {
            return base.base_get(key);
        }
        self.find_through_deltas(key, Self::base_get)
    }

    /// The same, with the position of the key in the base node, if that is known.
    #[inline]
    pub(super) fn find_spot(self, key: K::Ref<'_>) -> (Option<u64>, Spot) {
        if self.kind() == Kind::Base {
            return self.base_find(key);
        }
        if let Some(base) = self.past_deltas(key) {
            return base.base_find(key);
        }
        self.find_through_deltas(key, Self::base_find)
    }

    #[inline(never)]
    fn find_through_deltas<F: Finding>(
        self,
        key: K::Ref<'_>,
        in_base: impl FnOnce(Self, K::Ref<'_>) -> F,
    ) -> F {
        let mut node = self;
        loop {
            match node.kind() {
                Kind::Base => return in_base(node, key),
                Kind::Put if K::cmp(node.key(), key) == Ordering::Equal => {
                    return F::of(Some(node.payload()), node.spot());
                }
                Kind::Delete if K::cmp(node.key(), key) == Ordering::Equal => {
                    return F::of(None, node.spot());
                }
                Kind::Merge if K::cmp(node.key(), key) != Ordering::Greater => {
                    node = node.merged();
                    continue;
                }
                _ => {}
            }
            let Some(next) = node.next() else {
                unreachable!("a chain ends in a base node")
            };
            node = next;
        }
    }
}

impl<K: Key, V: Variant> Place<'_, K, V> {
    /// The leaf version in the state that was seen.
    pub(super) fn version(self) -> LeafVersion {
        LeafVersion {
            leaf: u64::from(self.id.0),
            counter: self.head.counter(),
        }
    }
}

impl<K: Key, V: Variant> BwTree<K, V> {
    pub(super) fn get_key(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let place = self.leaf(At(key), guard);
        let lookup = match place.head.find(key) {
            Some(payload) => Lookup::Found(payload),
            None => Lookup::Missing(place.version()),
        };
        self.compact_after_read(place, guard);
        Ok(lookup)
    }
}
