//! Finding the page that covers a point, on any level.
//!
//! A descent keeps no stack of the pages it passed: a thread that needs a parent searches again from
//! the root, which cannot be stale (trap "stale parent stack"). The exception is the paper's own tree
//! (`node_stack.rs`).
//!
//! A search that meets a page with a range that ends before its point goes right, as in a B-link tree;
//! one that meets a removed page helps to finish the removal and restarts from the root.
//!
//! The point may also lie *just below* a key. That is how we walk left without left links (trap
//! "backward scans without left links"): the left neighbour of a page is the page covering the point
//! just below its lower fence.
//!
//! Paper: bwtree §4.1.1, figure 6; §4.2.4

use std::cmp::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::base::child_prefetch_hint::{self, DescentPath};
use super::node::{Kind, NodeRef};
use super::node_stack::Stack;
use super::page_id::PageId;
use super::variant::Variant;

/// A place in the order of keys.
pub(super) trait Point<K: Key>: Copy {
    /// Whether the leaf's entries will be read.
    const LOOKS: bool = true;

    /// Whether the point is at or right of `separator`.
    fn reaches(self, separator: K::Ref<'_>) -> bool;

    /// Number of keys of an inner base node that the point reaches.
    fn rank<V: Variant>(self, base: NodeRef<'_, K, V>) -> usize;

    /// Whether the point is at this very key.
    fn is_at(self, _key: K::Ref<'_>) -> bool {
        false
    }

    /// The path from an inner base node to its child.
    fn path<'g, V: Variant>(self, base: NodeRef<'g, K, V>) -> DescentPath<'g>;
}

/// At a key.
#[derive(Clone, Copy)]
pub(super) struct At<'a, K: Key>(pub(super) K::Ref<'a>);
/// At a key, to put a delta on its leaf without reading its contents.
#[derive(Clone, Copy)]
pub(super) struct Onto<'a, K: Key>(pub(super) K::Ref<'a>);
/// Just below a key: right of every smaller key. No such point exists below the smallest key.
#[derive(Clone, Copy)]
pub(super) struct Below<'a, K: Key>(pub(super) K::Ref<'a>);
/// Right of all keys.
#[derive(Clone, Copy)]
pub(super) struct Last;

impl<K: Key> Point<K> for At<'_, K> {
    fn is_at(self, key: K::Ref<'_>) -> bool {
        K::cmp(key, self.0) == Ordering::Equal
    }

    #[inline]
    fn reaches(self, separator: K::Ref<'_>) -> bool {
        K::cmp(separator, self.0) != Ordering::Greater
    }

    #[inline]
    fn rank<V: Variant>(self, base: NodeRef<'_, K, V>) -> usize {
        base.rank::<true>(self.0)
    }

    #[inline(always)]
    fn path<'g, V: Variant>(self, base: NodeRef<'g, K, V>) -> DescentPath<'g> {
        base.path_to::<true>(self.0)
    }
}

impl<K: Key> Point<K> for Onto<'_, K> {
    const LOOKS: bool = false;

    fn is_at(self, key: K::Ref<'_>) -> bool {
        K::cmp(key, self.0) == Ordering::Equal
    }

    #[inline]
    fn reaches(self, separator: K::Ref<'_>) -> bool {
        At::<K>(self.0).reaches(separator)
    }

    #[inline]
    fn rank<V: Variant>(self, base: NodeRef<'_, K, V>) -> usize {
        At::<K>(self.0).rank(base)
    }

    #[inline(always)]
    fn path<'g, V: Variant>(self, base: NodeRef<'g, K, V>) -> DescentPath<'g> {
        At::<K>(self.0).path(base)
    }
}

impl<K: Key> Point<K> for Below<'_, K> {
    fn reaches(self, separator: K::Ref<'_>) -> bool {
        K::cmp(separator, self.0) == Ordering::Less
    }

    fn rank<V: Variant>(self, base: NodeRef<'_, K, V>) -> usize {
        base.rank::<false>(self.0)
    }

    fn path<'g, V: Variant>(self, base: NodeRef<'g, K, V>) -> DescentPath<'g> {
        base.path_to::<false>(self.0)
    }
}

impl<K: Key> Point<K> for Last {
    fn reaches(self, _separator: K::Ref<'_>) -> bool {
        true
    }

    fn rank<V: Variant>(self, base: NodeRef<'_, K, V>) -> usize {
        base.len()
    }

