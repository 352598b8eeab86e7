//! The operations that change one key: one descent, the lock of the leaf, and the change.
//!
//! A writer looks the key up under the lock, so each operation is one atomic step. Replacing a
//! payload takes one more store and disturbs no reader. Adding a key may need a split (`split.rs`)
//! or a layer (`layers.rs`); removing the last key of a leaf may remove nodes (`remove_empty.rs`).
//!
//! Paper: bwtree §2.5

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::shared::counters::Event;
use namiki_index::{Change, Changed, IndexError, Inserted};
use namiki_platform::sync::wait;

use super::Masstree;
use super::border::{Content, Entry};
use super::descend::DescentPath;
use super::key_slices::{Cut, LONG, Slicing};
use super::suffix_block::Layer;

/// The result of an attempt in one leaf.
enum Attempt {
    Done(Changed),
    /// The key was removed and the leaf is empty now; it may be removed.
    Emptied(Changed),
    /// The leaf or something above changed: search again.
    Again,
}

impl<K: Slicing> Masstree<K> {
    /// Read-modify-write of one key in one atomic step. `decide` is called with the leaf locked, at
    /// most once in each attempt.
    #[inline]
    pub(super) fn change_key(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = Cut::first::<K>(K::parse(key)?);
        let guard = &epoch::pin();
        let (mut layer, mut cut) = (self.top(), key);
        let mut turn = 0;
        loop {
            let Some(path) = self.descend(layer, cut.slice, guard) else {
                (layer, cut) = (self.top(), key);
                self.counters.add(Event::Restart);
                continue;
            };
            if !K::INLINE && cut.marker == LONG {
                // Down through links without locking their leaves.
                match path.leaf.look(&cut, path.seen, guard) {
                    Some(look) => {
                        if let Some(Content::Layer(below)) = look.content
                            && let Some(rest) = below.fits(cut.rest)
                        {
                            (layer, cut) = (below, Cut::of(rest));
                            continue;
                        }
                    }
                    None => continue,
                }
            }
            match self.change_in(layer, &path, &cut, &mut decide, guard)? {
                Attempt::Done(changed) => return Ok(changed),
                Attempt::Emptied(changed) => {
                    self.compact(key, guard);
                    return Ok(changed);
                }
                Attempt::Again => {
                    self.counters.add(Event::Restart);
                    wait(turn);
                    turn += 1;
                }
            }
        }
    }

    #[inline]
    fn change_in(
        &self,
        layer: &Layer,
        path: &DescentPath<'_, K>,
        cut: &Cut<'_>,
        decide: &mut impl FnMut(Option<u64>) -> Change,
        guard: &Guard,
    ) -> Result<Attempt, IndexError> {
        let leaf = path.leaf;
        let mut lock = leaf.header.version.lock();
        if !lock.seen().same_range(path.seen) {
            return Ok(Attempt::Again);
        }
        let slot = leaf.find(cut);
        let content = slot.map(|slot| leaf.held(slot, &lock, guard));
        let (old, suffix) = match content {
            Some(Content::Payload(payload)) => (Some(payload), None),
            Some(Content::Suffix(suffix)) if suffix.bytes() == cut.rest => {
                (Some(suffix.payload()), Some(suffix))
            }
            Some(Content::Layer(below)) if below.fits(cut.rest).is_some() => {
                return Ok(Attempt::Again);
            }
            _ => (None, None),
        };
        match (decide(old), slot) {
            (Change::Put(payload), Some(slot)) if old.is_some() => {
                match suffix {
                    Some(suffix) => suffix.set_payload(payload),
                    None => leaf.set_value(slot, payload),
                }
                Ok(Attempt::Done(Changed::from(old)))
            }
            (Change::Put(payload), Some(slot)) => {
                let inserted = self.grow_layer(leaf, slot, lock, cut, payload, guard)?;
                Ok(Attempt::Done(Changed::added(inserted)))
            }
            (Change::Put(payload), None) => {
                if leaf.len() >= self.config.leaf_max {
                    let inserted = self.split_leaf(layer, path, lock, cut, payload, guard)?;
                    return Ok(inserted.map_or(Attempt::Again, |inserted| {
                        Attempt::Done(Changed::added(inserted))
                    }));
                }
                let before = leaf.mark.version();
                lock.inserting();
                leaf.mark.bump();
                leaf.add(Entry::of::<K>(cut, payload, guard));
                let after = leaf.mark.version();
                Ok(Attempt::Done(Changed::added(Inserted {
                    before,
                    after,
                    split: None,
                })))
            }
            (Change::Delete, Some(slot)) if old.is_some() => {
                lock.inserting();
                leaf.mark.bump();
                leaf.take(slot, &lock, guard);
                let last = leaf.len() == 0 && !(lock.seen().is_root() && self.is_top(layer));
                let changed = Changed::from(old);
                Ok(if last {
                    Attempt::Emptied(changed)
                } else {
                    Attempt::Done(changed)
                })
            }
            (Change::Keep | Change::Delete, _) => Ok(Attempt::Done(Changed::from(old))),
        }
    }
}
