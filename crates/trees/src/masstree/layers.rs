//! Layers: subtrees of keys that share a slice and differ after it.
//!
//! ```text
//!   leaf:  | ... "customer" LONG | ...               leaf:  | ... "customer" LINK | ...
//!                     |                       =>                       |
//!                  suffix "/0000017/name"                           layer "/0000017"
//!                                                                      |
//!   and "customer/0000017/street" comes              leaf:  | "/name" | "/street" |
//! ```
//!
//! The layer stores the prefix that its keys share beyond the slice once, in whole slices, with its
//! root. Every key continues after that prefix, so a key never has to move back to the layer above.
//! The leaf with the link accounts for the absence of keys that do not share the prefix; when one
//! is inserted, a layer is put in between:
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
//! Such an insertion replaces the old layer by another with the same root. A descent through the
//! old one may go on. But a root is replaced by writing to the layer: so the old layer's root is
//! set to null under the lock of the root, and a thread that replaces a root checks that it is that
//! of the layer.
//!
//! Paper: bwtree §2.5

use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::{IndexError, Inserted};
use namiki_platform::sync::{AtomicPtr, wait};

use super::Masstree;
use super::border::{Border, Content, Entry};
use super::key_slices::{Cut, SLICE, Slicing};
use super::node::{self, NodeRef};
use super::suffix_block::Layer;
use super::version::Locked;

impl<K: Slicing> Masstree<K> {
    /// Adds a key if its slot holds another key's suffix, or a layer with a prefix that the key
    /// does not share.
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

    /// Moves the root of a layer to a new layer with fewer bytes in common. The leaf with the link
    /// is locked.
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

/// Number of leading bytes that both share, in whole slices, with a rest left in both. Neither is
/// empty.
pub(super) fn shared_slices(a: &[u8], b: &[u8]) -> usize {
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    shared.min(a.len().min(b.len()) - 1) / SLICE * SLICE
}
