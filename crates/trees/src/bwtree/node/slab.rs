//! Layout of a slab's parts, in front of its base node.
//!
//! ```text
//!  start                                                       the node's address, a multiple of 128
//!  | room | slot n-1 | … | slot 1 | slot 0 | marks 0 … n-1 | claims | header | entries …
//! ```
//! Claims and marks end where the header begins and take whole lines, one for up to seven slots. A slot
//! is a line for eight-byte keys; two for byte strings, of which a delta keeps the bytes. The
//! contents of the base node do not affect these places.
//!
//! The invariants are those of `slab_slots.rs` and `node.rs`.
//!
//! Paper: bwtree §2.4, reference 11
#![expect(unsafe_code, reason = "a slab lies in front of its base node")]

use std::mem::size_of;
use std::ptr::NonNull;
use std::slice;

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::LINE;
use namiki_platform::sync::AtomicU64;

use super::{BASE_ALIGN, Header, Kind, NodeRef, SLAB};
use crate::bwtree::slab_slots::{Claims, has_mark, mark_of, set_mark};
use crate::bwtree::variant::Variant;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Claims>() == size_of::<AtomicU64>());

/// Bytes of a slot.
pub(in crate::bwtree) const fn slot_bytes<K: Key>() -> usize {
    // One line, except under loom.
    let header = size_of::<Header<K>>().next_multiple_of(LINE);
    if K::INLINE { header } else { 2 * LINE }
}

/// Bytes of claims and marks, in whole lines.
#[inline]
const fn control_bytes(slots: usize) -> usize {
    (size_of::<Claims>() + slots * size_of::<AtomicU64>()).next_multiple_of(LINE)
}

/// Bytes of a slab, such that a node behind it is aligned as its start is.
pub(super) const fn bytes<K: Key>(slots: usize) -> usize {
    if slots == 0 {
        return 0;
    }
    (control_bytes(slots) + slots * slot_bytes::<K>()).next_multiple_of(BASE_ALIGN)
}

/// Makes the slab in front of a node ready, its slots uninitialised.
///
/// # Safety
/// `bytes::<K>(slots)` bytes before `node`, which is aligned as base nodes are, are ours alone, and
/// `slots` is not 0.
pub(super) unsafe fn prepare<K: Key>(node: NonNull<Header<K>>, slots: usize) {
    // SAFETY: within those bytes, as `control_bytes` counts both; and aligned, as the node is.
    unsafe {
        let claims = node.cast::<Claims>().sub(1);
        claims.write(Claims::new(slots));
        let marks = claims.cast::<AtomicU64>().sub(slots);
        for slot in 0..slots {
            marks.add(slot).write(AtomicU64::new(0));
        }
    }
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
    /// Whether this is a base node with a slab in front of it.
    #[inline]
    fn has_slab(self) -> bool {
        self.kind() == Kind::Base && self.header().flags & SLAB != 0
    }

    fn claims(self) -> &'g Claims {
        assert!(self.has_slab());
        // SAFETY: `prepare` made it, before a base node that says it has a slab; it is alive as long as
        // the node is (O1, N4), and only its atomics change.
        unsafe { self.pointer.cast::<Claims>().sub(1).as_ref() }
    }

    #[inline]
    fn marks(self) -> &'g [AtomicU64] {
        let claims = self.claims();
        let end = std::ptr::from_ref(claims).cast::<AtomicU64>();
        // SAFETY: `prepare` wrote as many marks as there are slots, right before the claims.
        unsafe { slice::from_raw_parts(end.sub(claims.slots()), claims.slots()) }
    }

    /// Number of slots in the slab of this base node.
    pub(in crate::bwtree) fn slots(self) -> usize {
        if self.has_slab() {
            self.claims().slots()
        } else {
            0
        }
    }

    /// Bytes of the slab of this base node.
    pub(super) fn slab_bytes(self) -> usize {
        bytes::<K>(self.slots())
    }

    /// Takes a slot of this base node's slab for a delta of `bytes` bytes about `key`, and marks it.
    /// `None`: all are taken, or it does not fit in one.
    pub(super) fn take_slot(self, bytes: usize, key: K::Ref<'_>) -> Option<NonNull<Header<K>>> {
        if !self.has_slab() || bytes > slot_bytes::<K>() {
            return None;
        }
        let slot = self.claims().take()?;
        set_mark(self.marks(), slot, mark_of::<K>(key));
        let down = control_bytes(self.slots()) + (slot + 1) * slot_bytes::<K>();
        // SAFETY: `slot` is less than the number of slots, so this is within the slab (`bytes`).
        Some(unsafe { self.pointer.byte_sub(down) })
    }

    /// Whether a delta in the slab of this base node may be about the key.
    #[inline]
    pub(super) fn may_have_delta(self, key: K::Ref<'_>) -> bool {
        has_mark(self.marks(), mark_of::<K>(key))
    }
}