    fn path<'g, V: Variant>(self, base: NodeRef<'g, K, V>) -> DescentPath<'g> {
        base.path_at(base.len() - 1, u64::MAX)
    }
}

/// The entry of an inner page that covers a point.
pub(super) struct Route<'g, K: Key> {
    pub(super) child: PageId,
    /// The entry's key.
    pub(super) low: K::Ref<'g>,
    /// The key of the next entry, or the page's upper fence.
    pub(super) high: Option<K::Ref<'g>>,
}

/// A page and the state of it that was seen.
#[derive(Clone, Copy)]
pub struct Place<'g, K: Key, V: Variant> {
    pub(super) id: PageId,
    pub(super) head: NodeRef<'g, K, V>,
    /// The pages above that the descent passed.
    pub(super) stack: V::Stack,
}

impl<'g, K: Key, V: Variant> Place<'g, K, V> {
    /// A page that no descent has led to.
    pub(super) fn new(id: PageId, head: NodeRef<'g, K, V>) -> Self {
        Self {
            id,
            head,
            stack: V::Stack::default(),
        }
    }
}

impl<'g, K: Key, V: Variant> NodeRef<'g, K, V> {
    /// Whether the point is right of this page's range.
    #[inline]
    pub(super) fn is_left_of(self, point: impl Point<K>) -> bool {
        self.validate(point).0
    }

    /// Whether the point is right of this page's range, and the number of deltas that were visited to
    /// learn it: none where each delta has the fence.
    ///
    /// Paper: bwtree §4.1.1 (ValidateNode); §5.4
    #[inline]
    fn validate(self, point: impl Point<K>) -> (bool, u64) {
        let (fenced, visits) = if V::LITERAL {
            self.walk_to_fence(point)
        } else {
            (Some(self), 0)
        };
        let high = fenced.and_then(Self::high);
        (high.is_some_and(|high| point.reaches(high)), visits)
    }

    /// The base node with the page's upper fence, and the number of deltas above it. Under proposal
    /// (b) the walk ends at a delta about the key that the point is at, and finds no node: as a split
    /// leaves none of the deltas that were there before, that key is in the page's range.
    pub(super) fn walk_to_fence(self, point: impl Point<K>) -> (Option<Self>, u64) {
        let (mut node, mut visits) = (self, 0);
        if V::SPLIT_AT_HEAD && self.kind() != Kind::Split {
            // A split delta at the head was read on the way to this one.
            let split = self.smo().filter(|change| change.kind() == Kind::Split);
            visits += u64::from(split.is_some());
        }
        while node.kind() != Kind::Base {
            visits += 1;
            let is_record = matches!(node.kind(), Kind::Put | Kind::Delete);
            if V::SPLIT_AT_HEAD && is_record && point.is_at(node.key()) {
                return (None, visits);
            }
            let below = match node.kind() {
                Kind::Merge => Some(node.merged()),
                _ => node.next(),
            };
            let Some(below) = below else {
                unreachable!("a chain ends in a base node")
            };
            node = below;
        }
        (Some(node), visits)
    }

    /// Whether the keys of an index delta, which begin at `from`, include the point.
    fn includes(self, from: K::Ref<'_>, point: impl Point<K>) -> bool {
        point.reaches(from) && !self.upper().is_some_and(|upper| point.reaches(upper))
    }

