//! The operations that put a delta record on a leaf.
//!
//! A writer looks its key up in the state that the delta will lie on, and the compare-and-swap
//! succeeds only if that is still the leaf's state. So each operation is atomic without a lock, and
//! knows the versions before and after exactly. A failed swap takes its delta along to the new
//! head.
//!
//! Paper: bwtree §4.1.2, figure 8 (Write)

use std::cmp::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_index::{Change, Changed, IndexError, Inserted};

use super::BwTree;
use super::base::child_prefetch_hint;
use super::descend::{At, Onto, Place};
use super::node::{Kind, OwnedNode};
use super::structure_change_types::Resize;
use super::variant::Variant;

impl<K: Key, V: Variant> BwTree<K, V> {
    /// Read-modify-write of one key in one atomic step. `decide` is called again if another thread
    /// changed the leaf in between.
    pub(super) fn change_key(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut place = self.leaf(At(key), guard);
        let mut delta: Option<OwnedNode<K, V>> = None;
        loop {
            let (id, head) = (place.id, place.head);
            let (old, spot) = head.find_spot(key);
            let (kind, payload) = match decide(old) {
                Change::Put(payload) => (Kind::Put, payload),
                Change::Delete if old.is_some() => (Kind::Delete, 0),
                Change::Keep | Change::Delete => {
                    return Ok(Changed::from(old));
                }
            };
            let mut new = match delta.take() {
                Some(delta) if delta.as_ref().kind() == kind => delta.relink(key, payload, head),
                _ => OwnedNode::record(kind, key, payload, head),
            };
            new.set_spot(spot);
            match (kind, old) {
                (Kind::Delete, _) => new.add_keys(-1),
                (_, None) => new.add_keys(1),
                (_, Some(_)) => {}
            }
            match self.mapping.push(id, head, new) {
                Ok(head) => {
                    let before = place.version();
                    let place = Place { head, ..place };
                    let after = place.version();
                    let resize = match (kind, old) {
                        (Kind::Delete, _) => Resize::SplitOrMerge,
                        (_, None) => Resize::Split,
                        (_, Some(_)) => Resize::Never,
                    };
                    let split = self.compact_after_write(place, resize, guard);
                    let inserted = (kind == Kind::Put && old.is_none()).then(|| Inserted {
                        before,
                        after,
                        split: split
                            .filter(|done| done.of == after)
                            .map(|done| done.halves),
                    });
                    return Ok(Changed { old, inserted });
                }
                Err(unused) => {
                    self.counters.add(Event::CasMiss);
                    delta = Some(unused);
                    place = self.again(place, key, guard);
                }
            }
        }
    }

    /// Blind write of a key's payload: one delta goes on top of the leaf whatever lies below.
    /// Unless the key is seen to be present at once, the delta counts as a change of the key set
    /// for the leaf's version, and the leaf's length is uncounted (N6 in `node.rs`).
    ///
    /// Paper: bwtree §4.1.2, figure 8
    pub(super) fn put_key(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut place = self.leaf(Onto(key), guard);
        let mut delta: Option<OwnedNode<K, V>> = None;
        loop {
            let (id, head) = (place.id, place.head);
            // The head is at hand: of several writes of one key in a row the first may have added it.
            if !V::LITERAL && self.is_long(head.depth().wrapping_add(1), self.config.leaf_chain_max)
            {
                // Our delta will make the chain too long: all of the base node will be read.
                child_prefetch_hint::prefetch_whole(head);
            }
            let present = head.kind() == Kind::Put && K::cmp(head.key(), key) == Ordering::Equal;
            let mut new = match delta.take() {
                Some(delta) => delta.relink(key, payload, head),
                None => OwnedNode::record(Kind::Put, key, payload, head),
            };
            if !present {
                new.set_uncounted();
            }
            match self.mapping.push(id, head, new) {
                Ok(head) => {
                    let resize = if present || self.is_length_far(head.depth()) {
                        Resize::Never
                    } else {
                        Resize::Split
                    };
                    self.compact_after_write(Place { head, ..place }, resize, guard);
                    return Ok(());
                }
                Err(unused) => {
                    self.counters.add(Event::CasMiss);
                    delta = Some(unused);
                    place = self.again(place, key, guard);
                }
            }
        }
    }

    /// Whether a blind writer of the paper's own tree leaves the length of its page to others: to the
    /// writer that consolidates, or, after a consolidation by a reader, to that of the first delta,
    /// whose base node is next. Otherwise each write would walk the chain once more.
    ///
    /// Paper: bwtree §4.2.2
    fn is_length_far(&self, depth: u8) -> bool {
        V::LITERAL && depth > 1 && !self.is_long(depth, self.config.leaf_chain_max)
    }

    /// The leaf of `key` after a swap failed on `place`: usually the same page.
    fn again<'g>(
        &self,
        place: Place<'g, K, V>,
        key: K::Ref<'_>,
        guard: &'g Guard,
    ) -> Place<'g, K, V> {
        self.unfreeze(place.id, guard);
        // The page cannot have been reused while we are pinned (M4), so its lower fence still holds.
        match self.mapping.load(place.id, guard) {
            Some(head) if !head.is_removed() && !head.is_left_of(At(key)) => {
                Place { head, ..place }
            }
            _ => self.leaf(At(key), guard),
        }
    }
}
