//! Construction of a base node, with its slab if it has one. The invariants are those of `node.rs`.
#![expect(unsafe_code, reason = "a slab lies in front of its base node")]

use std::ptr;
use std::sync::atomic::AtomicPtr;

use namiki_index::key::Key;

use super::kind::Kind;
use super::{BaseHeader, HIGH, Header, Link, OwnedNode, SLAB, Word, slab};
use crate::bwtree::variant::Variant;

impl<K: Key, V: Variant> OwnedNode<K, V> {
    /// A base node of `bytes` bytes in all, for `base.rs` to fill before it is used.
    pub(in crate::bwtree) fn base(header: &BaseHeader<'_, K>, len: usize, bytes: usize) -> Self {
        let bytes = bytes.max(size_of::<Header<K>>());
        let slab = slab::bytes::<K>(header.slots);
        let mut flags = if header.high.is_some() { HIGH } else { 0 };
        if slab > 0 {
            flags |= SLAB;
        }
        let node = Self::allocate_behind(slab, Kind::Base, bytes, |extent| Header {
            kind: Kind::Base,
            level: header.level,
            depth: 0,
            flags,
            len: len as u32,
            right: header.right,
            extent,
            counter: header.counter,
            high: K::raw(header.high.unwrap_or(header.low)),
            key: K::raw(header.low),
            next: Link::new(ptr::null()),
            hint: AtomicPtr::new(ptr::null_mut()),
            word: Word {
                change: ptr::null(),
            },
        });
        node.as_ref().set_base_hint(node.as_ref());
        if slab > 0 {
            // SAFETY: the slab's bytes lie before the node, and it is ours alone (N1).
            unsafe { slab::prepare::<K>(node.0, header.slots) };
        }
        node
    }
}
