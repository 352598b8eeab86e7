//! Consolidation: a delta chain becomes one base node.
//!
//! A structure change that is half done is completed first: its delta announces it and must not be
//! lost before the parent knows. If the compare-and-swap fails, consolidation is not repeated; the
//! next thread that finds the chain too long tries again.
//!
//! Consolidation is done by the writer that makes a chain reach the threshold with its delta (in another
//! way under `consolidate_in_chain.rs`), or that meets a page larger than the limit; by a deleter that leaves few
//! records; by a scan, which must sort the records anyway; and now and then by a single look-up that passes
//! a page with deltas, so that a page that is no longer written becomes clean, whatever the last writer
//! left. A read or an update never splits or merges a leaf, nor does an insertion merge one: a transaction
//! must not invalidate, by an operation that cannot report it, the leaf versions it has just been given.
//!
//! Few changes, the common case, are merged directly into a copy of the base node; other chains go
//! through a list of all entries.
//!
//! Paper: bwtree §4.2.1

use std::cell::Cell;
use std::cmp::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::base::child_prefetch_hint;
use super::base::{self, Entry, Fate};
use super::descend::Place;
use super::node::{BaseHeader, Kind, NodeRef, OwnedNode};
use super::page_id::PageId;
use super::structure_change_types::{Below, Resize, SplitDone};
use super::variant::Variant;

/// One in this number of the look-ups that meet a leaf with deltas consolidates it.
const READS_PER_CONSOLIDATION: u32 = if cfg!(loom) { NEVER } else { 8 };
/// The same for inner pages, which are larger and which insertions keep changing.
const PASSES_PER_CONSOLIDATION: u32 = if cfg!(loom) { NEVER } else { 64 };
/// A run of a model must not depend on the number of earlier runs.
const NEVER: u32 = u32::MAX;

/// Appends the records of the page in this state, in key order.
pub(super) fn collect<'g, K: Key, V: Variant>(
    head: NodeRef<'g, K, V>,
    out: &mut Vec<Entry<'g, K>>,
) {
    // Newest first, up to where the sorted entries begin.
    let mut changes: Vec<(K::Ref<'g>, Option<u64>)> = Vec::new();
    let mut node = head;
    loop {
        match node.kind() {
            Kind::Base | Kind::Merge => break,
            Kind::Put => changes.push((node.key(), Some(node.payload()))),
            Kind::IndexInsert => changes.push((node.key(), Some(u64::from(node.child().0)))),
            Kind::Delete | Kind::IndexDelete => changes.push((node.key(), None)),
            Kind::Split | Kind::Remove | Kind::Merging => {}
        }
        let Some(next) = node.next() else {
            unreachable!("a chain ends in a base node")
        };
        node = next;
    }
    let start = out.len();
    if node.kind() == Kind::Merge {
        // At most two deep: a page takes part in one merge at a time.
        if let Some(left) = node.next() {
            collect(left, out);
        }
        collect(node.merged(), out);
        if !changes.is_empty() {
            let sorted = out.split_off(start);
            apply::<K>(sorted.into_iter(), changes, out);
        }
    } else {
        let sorted = (0..node.len()).map(|i| (node.key_at(i), node.value_at(i)));
        apply::<K>(sorted, changes, out);
    }
}

/// Deltas that are merged without a list of all entries: any number would do.
const FEW: usize = 24;

/// The result of a page's consolidation.
pub(super) enum Consolidated<'g, K: Key, V: Variant> {
    /// Its new base node.
    Base(OwnedNode<K, V>),
    /// These are more entries than it may have.
    TooLarge(Vec<Entry<'g, K>>),
}

/// Consolidates a page, or what lies below one of its deltas, if that has at most `len_max` entries.
pub(super) fn consolidated<K: Key, V: Variant>(
    head: NodeRef<'_, K, V>,
    len_max: usize,
) -> Consolidated<'_, K, V> {
    let base = head.base();
    let header = BaseHeader {
        level: head.level(),
        right: head.right(),
        counter: head.counter(),
        low: base.key(),
        high: head.high(),
        slots: base.slots(),
    };
    let mut fates = [Fate::none(); FEW];
    if let Some((base, few)) = fates_of(head, &mut fates) {
        let fates = &mut fates[..few];
        let len = base.len_with(fates);
        check_len(head, len);
        if len <= len_max {
            return Consolidated::Base(base.copy_with(&header, fates, len));
        }
    }
    let mut entries = Vec::with_capacity(head.len() + usize::from(head.depth()));
    collect(head, &mut entries);
    check_len(head, entries.len());
    if entries.len() <= len_max {
        Consolidated::Base(base::build(&header, &entries))
    } else {
        Consolidated::TooLarge(entries)
    }
}

fn check_len<K: Key, V: Variant>(head: NodeRef<'_, K, V>, len: usize) {
    // Before the length, which is exact as soon as the uncounted deltas have been cut off.
    let uncounted = cfg!(debug_assertions) && head.is_uncounted();
    debug_assert!(
        len == head.len() || uncounted && len >= head.len(),
        "{len} of {head:?}"
    );
}

