//! Scans in both directions and across layers.
//!
//! A scan goes in *runs*. A run starts at a cursor, a place between keys, searches the leaf there from
//! the top, and follows the links between leaves until it reaches a link into a layer or the end of
//! its layer, or has visited many leaves. A cursor again describes the rest, so a run keeps no
//! other state: whatever happens to the layers in between, the next run finds its place by key.
//! Each run pins anew (trap "long scans re-pin").
//!
//! A run reports entries from a snapshot of each leaf. So no lock is held and nothing is torn while
//! `visit` runs, which may use the index.
//!
//! The leaves ahead are prefetched through the parent of a run's first leaf, which has their
//! addresses. The links between leaves would be a chain of dependent misses.
//!
//! # Reported leaves
//! A leaf answers for the keys that are absent around its entries, and around the layers it links to as far
//! as those keys do not begin like the layer's. So it is reported unless a run goes straight
//! through it into a layer. The reported leaves together account for the range without a gap.
//!
//! # Trimmed slices
//! `trimmed`: the shortest key of a slice is the slice without the zeros at its end, and every key that is
//! less has a lesser slice.
//!
//! Paper: bwtree §2.5

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::shared::range::parse_bound;
use namiki_index::shared::scan::LEAVES_PER_PIN;
use namiki_index::{Direction, IndexError, LeafVersion, ScanItem, ScanRange};

use super::Masstree;
use super::border::{Border, Content, Snapshot};
use super::get::{Next, judge};
use super::interior::Interior;
use super::key_slices::{Cut, LINK, LONG, SLICE, Slicing};
use super::node::Kind;
use super::version::Seen;

/// The start of a run. In a backward scan the rest lies below it.
#[derive(Debug, Clone)]
enum Cursor {
    /// At this key.
    At(Vec<u8>),
    /// Next to this key.
    Beside(Vec<u8>),
    /// Backward only: at the greatest key that begins with this.
    Under(Vec<u8>),
}

/// How a run ends: `Break` if the scan is over.
type Run = ControlFlow<(), Cursor>;

/// One scan under way.
struct Scan<'a, K: Slicing, V> {
    tree: &'a Masstree<K>,
    start: Bound<&'a [u8]>,
    end: Bound<&'a [u8]>,
    visit: V,
    /// The prefix of the layer's keys, followed by the key that is being reported.
    key: Vec<u8>,
    /// Length of the layer's prefix in it.
    path: usize,
}

impl<K: Slicing> Masstree<K> {
    pub(super) fn scan_range(
        &self,
        range: ScanRange<'_>,
        mut visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        parse_bound::<K>(range.start)?;
        parse_bound::<K>(range.end)?;
        if let Some(key) = empty_at(range.start, range.end) {
            let _ = visit(ScanItem::Leaf(self.leaf_of(K::parse(key)?)));
            return Ok(());
        }
        let mut scan = Scan {
            tree: self,
            start: range.start,
            end: range.end,
            visit,
            key: Vec::new(),
            path: 0,
        };
        let (first, forward) = match range.direction {
            Direction::Forward => (range.start, true),
            Direction::Backward => (range.end, false),
        };
        let mut cursor = match first {
            Bound::Included(key) => Cursor::At(key.to_vec()),
            Bound::Excluded(key) => Cursor::Beside(key.to_vec()),
            Bound::Unbounded if forward => Cursor::At(Vec::new()),
            Bound::Unbounded => Cursor::Under(Vec::new()),
        };
        while let ControlFlow::Continue(next) = if forward {
            scan.run_forward(&cursor)
        } else {
            scan.run_backward(&cursor)
        } {
            cursor = next;
        }
        Ok(())
    }

