//! Construction of delta records, on top of the node that was the head.
//!
//! The invariants are those of `node.rs`.
#![expect(
    unsafe_code,
    reason = "writes the headers and bodies of nodes that are not published yet"
)]

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use namiki_index::key::Key;

use super::{
    CHANGING, Change, ChangeBody, HIGH, Header, INHERITED, Kind, LOOSE, Link, NodeRef, OWNS_NEXT,
    OwnedNode, SLAB, Spot, UNCOUNTED, UPPER, Updates, Word, is_spotted,
};
use crate::bwtree::page_id::PageId;
use crate::bwtree::variant::Variant;

/// Whether the deltas of this variant copy the bytes of a key that is below them, as the chain
/// below may be freed before they are. Otherwise they refer to the bytes below (N3).
const fn copies<V: Variant>() -> bool {
    V::IN_CHAIN
}

/// The fields of a delta that describe its page, as those of the node below do. A delta of the
/// paper's own tree has of them its number and version; a search finds the rest below (`literal.rs`).
struct Description<K: Key> {
    depth: u8,
    flags: u8,
    len: u32,
    right: PageId,
    counter: u64,
    high: K::Raw,
    hint: AtomicPtr<Header<K>>,
}

impl<K: Key> Description<K> {
    #[inline(always)]
    fn of<V: Variant>(under: &Header<K>) -> Self {
        let mut this = Self {
            depth: next_number::<V>(under.depth),
            flags: under.flags & INHERITED,
            len: under.len,
            right: under.right,
            counter: under.counter,
            high: under.high,
            hint: AtomicPtr::new(under.hint.load(Ordering::Relaxed)),
        };
        if V::LITERAL {
            // Under proposal (b) a delta says whether it lies below a split delta.
            this.flags = if V::SPLIT_AT_HEAD {
                under.flags & CHANGING
            } else {
                0
            };
            this.len = 0;
            this.right = PageId::NONE;
            this.high = under.key;
            this.hint = AtomicPtr::new(ptr::null_mut());
        }
        this
    }
}

/// The node that a delta put on `on` lies on. Under proposal (b) a delta put on a split delta goes
/// below it; the split delta describes the page without such deltas.
fn below<'g, K: Key, V: Variant>(on: NodeRef<'g, K, V>) -> NodeRef<'g, K, V> {
    match on.next() {
        Some(next) if V::SPLIT_AT_HEAD && on.kind() == Kind::Split => next,
        _ => on,
    }
}

impl<K: Key, V: Variant> OwnedNode<K, V> {
    /// Where the bytes after the header begin.
    fn area(&mut self) -> *mut u8 {
        // SAFETY: the allocation starts with a header, so one past it is in bounds or its end.
        unsafe { self.0.as_ptr().add(1).cast() }
    }

    /// A delta on top of `on`, with room for `body` bytes and then those of `own_key` and, if they are
    /// to be copied, of the upper fence and of `more`. The fence is copied; `at`, which is returned,
    /// is where the next key goes, from the start of the area. If there is a `slot`, it is large enough.
    fn delta(
        kind: Kind,
        on: NodeRef<'_, K, V>,
        slot: Option<NonNull<Header<K>>>,
        body: usize,
        own_key: usize,
        more: usize,
    ) -> (Self, usize) {
        let under = on.header();
        let fence = if copies::<V>() && !V::LITERAL {
            on.high()
        } else {
            None
        };
        let fence_bytes = fence.map_or(0, |high| K::tail(high).len());
        let copied = if copies::<V>() { more } else { 0 };
        let bytes = size_of::<Header<K>>() + body + fence_bytes + own_key + copied;
        let page = Description::of::<V>(under);
        let header = |bytes| Header {
            kind,
            level: under.level,
            depth: page.depth,
            flags: page.flags,
            len: page.len,
            right: page.right,
            extent: if is_spotted::<K>(kind) {
                Spot::UNKNOWN.word()
            } else {
                bytes
            },
            counter: page.counter,
            high: page.high,
            key: under.key,
            next: Link::new(below::<K, V>(on).as_ptr()),
            hint: page.hint,
            word: Word {
                change: ptr::null(),
            },
        };
        let mut node = match slot {
            Some(slot) => {
                // SAFETY: ours alone (`bwtree/slab_slots.rs`, O1), large enough and aligned to a
                // line.
                unsafe { slot.write(header(bytes as u32)) };
                Self(slot, PhantomData)
            }
            None => Self::allocate(kind, bytes, header),
        };
        let mut at = body;
        if let Some(high) = fence {
            let high = node.keep(&mut at, high);
            // SAFETY: `node` is ours alone (N1) and its header is initialised.
            unsafe { node.0.as_mut().high = high };
        }
        (node, at)
    }