/// The base node of a chain and the fates of the keys in its deltas, ascending: for few deltas
/// without a merge. Both come from one walk, as the chain below a delta may be cut off and replaced
/// by a base node that includes its deltas (`consolidate_in_chain.rs`).
fn fates_of<'g, K: Key, V: Variant>(
    head: NodeRef<'g, K, V>,
    fates: &mut [Fate<'g, K>; FEW],
) -> Option<(NodeRef<'g, K, V>, usize)> {
    let (mut node, mut few) = (head, 0);
    loop {
        let value = match node.kind() {
            Kind::Base => return Some((node, few)),
            Kind::Merge => return None,
            Kind::Put => Some(Some(node.payload())),
            Kind::IndexInsert => Some(Some(u64::from(node.child().0))),
            Kind::Delete | Kind::IndexDelete => Some(None),
            Kind::Split | Kind::Remove | Kind::Merging => None,
        };
        if let Some(value) = value {
            let key = node.key();
            let at = fates[..few].partition_point(|fate| K::cmp(fate.key, key) == Ordering::Less);
            // Newest first: a fate that is already recorded is newer.
            if at == few || K::cmp(fates[at].key, key) != Ordering::Equal {
                if few == FEW {
                    return None;
                }
                fates.copy_within(at..few, at + 1);
                fates[at] = Fate {
                    key,
                    value,
                    spot: node.spot(),
                };
                few += 1;
            }
        }
        let Some(next) = node.next() else {
            unreachable!("a chain ends in a base node")
        };
        node = next;
    }
}

