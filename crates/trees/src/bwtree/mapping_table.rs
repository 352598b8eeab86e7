//! The mapping table: page id → head of that page's delta chain, and the page's stamps.
//!
//! Every pointer between Bw-tree pages is a page id, so replacing a page is one compare-and-swap here and
//! no parent needs to know. The table grows by chunks that never move (`segmented_array.rs`), so growth blocks no
//! thread (trap "fixed-size mapping tables"). Heads are packed apart from the stamps, which a lookup that
//! finds its key never touches.
//!
//! # Invariants
//! - M1. A slot is filled before its page id is handed out.
//! - M2. A chain that leaves a slot, or is cut out below a head that stays, is retired to the epoch
//!   collector, never freed directly, and only by the thread that took it out by its swap.
//! - M3. A head is the head of its slot for one contiguous time: no pointer returns to a slot while a
//!   pinned thread could remember it. So a successful swap proves that nothing happened between.
//! - M4. A page id is reused only after every thread that could remember it has unpinned (trap "id reuse"),
//!   and the counter of the leaf that gets it continues where the last one ended.
//!
//! # Split deltas at the head
//!
//! Under proposal (b) a split delta S stays the head of its page until it is taken off. Updates do not
//! go on top of S but below it: S names the newest of them, D.
//!
//! ```text
//!   slot --> S --newest--> D --> … --> base          S --below------------------> base
//! ```
//! So a search that finds no split delta at the head knows that the page has none. D has the state
//! of the page (S itself as long as no D exists). Callers of `load` get D, and `push` and `replace`
//! see from D that it lies under a split delta.
//!
//! Trap: a replacement of S cannot detect a new D by the slot, as the slot does not change.
//! - M5. Before S leaves its slot its pointer to D is frozen, so that no update goes below the
//!   replaced S; the replacement has the content of exactly that D. A thread that finds the pointer
//!   frozen does not wait for the thread that froze it, but completes the replacement
//!   (`clear_change`).
//! - M6. A state D that was read from S was the page's state at some time after S was read from the slot: D
//!   leaves S only for a newer one, or by the freeze. So a version that was read this way is as
//!   valid as one read from the slot (`leaf_stamps.rs`).
//!
//! Paper: bwtree §3; §5.4, figure 20
#![expect(
    unsafe_code,
    reason = "turns table slots into node references and retires old chains"
)]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::LINE;
use namiki_index::shared::defer::{defer, pin_in_deferred};
use namiki_index::shared::id_pool::IdPool;
use namiki_index::shared::segmented_array::SegmentedArray;
use namiki_platform::prefetch;
use namiki_platform::sync::{AtomicPtr, AtomicU64};

use super::leaf_stamps::{StampTable, Stamps};
use super::node::{Header, Kind, NodeRef, OwnedNode, free_chain, free_one};
use super::page_id::PageId;
use super::retire::retire_chain;
use super::variant::Variant;

/// Lines of a leaf that a scan prefetches.
const HEAD_LINES: usize = 14;

/// The fields of a page that are stored apart from its head.
struct Side {
    stamps: Stamps,
    /// Where the counter of the next leaf with this number starts.
    floor: AtomicU64,
}

/// The table. Shared with the collector, which returns page ids to it.
pub(super) struct Mapping<K: Key, V: Variant> {
    heads: SegmentedArray<AtomicPtr<Header<K>>>,
    sides: SegmentedArray<Side>,
    ids: IdPool,
    variant: PhantomData<V>,
}

impl<K: Key, V: Variant> Mapping<K, V> {
    pub(super) fn new() -> Self {
        const { assert!(!V::SLAB || !V::IN_CHAIN && !V::SPLIT_AT_HEAD) };
        Self {
            heads: SegmentedArray::new(),
            sides: SegmentedArray::new(),
            ids: IdPool::new(),
            variant: PhantomData,
        }
    }

    #[inline]
    fn slot(&self, id: PageId) -> Option<&AtomicPtr<Header<K>>> {
        self.heads.get(id.0)
    }

    fn side(&self, id: PageId) -> Option<&Side> {
        self.sides.get(id.0)
    }

    /// The counter that a new leaf with this number starts with (M4).
    pub(super) fn first_counter(&self, id: PageId) -> u64 {
        self.side(id)
            .map_or(0, |side| side.floor.load(Ordering::SeqCst))
    }