    /// The leaf that is responsible for a key, whether or not the key is present.
    fn leaf_of(&self, key: K::Ref<'_>) -> LeafVersion {
        let guard = &epoch::pin();
        let key = Cut::first::<K>(key);
        let (mut layer, mut cut) = (self.top(), key);
        loop {
            let Some(path) = self.descend(layer, cut.slice, guard) else {
                (layer, cut) = (self.top(), key);
                continue;
            };
            if let Some(look) = path.leaf.look(&cut, path.seen, guard) {
                let version = look.version;
                match judge(&look, &cut) {
                    Next::Layer(below, rest) => (layer, cut) = (below, rest),
                    Next::Answer(_) => return version,
                }
            }
        }
    }
}

/// A key at a range that can hold none.
fn empty_at<'a>(start: Bound<&'a [u8]>, end: Bound<&'a [u8]>) -> Option<&'a [u8]> {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => (start > end).then_some(start),
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => (start >= end).then_some(start),
        (_, Bound::Excluded(end)) => end.is_empty().then_some(end),
        _ => None,
    }
}

/// The bytes of a slice that its shortest key has.
fn trimmed<K: Slicing>(slice: u64) -> usize {
    if K::INLINE {
        SLICE
    } else {
        SLICE - slice.trailing_zeros() as usize / 8
    }
}