/// Merges changes, newest first, into sorted entries.
fn apply<'g, K: Key>(
    sorted: impl Iterator<Item = Entry<'g, K>>,
    mut changes: Vec<(K::Ref<'g>, Option<u64>)>,
    out: &mut Vec<Entry<'g, K>>,
) {
    if changes.is_empty() {
        out.extend(sorted);
        return;
    }
    // Stable: of several changes of one key the newest stays first and is kept.
    changes.sort_by(|a, b| K::cmp(a.0, b.0));
    changes.dedup_by(|later, kept| K::cmp(later.0, kept.0) == Ordering::Equal);
    let mut changes = changes.into_iter().peekable();
    for entry in sorted {
        let mut replaced = false;
        while let Some((key, change)) =
            changes.next_if(|change| K::cmp(change.0, entry.0) != Ordering::Greater)
        {
            replaced |= K::cmp(key, entry.0) == Ordering::Equal;
            out.extend(change.map(|value| (key, value)));
        }
        if !replaced {
            out.push(entry);
        }
    }
    out.extend(changes.filter_map(|(key, change)| change.map(|value| (key, value))));
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// Maintenance by a writer after its delta was installed. Reports a split.
    #[inline]
    pub(super) fn compact_after_write(
        &self,
        place: Place<'_, K, V>,
        resize: Resize,
        guard: &Guard,
    ) -> Option<SplitDone> {
        let depth = place.head.depth();
        // In the paper's own tree a walk: only where the answer matters.
        let len = || place.head.len();
        let long = self.is_long(depth, self.config.leaf_chain_max);
        let deleted = resize == Resize::SplitOrMerge;
        // Trap "a tree emptied returns its memory": the last deletes of a leaf may never reach the
        // threshold, so an empty leaf is compacted at once.
        let sparse = deleted && (len() == 0 || (depth >= 4 && len() < self.config.leaf_min()));
        // Readers shorten chains and never split, so the chain of a full leaf may never reach the
        // threshold.
        let full = resize != Resize::Never && len() > self.config.leaf_max;
        if !long && !sparse && !full {
            return None;
        }
        if V::IN_CHAIN
            && !sparse
            && !full
            && self.consolidate_below(place.head, resize, guard) == Below::Done
        {
            return None;
        }
        self.consolidate(place, resize, guard)
    }

    /// The number of deltas at which a page of this level is consolidated.
    pub(super) fn chain_max(&self, level: u8) -> u8 {
        match level {
            0 => self.config.leaf_chain_max,
            _ => self.config.inner_chain_max,
        }
    }

    /// Whether the writer of a delta at this depth consolidates.
    pub(super) fn is_long(&self, depth: u8, chain_max: u8) -> bool {
        if V::IN_CHAIN {
            depth.is_multiple_of(chain_max)
        } else {
            depth >= chain_max
        }
    }

    /// Maintenance by a reader that found a page with deltas: mostly nothing. In the paper's own tree,
    /// every visitor of a chain that has reached the threshold consolidates it.
    #[inline]
    pub(super) fn compact_after_read(&self, place: Place<'_, K, V>, guard: &Guard) {
        if V::LITERAL {
            let chain_max = self.chain_max(place.head.level());
            if !V::IN_CHAIN && place.head.depth() >= chain_max {
                self.consolidate(place, Resize::Never, guard);
            }
            return;
        }
        if place.head.depth() > 0 {
            self.compact_sometimes(place, guard);
        }
    }

    #[cold]
    fn compact_sometimes(&self, place: Place<'_, K, V>, guard: &Guard) {
        // A descent meets both leaves and inner pages, so each kind has a count of its own.
        thread_local!(static TURNS: [Cell<u32>; 2] = const { [Cell::new(0), Cell::new(0)] });
        let (kind, every) = match place.head.level() {
            0 => (0, READS_PER_CONSOLIDATION),
            _ => (1, PASSES_PER_CONSOLIDATION),
        };
        let turn = TURNS.with(|turns| {
            turns[kind].set(turns[kind].get().wrapping_add(1));
            turns[kind].get()
        });
        if turn.is_multiple_of(every) {
            child_prefetch_hint::prefetch_slab(place.head);
            self.consolidate(place, Resize::Never, guard);
        }
    }

    /// Replaces the page's chain by a base node, or by two.
    pub(super) fn consolidate(
        &self,
        place: Place<'_, K, V>,
        resize: Resize,
        guard: &Guard,
    ) -> Option<SplitDone> {
        let id = place.id;
        let mut head = place.head;
        if let Some(change) = head.smo() {
            if !self.complete(
                Place {
                    head: change,
                    ..place
                },
                guard,
            ) {
                return None;
            }
            head = self.mapping.load(id, guard)?;
            if head.is_removed() || head.smo().is_some_and(|other| other != change) {
                return None;
            }
        }
        if head.depth() == 0 {
            if resize == Resize::SplitOrMerge {
                self.shrink(Place { head, ..place }, guard);
            }
            return None;
        }
        let base = match consolidated(head, self.len_max(head.level(), resize)) {
            Consolidated::TooLarge(entries) => {
                return self.split(Place { head, ..place }, &entries, guard);
            }
            Consolidated::Base(base) => base,
        };
        let head = self.rebase(Place { head, ..place }, base, guard)?;
        if resize == Resize::SplitOrMerge {
            self.shrink(Place { head, ..place }, guard);
        }
        None
    }

    /// Largest number of entries with which a page is not split now.
    pub(super) fn len_max(&self, level: u8, resize: Resize) -> usize {
        match (resize, level) {
            (Resize::Never, _) => usize::MAX,
            (_, 0) => self.config.leaf_max,
            _ => self.config.inner_max,
        }
    }

    /// Installs a base node in place of the chain it was consolidated from.
    pub(super) fn rebase<'g>(
        &self,
        place: Place<'g, K, V>,
        base: OwnedNode<K, V>,
        guard: &'g Guard,
    ) -> Option<NodeRef<'g, K, V>> {
        match self.mapping.replace(place.id, place.head, base, guard) {
            Ok(new) => {
                self.counters.add(Event::Consolidation);
                Some(new)
            }
            Err(_) => {
                self.counters.add(Event::FailedConsolidation);
                None
            }
        }
    }

    /// Completes the structure change that the page shows and removes its trace, so that another may
    /// begin. One attempt; the caller checks again.
    pub(super) fn clear_change(&self, place: Place<'_, K, V>, guard: &Guard) {
        let Some(change) = place.head.smo() else {
            return;
        };
        if !self.complete(
            Place {
                head: change,
                ..place
            },
            guard,
        ) {
            return;
        }
        let Some(head) = self.mapping.load(place.id, guard) else {
            return;
        };
        if !head.is_removed()
            && head.smo() == Some(change)
            && let Consolidated::Base(base) = consolidated(head, usize::MAX)
        {
            self.rebase(Place { head, ..place }, base, guard);
        }
    }

    /// Completes the work of a thread that froze the updates below a split delta at the head (M5 in
    /// `mapping_table.rs`). For a thread that failed to put a delta there.
    pub(super) fn unfreeze(&self, id: PageId, guard: &Guard) {
        if V::SPLIT_AT_HEAD
            && let Some(head) = self.mapping.load(id, guard)
            && let Some(split) = head.smo().filter(|change| change.kind() == Kind::Split)
            && split.updates().is_frozen()
        {
            self.clear_change(Place::new(id, head), guard);
        }
    }

    /// Cooperation: completes a structure change of a page that another thread may have left half done. On
    /// return the parent knows of it (or the change is gone). False: that needs a page id, and all
    /// are in use.
    ///
    /// Paper: bwtree §4.2.4, figure 11
    pub(super) fn complete(&self, at: Place<'_, K, V>, guard: &Guard) -> bool {
        let change = at.head;
        match change.kind() {
            Kind::Split => return self.complete_split(at, guard),
            Kind::Merge => self.complete_merge(change.page(), change.child(), guard),
            Kind::Merging => self.complete_merge(at.id, change.child(), guard),
            other => unreachable!("{other:?} is not a structure change"),
        }
        true
    }
}