    /// Copies a key's bytes to `at` behind the header and moves `at` behind them.
    fn keep(&mut self, at: &mut usize, key: K::Ref<'_>) -> K::Raw {
        let tail = K::tail(key);
        // SAFETY: `delta` reserved the bytes of this very key at this place of the area; the memory is
        // ours alone (N1), cannot overlap `tail`, and the copy lives as long as the `Raw` made from
        // it, which goes into this node (N3).
        unsafe {
            let copy = self.area().add(*at);
            ptr::copy_nonoverlapping(tail.as_ptr(), copy, tail.len());
            *at += tail.len();
            let tail = std::slice::from_raw_parts(copy, tail.len());
            K::raw(K::from_parts(K::head(key, 0), tail))
        }
    }

    /// A leaf delta (`Put` or `Delete`) on top of `on`.
    pub(in crate::bwtree) fn record(
        kind: Kind,
        key: K::Ref<'_>,
        payload: u64,
        on: NodeRef<'_, K, V>,
    ) -> Self {
        let own_key = K::tail(key).len();
        let slot = if V::SLAB {
            on.home().take_slot(size_of::<Header<K>>() + own_key, key)
        } else {
            None
        };
        let (mut node, mut at) = Self::delta(kind, on, slot, 0, own_key, 0);
        let key = node.keep(&mut at, key);
        // SAFETY: `node` is ours alone (N1) and its header is initialised.
        let header = unsafe { node.0.as_mut() };
        if V::SLAB {
            header.flags |= if slot.is_some() { SLAB } else { LOOSE };
        }
        header.key = key;
        header.word.payload = payload;
        node
    }

    /// Moves a leaf delta that could not be installed onto another head.
    pub(in crate::bwtree) fn relink(
        mut self,
        key: K::Ref<'_>,
        payload: u64,
        on: NodeRef<'_, K, V>,
    ) -> Self {
        if copies::<V>() && !K::INLINE {
            // The fence may have changed, and with it the room for its bytes.
            return Self::record(self.as_ref().kind(), key, payload, on);
        }
        // O2. Perhaps there is a slot now for one that had none.
        if V::SLAB && !(self.as_ref().is_in_slab() && self.as_ref().home() == on.home()) {
            return Self::record(self.as_ref().kind(), key, payload, on);
        }
        let page = Description::of::<V>(on.header());
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let header = unsafe { self.0.as_mut() };
        header.depth = page.depth;
        header.flags = header.flags & SLAB | page.flags;
        header.len = page.len;
        header.counter = page.counter;
        if is_spotted::<K>(header.kind) {
            header.extent = Spot::UNKNOWN.word();
        }
        header.right = page.right;
        header.high = page.high;
        header.next = Link::new(below::<K, V>(on).as_ptr());
        header.hint = page.hint;
        header.word.payload = payload;
        self
    }

    /// Records that this delta adds a record to its page, or (-1) takes one away: a new version.
    pub(in crate::bwtree) fn add_keys(&mut self, gain: i32) {
        self.add_to_len(gain);
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        unsafe { self.0.as_mut().counter += 1 };
    }

    fn add_to_len(&mut self, gain: i32) {
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let len = unsafe { &mut self.0.as_mut().len };
        *len = if V::LITERAL {
            gain as u32
        } else {
            // Uncounted, the length may be too small already.
            len.saturating_add_signed(gain)
        };
    }

    /// Records the position of the key in the base node. For a writer that searched for it in the
    /// state this delta lies on.
    pub(in crate::bwtree) fn set_spot(&mut self, spot: Spot) {
        // A chain that is cut has another base node then.
        if !V::IN_CHAIN && !V::LITERAL && is_spotted::<K>(self.as_ref().kind()) {
            // SAFETY: `self` is ours alone (N1) and its header is initialised.
            unsafe { self.0.as_mut().extent = spot.word() };
        }
    }

    /// Records that the writer did not check whether this delta adds a key (N6): a new version.
    pub(in crate::bwtree) fn set_uncounted(&mut self) {
        // SAFETY: `self` is ours alone (N1) and its header is initialised.
        let header = unsafe { self.0.as_mut() };
        header.flags |= UNCOUNTED;
        header.counter += 1;
    }