    /// The newest state of a page; `None` if there is no such page.
    ///
    /// `SeqCst`: the rts protocol orders this load against stores of stamps (`leaf_stamps.rs`).
    #[inline]
    pub(super) fn load<'g>(&self, id: PageId, _guard: &'g Guard) -> Option<NodeRef<'g, K, V>> {
        let head = NonNull::new(self.slot(id)?.load(Ordering::SeqCst))?;
        // SAFETY: heads in the table are whole nodes, of pages of the tree or of those that are to
        // become such; this one was there after `_guard` was pinned, so it will not be freed before the
        // guard is dropped (`node.rs`, N2, M2). The load pairs with
        // the `SeqCst` swap or store that published it.
        let head = unsafe { NodeRef::new(head) };
        if V::SPLIT_AT_HEAD && head.kind() == Kind::Split {
            return Some(head.newest());
        }
        Some(head)
    }

    /// Prefetches the line that holds a page's head.
    #[inline]
    pub(super) fn prefetch(&self, id: PageId) {
        if let Some(slot) = self.slot(id) {
            prefetch(ptr::from_ref(slot).cast());
        }
    }

    /// Prefetches the first lines of a page's newest node, as many as a full leaf usually has.
    pub(super) fn prefetch_head(&self, id: PageId) {
        if let Some(slot) = self.slot(id) {
            // Relaxed: nothing is read through the pointer.
            let head = slot.load(Ordering::Relaxed).cast::<u8>().cast_const();
            (0..HEAD_LINES).for_each(|line| prefetch(head.wrapping_add(line * LINE)));
        }
    }

    /// Puts `new`, which lies on `old`, on top of it. Returns it if `old` is no longer the head.
    pub(super) fn push<'g>(
        &self,
        id: PageId,
        old: NodeRef<'g, K, V>,
        new: OwnedNode<K, V>,
    ) -> Result<NodeRef<'g, K, V>, OwnedNode<K, V>> {
        if V::SPLIT_AT_HEAD
            && let Some((split, newest)) = under_split(old)
        {
            return below_split(split, newest, new);
        }
        assert!(
            new.as_ref().next() == Some(old),
            "a delta is pushed onto the node it lies on"
        );
        self.swap(id, old, new)
    }

    /// Replaces the chain `old` by `new` and retires it. Returns `new` if `old` is no longer the
    /// head.
    pub(super) fn replace<'g>(
        &self,
        id: PageId,
        old: NodeRef<'_, K, V>,
        new: OwnedNode<K, V>,
        guard: &'g Guard,
    ) -> Result<NodeRef<'g, K, V>, OwnedNode<K, V>> {
        assert!(matches!(new.as_ref().kind(), Kind::Base | Kind::Split));
        let mut old = old;
        if V::SPLIT_AT_HEAD
            && let Some((split, newest)) = under_split(old)
        {
            // M5: in this order.
            if !split.updates().freeze(newest) {
                return Err(new);
            }
            old = split;
        }
        let new = self.swap(id, old, new)?;
        // SAFETY: the swap took `old` out of the table, so no thread that pins from now on can reach its
        // chain, and only we retire it (M2).
        unsafe { retire_chain::<K, V>(old.as_ptr(), guard) };
        Ok(new)
    }

    /// Takes a finished split delta off the fresh base node it lies on. Fails if anything was put
    /// on top, and always in the paper's own tree; the next consolidation then drops it.
    pub(super) fn trim_split<'g>(
        &self,
        id: PageId,
        split: NodeRef<'g, K, V>,
        guard: &'g Guard,
    ) -> bool {
        assert_eq!(split.kind(), Kind::Split);
        if V::LITERAL {
            return false;
        }
        let (Some(slot), Some(base)) = (self.slot(id), split.next()) else {
            return false;
        };
        // M5: in this order.
        if V::SPLIT_AT_HEAD && !split.updates().freeze(ptr::null_mut()) {
            return false;
        }
        let exchange = slot.compare_exchange(
            split.as_ptr(),
            base.as_ptr(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if exchange.is_err() {
            return false;
        }
        let split = split.as_ptr();
        // SAFETY: as in `replace`, and `Header` pointers may be freed on any thread; the base below stays,
        // and nothing borrows keys from a split delta (N3). The base was never head before, so M3 holds.
        unsafe { defer(guard, move || free_one::<K, V>(split)) };
        true
    }

    /// Replaces the chain `below` the delta `seam`, which this thread published, by the base node
    /// `new`; once for each delta (`mutable_delta_pointers.rs`, L1). The old chain is retired,
    /// while the head stays. False: another chain is below, and stays.
    pub(super) fn cut_below(
        &self,
        seam: NodeRef<'_, K, V>,
        below: NodeRef<'_, K, V>,
        new: OwnedNode<K, V>,
        guard: &Guard,
    ) -> bool {
        assert!(V::IN_CHAIN && new.as_ref().kind() == Kind::Base);
        if !seam.link().cut(below.as_ptr(), new.as_ref().as_ptr()) {
            return false;
        }
        seam.set_base_hint(new.as_ref());
        // Published: it belongs to the chain now.
        new.into_raw();
        let old = below.as_ptr();
        // SAFETY: a thread that walks the chain from now on goes to `new`; no delta above borrows from what
        // is cut out (N3), and we alone take it out and retire it (M2, L1). If the whole chain was
        // taken out of the table in between, it will be freed after `guard` is dropped, hence after
        // our swap, and `new` with it. If a writer further up cut the seam itself out, likewise.
        unsafe { retire_chain::<K, V>(old, guard) };
        true
    }

    fn swap<'g>(
        &self,
        id: PageId,
        old: NodeRef<'_, K, V>,
        new: OwnedNode<K, V>,
    ) -> Result<NodeRef<'g, K, V>, OwnedNode<K, V>> {
        let Some(slot) = self.slot(id) else {
            return Err(new);
        };
        let Some(raw) = NonNull::new(new.into_raw()) else {
            unreachable!("nodes are non-null")
        };
        let exchange = slot.compare_exchange(
            old.as_ptr(),
            raw.as_ptr(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        match exchange {
            // SAFETY: now published; the thread that takes it out defers its freeing, and `'g` is the
            // lifetime of a guard that is pinned already.
            Ok(_) => Ok(unsafe { NodeRef::new(raw) }),
            // SAFETY: it came from `into_raw` above and was not published.
            Err(_) => Err(unsafe { OwnedNode::from_raw(raw) }),
        }
    }

    /// Takes a page id, or `None` if all are in use. Its slot is empty until `fill`.
    pub(super) fn allocate(&self) -> Option<PageId> {
        let id = self.ids.take()?;
        self.sides.reach(id, || Side {
            stamps: Stamps::new(),
            floor: AtomicU64::new(0),
        });
        self.heads.reach(id, || AtomicPtr::new(ptr::null_mut()));
        Some(PageId(id))
    }

    /// Takes all page ids that were never used.
    pub(super) fn use_up(&self) {
        self.ids.use_up();
    }

    /// Publishes the first node of a page taken with `allocate` (M1).
    pub(super) fn fill(&self, id: PageId, node: OwnedNode<K, V>) {
        if let Some(slot) = self.slot(id) {
            let before = slot.swap(node.into_raw(), Ordering::SeqCst);
            assert!(before.is_null(), "a page is filled once");
        }
    }

    /// Empties and releases a page that no page leads to: one that has not become part of the tree,
    /// or a removed one. A thread that iterates over numbers, to count pages or to look for a leaf
    /// that had this one, may still have loaded its head, so it is retired like any other. A page
    /// that was never filled is reusable immediately.
    pub(super) fn unfill(self: &Arc<Self>, id: PageId, guard: &Guard) {
        let Some(slot) = self.slot(id) else { return };
        let head = slot.swap(ptr::null_mut(), Ordering::SeqCst);
        if head.is_null() {
            return self.release(id);
        }
        let mapping = Arc::clone(self);
        // SAFETY: the swap took the chain out of the table, and no page leads to it, so no thread that pins
        // from now on can reach it; the thread that swaps a head for null retires it, once (M2). (A
        // removed page's chain, or the part of it that its sibling did not take, is owned by its slot
        // alone.) Everything the closure owns may be dropped on any thread.
        unsafe {
            defer(guard, move || {
                free_chain::<K, V>(head);
                mapping.release(id);
            });
        }
    }

    /// Retires a removed page: once no pinned thread can remember it, its removal delta (with the
    /// chain below, if that went nowhere) is freed and its id may be used again (M4).
    ///
    /// In two steps, because the removal stays in its slot until no thread can have a path to the
    /// page: a thread that pins after that step was deferred, and iterates over numbers (see
    /// `unfill`), can still load the removal.
    pub(super) fn retire_page<'g>(
        self: &Arc<Self>,
        id: PageId,
        head: NodeRef<'g, K, V>,
        guard: &'g Guard,
    ) {
        assert!(head.is_removed());
        if head.level() == 0
            && let Some(side) = self.side(id)
        {
            side.floor.fetch_max(head.counter() + 1, Ordering::SeqCst);
        }
        let mapping = Arc::clone(self);
        // SAFETY: the closure touches only the table, and everything it owns may be dropped on any thread.
        // It runs when no thread has a path to the page.
        unsafe {
            defer(guard, move || {
                pin_in_deferred(move |guard| mapping.unfill(id, guard));
            });
        }
    }

    fn release(&self, id: PageId) {
        self.ids.give_back(id.0);
    }

    /// All ids that were ever handed out; some of them may be free now.
    pub(super) fn ids(&self) -> impl Iterator<Item = PageId> + use<K, V> {
        self.ids.ever().map(PageId)
    }

    /// Bytes of the table itself.
    pub(super) fn bytes(&self) -> usize {
        self.heads.bytes() + self.sides.bytes() + self.ids.bytes()
    }
}

