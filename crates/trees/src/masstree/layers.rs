//! Layers: where keys share a slice and go on differently.
//!
//! ```text
//!   leaf:  | ... "customer" LONG | ...               leaf:  | ... "customer" LINK | ...
//!                     |                       =>                       |
//!                  suffix "/0000017/name"                           layer "/0000017"
//!                                                                      |
//!   and "customer/0000017/street" comes              leaf:  | "/name" | "/street" |
//! ```
//!
//! What the keys share beyond the slice is kept once, in whole slices, beside the layer's root; each goes
//! on after that, so that the layer never has to give one back to another. A key that
//! does not share it is told to be absent by the leaf with the link; when it comes, a layer is put between:
//!
//! ```text
//!   link --> layer "/0000017"               link --> layer ""
//!                |                    =>               |
//!              leaf                         leaf:  | "/0000017" LINK | "/0000042" LONG |
//!                                                        |
//!                                                    layer ""  --> leaf as it was
//! ```
//!
//! So a key adds one leaf at most, however long the shared part is, and the answer of an insertion has room
//! for it: a transaction that relied on the leaf may rely on the leaf and on that of the layer.
//!
//! A layer put between replaces the old one by another with the same root. A descent through the old one
//! may go on. But a root is replaced by writing to the layer: so the old layer's root is set to null under
//! the lock of the root, and a thread that replaces a root checks that it is that of the layer.
//!
//! Paper: bwtree §2.5

use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::sync::{AtomicPtr, wait};
use namiki_index::{IndexError, Inserted};

use super::Masstree;
use super::border::{Border, Content, Entry};
use super::key_slices::{Cut, SLICE, Slicing};
use super::node::{self, NodeRef};
use super::suffix_block::Layer;
use super::version::Locked;

impl<K: Slicing> Masstree<K> {
    /// Adds a key where another one's suffix, or a layer that it does not fit in, is in its slot.
    #[inline(never)]
    pub(super) fn grow_layer(
        &self,
        leaf: &Border<K>,
        slot: usize,
        mut lock: Locked<'_>,
        cut: &Cut<'_>,
        payload: u64,
        guard: &Guard,
    ) -> Result<Inserted, IndexError> {
        let mark = self.table.mark().ok_or(IndexError::OutOfPages)?;
        let first = node::create(Border::<K>::new(mark, 0, true), guard);
        let mut entries = [Entry::default(); 2];
        let shared = match leaf.held(slot, &lock, guard) {
            Content::Suffix(suffix) => {
                let shared = shared_slices(suffix.bytes(), cut.rest);
                let rest = Cut::of(&suffix.bytes()[shared..]);
                entries[0] = Entry::of::<K>(&rest, suffix.payload(), guard);
                shared
            }
            Content::Layer(below) => {
                let shared = shared_slices(below.bytes(), cut.rest);
                let rest = Cut::of(&below.bytes()[shared..]);
                entries[0] = Entry::link(rest.slice, self.move_layer(below, rest.rest, guard));
                shared
            }
            Content::Payload(_) => unreachable!("a payload is that of the key"),
        };
        let own = Cut::of(&cut.rest[shared..]);
        entries[1] = Entry::of::<K>(&own, payload, guard);
        entries.sort_unstable_by_key(|entry| (entry.slice, entry.marker));
        first.fill(&entries);
        let root = AtomicPtr::new(node::pointer(first));
        let layer = Layer::create(root, &cut.rest[..shared], guard);

        let before = leaf.mark.version();
        lock.inserting();
        self.table.split(&leaf.mark, &first.mark);
        first.publish(&self.table);
        leaf.set_link(slot, layer, &lock, guard);
        let after = leaf.mark.version();
        Ok(Inserted {
            before,
            after,
            split: Some((after, first.mark.version())),
        })
    }

    /// A layer with the root of another, which has it no longer, and fewer bytes in common. The leaf with
    /// the link is locked.
    fn move_layer<'g>(&self, from: &Layer, bytes: &[u8], guard: &'g Guard) -> &'g Layer {
        let mut turn = 0;
        loop {
            if let Some(root) = node::root::<K>(from.root(), guard)
                && let Some(layer) = move_from(from, root, bytes, guard)
            {
                return layer;
            }
            // The root is being replaced.
            wait(turn);
            turn += 1;
        }
    }
}

/// `None`: it is not the root any longer.
fn move_from<'g, K: Slicing>(
    from: &Layer,
    root: NodeRef<'g, K>,
    bytes: &[u8],
    guard: &'g Guard,
) -> Option<&'g Layer> {
    let mut lock = root.lock();
    if from.root().load(Ordering::Relaxed) != root.pointer() {
        return None;
    }
    // A descent that saw it as the old layer's root must look again.
    lock.splitting();
    let layer = Layer::create(AtomicPtr::new(root.pointer()), bytes, guard);
    from.root().store(ptr::null_mut(), Ordering::Release);
    Some(layer)
}

/// How many bytes both begin with, in whole slices, and go on after. Neither is empty.
pub(super) fn shared_slices(a: &[u8], b: &[u8]) -> usize {
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    shared.min(a.len().min(b.len()) - 1) / SLICE * SLICE
}