/// The smallest key that is greater than all that begin with `prefix`.
fn after_all(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

impl<K: Slicing, V: FnMut(ScanItem<'_>) -> ControlFlow<()>> Scan<'_, K, V> {
    /// Whether a key, or any after it, can be left of the end.
    fn reaches(&self, key: &[u8]) -> bool {
        match self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    }

    /// Whether a key is right of the start.
    fn started(&self, key: &[u8]) -> bool {
        match self.start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }
    }

    /// A key: the layer's path, a slice up to `len`, and `rest`.
    fn spell(&mut self, slice: u64, len: usize, rest: &[u8]) {
        self.key.truncate(self.path);
        self.key
            .extend_from_slice(&slice.to_be_bytes()[..len.min(SLICE)]);
        self.key.extend_from_slice(rest);
    }

    /// Goes into a layer below a slice.
    fn enter(&mut self, slice: u64, bytes: &[u8]) {
        self.spell(slice, SLICE, bytes);
        self.path = self.key.len();
    }

    /// Shows entry `i` of a snapshot, which is not a link. `check`: if it is in the range.
    #[inline]
    fn show(
        &mut self,
        snapshot: &Snapshot<'_, K>,
        i: usize,
        check: impl Fn(&Self, &[u8]) -> bool,
    ) -> ControlFlow<()> {
        let entry = snapshot.entries()[i];
        if K::INLINE {
            let key = entry.slice.to_be_bytes();
            if check(self, &key) {
                return (self.visit)(ScanItem::Entry(&key, entry.value));
            }
            return ControlFlow::Continue(());
        }
        let payload = match snapshot.content(i) {
            Content::Suffix(suffix) => {
                self.spell(entry.slice, SLICE, suffix.bytes());
                suffix.payload()
            }
            _ => {
                self.spell(entry.slice, usize::from(entry.marker), &[]);
                entry.value
            }
        };
        if check(self, &self.key) {
            (self.visit)(ScanItem::Entry(&self.key, payload))
        } else {
            ControlFlow::Continue(())
        }
    }

    fn run_forward(&mut self, cursor: &Cursor) -> Run {
        let guard = &epoch::pin();
        let (key, mut beside) = match cursor {
            Cursor::At(key) => (key, false),
            Cursor::Beside(key) | Cursor::Under(key) => (key, true),
        };
        self.path = 0;
        let mut rest = key.as_slice();
        let mut layer = self.tree.top();
        loop {
            let cut = Cut::of(rest);
            let goes_on = rest.len() > SLICE || (beside && rest.len() == SLICE);
            let first = (
                cut.slice,
                if goes_on {
                    LONG
                } else {
                    cut.marker + u8::from(beside)
                },
            );
            let Some(path) = self.tree.descend(layer, cut.slice, guard) else {
                return ControlFlow::Continue(cursor.clone());
            };
            let Some(snapshot) = path.leaf.snapshot(path.seen, guard) else {
                return ControlFlow::Continue(cursor.clone());
            };
            let mut from = position(&snapshot, first);
            if goes_on
                && let Some(entry) = snapshot.entries().get(from)
                && (entry.slice, entry.marker) == (cut.slice, LINK)
                && let Content::Layer(below) = snapshot.content(from)
            {
                if let Some(further) = cut.rest.strip_prefix(below.bytes())
                    && (beside || !further.is_empty())
                {
                    self.enter(cut.slice, below.bytes());
                    // All keys of the layer go on.
                    beside &= !further.is_empty();
                    (layer, rest) = (below, further);
                    continue;
                }
                // All of the layer is left behind, or ahead.
                from += usize::from(below.bytes() < cut.rest);
            }
            let ahead = Ahead::of(path.parent, cut.slice, 1);
            return self.along_forward(snapshot, ahead, from, (key, beside), guard);
        }
    }

    /// Shows a leaf from entry `from` on, and the leaves after it.
    fn along_forward<'g>(
        &mut self,
        mut snapshot: Snapshot<'g, K>,
        mut ahead: Ahead<'g, K>,
        from: usize,
        (key, beside): (&[u8], bool),
        guard: &'g Guard,
    ) -> Run {
        let mut from = from;
        let mut first = true;
        for turn in 1.. {
            ahead.prefetch();
            let next = snapshot.next.map(|next| next.kind());
            let next = match &next {
                Some(Kind::Border(next)) => Some(*next),
                _ => None,
            };
            // All entries are in the range if what comes after them is.
            let inside = match (self.end, next) {
                (Bound::Unbounded, _) => true,
                (_, Some(next)) => {
                    self.spell(next.low, trimmed::<K>(next.low), &[]);
                    self.reaches(&self.key)
                }
                (_, None) => false,
            };
            (self.visit)(ScanItem::Leaf(snapshot.version))?;
            for i in from..snapshot.len {
                if let Some(next) = self.link_ahead(&snapshot, i)? {
                    return ControlFlow::Continue(next);
                }
                if first {
                    self.show(&snapshot, i, |scan, at| {
                        (if beside { at > key } else { at >= key }) && scan.reaches(at)
                    })?;
                } else if inside {
                    self.show(&snapshot, i, |_, _| true)?;
                } else {
                    self.show(&snapshot, i, Self::reaches)?;
                }
            }
            let Some(next) = next else {
                // The end of the layer.
                return match after_all(&self.key[..self.path]) {
                    Some(key) if self.reaches(&key) => ControlFlow::Continue(Cursor::At(key)),
                    _ => ControlFlow::Break(()),
                };
            };
            if !inside {
                return ControlFlow::Break(());
            }
            let seen = next.header.version.stable();
            if seen.is_deleted() || turn == LEAVES_PER_PIN || !snapshot.retake(next, seen, guard) {
                self.spell(next.low, trimmed::<K>(next.low), &[]);
                return ControlFlow::Continue(Cursor::At(self.key.clone()));
            }
            (from, first) = (0, false);
        }
        ControlFlow::Break(())
    }

    /// The cursor at which the scan continues if entry `i` is a link. Breaks if the whole layer is
    /// beyond the end.
    fn link_ahead(
        &mut self,
        snapshot: &Snapshot<'_, K>,
        i: usize,
    ) -> ControlFlow<(), Option<Cursor>> {
        if K::INLINE {
            return ControlFlow::Continue(None);
        }
        let Content::Layer(below) = snapshot.content(i) else {
            return ControlFlow::Continue(None);
        };
        self.spell(snapshot.entries()[i].slice, SLICE, below.bytes());
        // All keys of the layer are greater than what they share.
        let reached = match self.end {
            Bound::Included(end) | Bound::Excluded(end) => self.key.as_slice() < end,
            Bound::Unbounded => true,
        };
        if reached {
            ControlFlow::Continue(Some(Cursor::Beside(self.key.clone())))
        } else {
            ControlFlow::Break(())
        }
    }

    fn run_backward(&mut self, cursor: &Cursor) -> Run {
        let guard = &epoch::pin();
        let (key, beside, mut under) = match cursor {
            Cursor::At(key) => (key, false, false),
            Cursor::Beside(key) => (key, true, false),
            Cursor::Under(key) => (key, false, true),
        };
        self.path = 0;
        let mut rest = key.as_slice();
        let mut layer = self.tree.top();
        loop {
            let top = under && rest.is_empty();
            let cut = Cut::of(rest);
            let goes_on = rest.len() > SLICE || (under && rest.len() == SLICE);
            // Entries below this are left to visit, and this slice is that of the leaf with the last.
            let (bound, slice) = if top {
                ((u64::MAX, u8::MAX), u64::MAX)
            } else if goes_on {
                ((cut.slice, LINK + 1), cut.slice)
            } else if !beside {
                ((cut.slice, cut.marker + 1), cut.slice)
            } else if K::INLINE || rest.last() != Some(&0) {
                ((cut.slice, cut.marker), cut.slice.saturating_sub(1))
            } else {
                ((cut.slice, cut.marker), cut.slice)
            };
            let Some(path) = self.tree.descend(layer, slice, guard) else {
                return ControlFlow::Continue(cursor.clone());
            };
            let Some(snapshot) = path.leaf.snapshot(path.seen, guard) else {
                return ControlFlow::Continue(cursor.clone());
            };
            let mut end = position(&snapshot, bound);
            if goes_on
                && end > 0
                && (
                    snapshot.entries()[end - 1].slice,
                    snapshot.entries()[end - 1].marker,
                ) == (cut.slice, LINK)
                && let Content::Layer(below) = snapshot.content(end - 1)
            {
                match cut.rest.strip_prefix(below.bytes()) {
                    // All keys of the layer go on, so they are left behind.
                    Some([]) if !under => end -= 1,
                    Some(further) => {
                        self.enter(cut.slice, below.bytes());
                        (layer, rest) = (below, further);
                        continue;
                    }
                    None if under && below.bytes().starts_with(cut.rest) => {}
                    None => end -= usize::from(below.bytes() > cut.rest),
                }
            }
            under &= !top;
            let from = (key.as_slice(), beside, under);
            let ahead = Ahead::of(path.parent, slice, -1);
            return self.along_backward((path.leaf, snapshot), ahead, end, from, top, guard);
        }
    }

    /// Shows a leaf up to entry `end`, and the leaves before it.
    fn along_backward<'g>(
        &mut self,
        (mut leaf, mut snapshot): (&'g Border<K>, Snapshot<'g, K>),
        mut ahead: Ahead<'g, K>,
        end: usize,
        (key, beside, under): (&[u8], bool, bool),
        top: bool,
        guard: &'g Guard,
    ) -> Run {
        let mut end = end;
        let mut first = !top;
        for turn in 1.. {
            ahead.prefetch();
            self.spell(leaf.low, trimmed::<K>(leaf.low), &[]);
            let inside = self.started(&self.key);
            (self.visit)(ScanItem::Leaf(snapshot.version))?;
            for i in (0..end).rev() {
                if let Some(next) = self.link_behind(&snapshot, i)? {
                    return ControlFlow::Continue(next);
                }
                if first {
                    self.show(&snapshot, i, |scan, at| {
                        let before = match at.cmp(key) {
                            Ordering::Less => true,
                            Ordering::Equal => !beside,
                            Ordering::Greater => under && at.starts_with(key),
                        };
                        before && scan.started(at)
                    })?;
                } else if inside {
                    self.show(&snapshot, i, |_, _| true)?;
                } else {
                    self.show(&snapshot, i, Self::started)?;
                }
            }
            self.spell(leaf.low, trimmed::<K>(leaf.low), &[]);
            if leaf.low == 0 {
                return self.leave_backward();
            }
            // Something may be left if the start is below the least key of this leaf.
            if !self.below_may_be_left() {
                return ControlFlow::Break(());
            }
            match self
                .before(leaf, &snapshot, guard)
                .filter(|_| turn < LEAVES_PER_PIN)
            {
                Some((before, taken)) => (leaf, snapshot) = (before, taken),
                None => return ControlFlow::Continue(Cursor::Beside(self.key.clone())),
            }
            (end, first) = (snapshot.len, false);
        }
        ControlFlow::Break(())
    }

    /// The leaf before one, if it still comes right before it.
    fn before<'g>(
        &self,
        leaf: &Border<K>,
        snapshot: &Snapshot<'g, K>,
        guard: &'g Guard,
    ) -> Option<(&'g Border<K>, Snapshot<'g, K>)> {
        let Kind::Border(before) = snapshot.prev?.kind() else {
            return None;
        };
        let seen = before.header.version.stable();
        let taken = before.snapshot(seen, guard)?;
        let adjacent = !seen.is_deleted()
            && matches!(taken.next.map(|next| next.kind()), Some(Kind::Border(next)) if std::ptr::eq(next, leaf));
        adjacent.then_some((before, taken))
    }

    /// Whether a key less than `self.key` can be right of the start.
    fn below_may_be_left(&self) -> bool {
        match self.start {
            Bound::Included(start) | Bound::Excluded(start) => start < self.key.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// Continues above a layer after its first leaf was reported.
    fn leave_backward(&mut self) -> Run {
        self.key.truncate(self.path);
        // The remaining keys are at most the common prefix of the layer's keys.
        if self.path > 0 && self.started(&self.key) {
            ControlFlow::Continue(Cursor::At(self.key.clone()))
        } else {
            ControlFlow::Break(())
        }
    }

    /// The cursor at which the scan continues if entry `i` is a link. Breaks if the whole layer is
    /// before the start.
    fn link_behind(
        &mut self,
        snapshot: &Snapshot<'_, K>,
        i: usize,
    ) -> ControlFlow<(), Option<Cursor>> {
        if K::INLINE {
            return ControlFlow::Continue(None);
        }
        let Content::Layer(below) = snapshot.content(i) else {
            return ControlFlow::Continue(None);
        };
        self.spell(snapshot.entries()[i].slice, SLICE, below.bytes());
        let reached = match self.start {
            Bound::Included(start) | Bound::Excluded(start) => {
                start < self.key.as_slice() || start.starts_with(&self.key)
            }
            Bound::Unbounded => true,
        };
        if reached {
            ControlFlow::Continue(Some(Cursor::Under(self.key.clone())))
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Prefetcher of the next leaves of a run, if they are below the same parent as its first. It looks
/// further ahead as the run gets longer, so that a short run prefetches little in excess.
struct Ahead<'g, K: Slicing> {
    parent: Option<&'g Interior<K>>,
    position: usize,
    /// 1 or -1.
    direction: isize,
}

impl<'g, K: Slicing> Ahead<'g, K> {
    fn of(parent: Option<(&'g Interior<K>, Seen)>, slice: u64, direction: isize) -> Self {
        let parent = parent.map(|(parent, _)| parent);
        Self {
            parent,
            position: parent.map_or(0, |parent| parent.position(slice)),
            direction,
        }
    }

    /// To be called once a leaf.
    #[inline]
    fn prefetch(&mut self) {
        if let Some(parent) = self.parent {
            for _ in 0..2 {
                // Before the first is after the last of all.
                self.position = self.position.wrapping_add_signed(self.direction);
                parent.prefetch_border(self.position);
            }
        }
    }
}

/// Number of entries before one with this slice and marker.
fn position<K: Slicing>(snapshot: &Snapshot<'_, K>, bound: (u64, u8)) -> usize {
    let entries = snapshot.entries();
    entries.partition_point(|entry| (entry.slice, entry.marker) < bound)
}