    /// The path to the child of an inner page that covers a point of its range.
    #[inline(always)]
    pub(super) fn path(self, point: impl Point<K>) -> DescentPath<'g> {
        // The common case.
        if self.kind() == Kind::Base {
            return point.path(self);
        }
        self.path_through_deltas(point)
    }

    /// The newest delta that covers the point decides.
    #[inline(never)]
    fn path_through_deltas(self, point: impl Point<K>) -> DescentPath<'g> {
        let mut node = self;
        loop {
            match node.kind() {
                Kind::Base => return point.path(node),
                Kind::IndexInsert if node.includes(node.key(), point) => {
                    return DescentPath::unknown(node.child());
                }
                Kind::IndexDelete if node.includes(node.lower(), point) => {
                    return DescentPath::unknown(node.child());
                }
                Kind::Merge if point.reaches(node.key()) => {
                    node = node.merged();
                    continue;
                }
                _ => {}
            }
            let Some(next) = node.next() else {
                unreachable!("a chain ends in a base node")
            };
            node = next;
        }
    }

    /// Like [`path`](Self::path), with the exact bounds of the entry. Every delta that does not
    /// include the point still bounds the range from one side.
    pub(super) fn route(self, point: impl Point<K>) -> Route<'g, K> {
        let mut low = self.low();
        let mut high = self.high();
        let mut node = self;
        let raise = |low: &mut K::Ref<'g>, key: K::Ref<'g>| {
            if K::cmp(key, *low) == Ordering::Greater {
                *low = key;
            }
        };
        let lower = |high: &mut Option<K::Ref<'g>>, key: Option<K::Ref<'g>>| {
            if let Some(key) = key
                && high.is_none_or(|high| K::cmp(key, high) == Ordering::Less)
            {
                *high = Some(key);
            }
        };
        loop {
            match node.kind() {
                Kind::Base => {
                    let i = point.rank(node).saturating_sub(1);
                    raise(&mut low, node.key_at(i));
                    lower(&mut high, (i + 1 < node.len()).then(|| node.key_at(i + 1)));
                    return Route {
                        child: PageId::of_entry(node.value_at(i)),
                        low,
                        high,
                    };
                }
                Kind::IndexInsert | Kind::IndexDelete => {
                    let insert = node.kind() == Kind::IndexInsert;
                    let from = if insert { node.key() } else { node.lower() };
                    if !point.reaches(from) {
                        lower(&mut high, Some(from));
                    } else if let Some(upper) = node.upper().filter(|k| point.reaches(*k)) {
                        raise(&mut low, upper);
                    } else {
                        raise(&mut low, from);
                        lower(&mut high, node.upper());
                        return Route {
                            child: node.child(),
                            low,
                            high,
                        };
                    }
                }
                Kind::Merge if point.reaches(node.key()) => {
                    raise(&mut low, node.key());
                    node = node.merged();
                    continue;
                }
                Kind::Merge => lower(&mut high, Some(node.key())),
                _ => {}
            }
            let Some(next) = node.next() else {
                unreachable!("a chain ends in a base node")
            };
            node = next;
        }
    }
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// The page of `level` that covers the point. `None`: the tree is not that high.
    #[inline]
    pub(super) fn descend<'g>(
        &self,
        level: u8,
        point: impl Point<K>,
        guard: &'g Guard,
    ) -> Option<Place<'g, K, V>> {
        self.descend_along(V::Stack::default(), level, point, guard)
    }

    /// The same for a page above one to which a descent under `guard` has led by these pages: their
    /// page of that level is the first to be tried.
    pub(super) fn descend_along<'g, P: Point<K>>(
        &self,
        mut stack: V::Stack,
        level: u8,
        point: P,
        guard: &'g Guard,
    ) -> Option<Place<'g, K, V>> {
        let mut start = stack.page(level);
        'restart: loop {
            let top = start.take().unwrap_or_else(|| self.root.load().page);
            let mut path = DescentPath::unknown(top);
            loop {
                // An empty slot: the page was removed between the reads of its id and its slot.
                let Some(head) = self.mapping.load(path.child, guard) else {
                    self.counters.add(Event::Restart);
                    continue 'restart;
                };
                if V::SLAB && !P::LOOKS {
                    child_prefetch_hint::prefetch_slots(head);
                }
                if head.is_removed() {
                    self.help_removal(path.child, head, guard);
                    self.counters.add(Event::Restart);
                    continue 'restart;
                }
                path.correct(head);
                let (is_left, visits) = head.validate(point);
                if V::LITERAL && head.level() == 0 && visits > 0 {
                    self.counters.add_many(Event::DeltaVisit, visits);
                }
                if is_left {
                    path = DescentPath::unknown(head.right());
                    continue;
                }
                if head.level() <= level {
                    let id = path.child;
                    return (head.level() == level).then_some(Place { id, head, stack });
                }
                if level == 0 {
                    // Otherwise an inner page that no longer changes would keep its last deltas.
                    self.compact_after_read(
                        Place {
                            id: path.child,
                            head,
                            stack,
                        },
                        guard,
                    );
                }
                stack.record(head.level(), path.child);
                path = head.path(point);
                if P::LOOKS || head.level() > 1 {
                    path.prefetch::<K, V>(head.base_hint());
                } else {
                    path.prefetch_slab::<K, V>(head.base_hint());
                }
            }
        }
    }

    /// The leaf that covers a key.
    #[inline]
    pub(super) fn leaf<'g>(&self, point: impl Point<K>, guard: &'g Guard) -> Place<'g, K, V> {
        match self.descend(0, point, guard) {
            Some(place) => place,
            None => unreachable!("every tree has a level of leaves"),
        }
    }
}