    /// `own_key`: the key is not below and is copied in any variant.
    fn change(
        kind: Kind,
        on: NodeRef<'_, K, V>,
        change: &Change<'_, K>,
        own_key: bool,
        other: Updates<Header<K>>,
    ) -> Self {
        let own_key = own_key || copies::<V>();
        let key_bytes = if own_key {
            K::tail(change.key).len()
        } else {
            0
        };
        let bounds = [Some(change.lower), change.upper];
        let more = bounds.iter().flatten().map(|key| K::tail(*key).len()).sum();
        let body = size_of::<ChangeBody<K>>();
        let (mut node, mut at) = Self::delta(kind, on, None, body, key_bytes, more);
        let mut raw = |key: K::Ref<'_>, copy: bool| {
            if copy {
                node.keep(&mut at, key)
            } else {
                K::raw(key)
            }
        };
        let key = raw(change.key, own_key);
        let lower = raw(change.lower, copies::<V>());
        let upper = change.upper.map(|upper| raw(upper, copies::<V>()));
        // SAFETY: `node` is ours alone (N1), a `ChangeBody` was reserved after the header, and both
        // are aligned to 8.
        unsafe {
            let header = node.0.as_mut();
            header.key = key;
            if upper.is_some() {
                header.flags |= UPPER;
            }
            if let Some(change) = on.smo() {
                header.word.change = change.as_ptr();
            }
            node.area().cast::<ChangeBody<K>>().write(ChangeBody {
                child: change.child,
                page: change.page,
                lower,
                upper: upper.unwrap_or(lower),
                other,
            });
        }
        node
    }

    /// Makes this node the structure change that may be half done.
    fn announce(&mut self) {
        let this = self.0.as_ptr();
        // SAFETY: `self` is ours alone (N1), and the word of its kind is `change`.
        let header = unsafe { self.0.as_mut() };
        header.word.change = this;
        header.flags |= CHANGING;
    }

    /// A split delta over the fresh left half: keys from the half's `high` on are in page `right`.
    /// `grown` is the root that was prepared for the two, or `NONE`.
    pub(in crate::bwtree) fn split(mut left: Self, right: PageId, grown: PageId) -> Self {
        let on = left.as_ref();
        let key = on.high().unwrap_or(on.low());
        let change = Change {
            key,
            child: right,
            page: grown,
            lower: key,
            upper: None,
        };
        let (key, high) = (K::raw(key), on.header().high);
        let mut node = Self::change(Kind::Split, on, &change, false, Updates::none());
        // Its keys are those of the base node below it in any variant (N3), which lives longer.
        // SAFETY: both nodes are ours alone (N1). It lies on the base node itself.
        unsafe {
            let header = node.0.as_mut();
            (header.key, header.high) = (key, high);
            header.next = Link::new(left.0.as_ptr());
            left.0.as_mut().word.change = node.0.as_ptr();
        }
        node.announce();
        std::mem::forget(left);
        node
    }

    /// An entry of an inner page, or its end. `change.lower` and `change.upper` belong to `on`'s
    /// chain; `key` is copied.
    pub(in crate::bwtree) fn index(
        kind: Kind,
        change: &Change<'_, K>,
        on: NodeRef<'_, K, V>,
    ) -> Self {
        let mut node = Self::change(kind, on, change, true, Updates::none());
        match kind {
            Kind::IndexInsert => node.add_to_len(1),
            Kind::IndexDelete => {
                node.add_to_len(-1);
                // SAFETY: `node` is ours alone (N1).
                unsafe { node.0.as_mut().flags &= !CHANGING };
            }
            _ => node.announce(),
        }
        node
    }

    /// The removal of `on`'s page, with the merge announced in page `parent`; `NONE`: the page is a root
    /// that collapses and keeps the chain below.
    pub(in crate::bwtree) fn remove(parent: PageId, on: NodeRef<'_, K, V>) -> Self {
        let low = on.low();
        let change = Change {
            key: low,
            child: PageId::NONE,
            page: parent,
            lower: low,
            upper: None,
        };
        let mut node = Self::change(Kind::Remove, on, &change, false, Updates::none());
        if parent == PageId::NONE {
            // SAFETY: `node` is ours alone (N1).
            unsafe { node.0.as_mut().flags |= OWNS_NEXT };
        }
        node
    }

    /// The union of `left` with the frozen chain `right` of its right sibling, page `right_id`. The
    /// merge is announced in page `parent`.
    pub(in crate::bwtree) fn merge(
        left: NodeRef<'_, K, V>,
        right: NodeRef<'_, K, V>,
        right_id: PageId,
        parent: PageId,
    ) -> Self {
        let low = right.low();
        let change = Change {
            key: low,
            child: right_id,
            page: parent,
            lower: low,
            // Room for the upper fence, which is not that of `left`.
            upper: right.high(),
        };
        let other = Updates::fixed(right.as_ptr());
        let mut node = Self::change(Kind::Merge, left, &change, false, other);
        // SAFETY: `change` wrote a body, and it is ours alone (N1).
        let high = unsafe { (*node.area().cast::<ChangeBody<K>>()).upper };
        let from = right.header();
        // SAFETY: `node` is ours alone (N1). Keys that were not copied are of `right`'s chain, which
        // joins this one (N3).
        let header = unsafe { node.0.as_mut() };
        header.depth = next_number::<V>(header.depth.saturating_add(from.depth));
        header.flags = (header.flags & !(HIGH | UPPER)) | from.flags & (HIGH | UNCOUNTED) | LOOSE;
        header.high = high;
        header.right = from.right;
        if !V::LITERAL {
            header.len += from.len;
        }
        header.counter = header.counter.max(from.counter) + 1;
        node.announce();
        node
    }
}

/// The number of a delta that lies on the one with this number: never that of a base node. Where
/// chains are cut below their heads it counts on for ever, and begins again after the last.
fn next_number<V: Variant>(below: u8) -> u8 {
    below
        .checked_add(1)
        .unwrap_or(if V::IN_CHAIN { 1 } else { below })
}
