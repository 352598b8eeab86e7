//! Destruction of a tree. Layers may be nested thousands deep, so it uses a work list, not
//! recursion.
#![expect(unsafe_code, reason = "frees what the tree owns")]

use crossbeam_epoch as epoch;

use super::Masstree;
use super::border::Content;
use super::key_slices::Slicing;
use super::node::{self, Kind, NodeRef};

impl<K: Slicing> Drop for Masstree<K> {
    fn drop(&mut self) {
        // Nothing is retired here; the guard only gives references their lifetime.
        let guard = &epoch::pin();
        let mut to_free: Vec<NodeRef<'_, K>> = Vec::new();
        to_free.extend(node::root(self.first.root(), guard));
        while let Some(node) = to_free.pop() {
            match node.kind() {
                Kind::Interior(interior) => {
                    let lock = interior.header.version.lock();
                    to_free.extend((0..interior.len()).map(|i| interior.held(i, &lock, guard)));
                }
                Kind::Border(leaf) => {
                    let seen = node.stable();
                    let Some(snapshot) = leaf.snapshot(seen, guard) else {
                        unreachable!("no other thread has the tree")
                    };
                    for i in 0..snapshot.len {
                        if let Content::Layer(below) = snapshot.content(i) {
                            to_free.extend(node::root(below.root(), guard));
                        }
                    }
                    self.table.withdraw(&leaf.mark);
                    // SAFETY: no other thread has the tree, and its blocks are not read again.
                    unsafe { leaf.free_blocks() };
                }
            }
            // SAFETY: no other thread has the tree, and what this node led to is on the list.
            unsafe { node.free() };
        }
    }
}
