//! The operations that put a delta record on a leaf.
//!
//! Whether the key is there is decided in the state the delta will lie on, and the compare-and-swap
//! succeeds only if that is still the leaf's state: so each operation is atomic without a lock, and
//! knows the versions before and after exactly. A failed swap takes its delta along to the new head.
//!
//! Paper: bwtree §4.1.2, figure 8 (Write)

use crossbeam_epoch::{self as epoch, Guard};

use super::BwTree;
use super::consolidate::Resize;
use super::node::{Kind, OwnedNode};
use super::search::{At, Place};
use crate::counters::Event;
use crate::key::Key;
use crate::{IndexError, Inserted};

/// What to do once it is known whether the key is there.
pub(super) enum Change {
    /// Nothing.
    Keep,
    /// Give it this payload, adding the key if it is absent.
    Put(u64),
    /// Remove it.
    Delete,
}

/// What became of it.
pub(super) struct Changed {
    /// The payload in the state the decision was based on.
    pub(super) old: Option<u64>,
    /// Set if the key was added.
    pub(super) inserted: Option<Inserted>,
}

impl<K: Key> BwTree<K> {
    /// Looks a key up, lets `decide` say what to do, and does it, all in one atomic step. `decide`
    /// is asked again when another thread changed the leaf meanwhile.
    pub(super) fn change(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut place = self.leaf(At(key), guard);
        let mut delta: Option<OwnedNode<K>> = None;
        loop {
            let (id, head) = (place.id, place.head);
            let old = head.find(key);
            let (kind, payload) = match decide(old) {
                Change::Put(payload) => (Kind::Put, payload),
                Change::Delete if old.is_some() => (Kind::Delete, 0),
                Change::Keep | Change::Delete => {
                    return Ok(Changed {
                        old,
                        inserted: None,
                    });
                }
            };
            let mut new = match delta.take() {
                Some(mut delta) if delta.as_ref().kind() == kind => {
                    delta.relink(payload, head);
                    delta
                }
                _ => OwnedNode::record(kind, key, payload, head),
            };
            let (len, counter) = (head.len() as u32, head.counter());
            match (kind, old) {
                (Kind::Delete, _) => new.set_content(len - 1, counter + 1),
                (_, None) => new.set_content(len + 1, counter + 1),
                (_, Some(_)) => new.set_content(len, counter),
            }
            match self.mapping.push(id, head, new) {
                Ok(head) => {
                    let before = place.version();
                    let place = Place { id, head };
                    let after = place.version();
                    let resize = match (kind, old) {
                        (Kind::Delete, _) => Resize::SplitOrMerge,
                        (_, None) => Resize::Split,
                        (_, Some(_)) => Resize::Never,
                    };
                    let split = self.tidy_after_write(place, resize, guard);
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

    /// The leaf of `key` after a swap failed on `place`: usually the same page.
    fn again<'g>(&self, place: Place<'g, K>, key: K::Ref<'_>, guard: &'g Guard) -> Place<'g, K> {
        // The page cannot have been reused while we are pinned (M4), so its lower fence still holds.
        match self.mapping.load(place.id, guard) {
            Some(head) if !head.is_removed() && !head.is_left_of(At(key)) => {
                Place { id: place.id, head }
            }
            _ => self.leaf(At(key), guard),
        }
    }
}