/// The split delta at the head of the page with the state `head`, and the newest delta below it
/// according to that split delta: for trees that keep split deltas at the head.
fn under_split<K: Key, V: Variant>(
    head: NodeRef<'_, K, V>,
) -> Option<(NodeRef<'_, K, V>, *mut Header<K>)> {
    let split = head.smo().filter(|change| change.kind() == Kind::Split)?;
    let none = head == split;
    Some((split, if none { ptr::null_mut() } else { head.as_ptr() }))
}

/// Puts `new`, which lies on `newest`, below a split delta at the head.
fn below_split<'g, K: Key, V: Variant>(
    split: NodeRef<'_, K, V>,
    newest: *mut Header<K>,
    new: OwnedNode<K, V>,
) -> Result<NodeRef<'g, K, V>, OwnedNode<K, V>> {
    let expected = NonNull::new(newest).map_or_else(|| split.next(), |_| None);
    assert!(
        new.as_ref().next().map(NodeRef::as_ptr)
            == expected.map_or(Some(newest), |base| Some(base.as_ptr())),
        "a delta is pushed onto the node it lies on"
    );
    let Some(raw) = NonNull::new(new.into_raw()) else {
        unreachable!("nodes are non-null")
    };
    if split.updates().push(newest, raw.as_ptr()) {
        // SAFETY: as in `swap`.
        Ok(unsafe { NodeRef::new(raw) })
    } else {
        // SAFETY: it came from `into_raw` above and was not published.
        Err(unsafe { OwnedNode::from_raw(raw) })
    }
}

impl<K: Key, V: Variant> StampTable for Mapping<K, V> {
    fn stamps(&self, leaf: PageId) -> Option<&Stamps> {
        self.side(leaf).map(|side| &side.stamps)
    }
}

impl<K: Key, V: Variant> Mapping<K, V> {
    /// See [`raise_and_check`](namiki_index::PointIndex::raise_and_check).
    pub(super) fn raise_and_check(&self, seen: LeafVersion, rts: u64, guard: &Guard) -> bool {
        let Ok(leaf) = u32::try_from(seen.leaf) else {
            return false;
        };
        self.raise_rts(PageId(leaf), rts);
        self.version(seen.leaf, guard) == Some(seen)
    }

    /// The version of a leaf now.
    pub(super) fn version(&self, leaf: u64, guard: &Guard) -> Option<LeafVersion> {
        let head = self.load(PageId(u32::try_from(leaf).ok()?), guard)?;
        let alive = head.level() == 0 && !head.is_removed();
        alive.then(|| LeafVersion {
            leaf,
            counter: head.counter(),
        })
    }
}

impl<K: Key, V: Variant> Drop for Mapping<K, V> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no thread uses the tree, and retired chains are not in the table, so
        // each chain here is owned by its slot alone. A removed page does not own what its sibling
        // took (every operation finishes its merge).
        self.heads
            .for_each_mut(|head| unsafe { free_chain::<K, V>(head.load(Ordering::Relaxed)) });
    }
}
