//! Trees of any depth, of which plans and expressions are made.
//!
//! A program may build a tree as deep as it likes. The functions that the compiler derives for a
//! tree (dropping, comparing, printing it) are recursive, so a deep tree would overflow the stack,
//! which ends the process. Therefore every edge of a plan or an expression is a [`Tree`], which
//! knows its depth and size. Clones share their nodes. Deep trees are dropped and compared with a
//! list on the heap; all else (binding, planning, evaluating, writing, printing) takes only trees
//! within limits, and refuses others before it recurses.
//!
//! Sharing makes trees that are larger than memory: a tree with one child in two places, sixty
//! times over. So the number of nodes has a limit, too, and so has the number of parts: an operator
//! has expressions, which are trees themselves. Walks without a check visit a shared node once.
//!
//! # Invariants
//! - S1. [`Tree::size`] is the size of the tree below, whatever it was made of. A node is changed
//!   by [`Tree::add_child`] alone, which keeps the size.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use super::limits::PARTS_MAX;
use crate::error::PlanError;

/// A node of a tree.
pub(super) trait Node: Clone + PartialEq + 'static {
    /// The name of its levels in messages.
    const LEVELS: &'static str;
    /// The name of its nodes in messages.
    const NODES: &'static str;
    /// More levels than this are refused.
    const DEPTH_MAX: u32;
    /// More nodes than this are refused.
    const NODES_MAX: u64;

    /// Number of parts of expressions in this node, which binding copies.
    fn own_parts(&self) -> u64;

    /// A node without children, for the places of children that are moved out.
    fn leaf() -> Tree<Self>;

    fn visit_children<'n>(&'n self, visit: &mut dyn FnMut(&'n Tree<Self>));

    fn visit_children_mut(&mut self, visit: &mut dyn FnMut(&mut Tree<Self>));
}

/// Depth and size of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Levels; 1 without children.
    pub(super) depth: u32,
    /// Nodes, each as often as it is reached.
    pub(super) nodes: u64,
    /// Parts of expressions ([`Node::own_parts`]), each as often as it is reached.
    pub(super) parts: u64,
}

impl Size {
    /// The size of a node with its children.
    pub(super) fn of<N: Node>(node: &N) -> Self {
        let mut size = Self {
            depth: 1,
            nodes: 1,
            parts: node.own_parts(),
        };
        node.visit_children(&mut |child| size.add(child.size));
        size
    }

    fn add(&mut self, child: Self) {
        self.depth = self.depth.max(child.depth.saturating_add(1));
        self.nodes = self.nodes.saturating_add(child.nodes);
        self.parts = self.parts.saturating_add(child.parts);
    }

    fn is_within<N: Node>(self) -> bool {
        self.check::<N>().is_ok()
    }

    /// # Errors
    /// [`PlanError::TooDeep`], [`PlanError::TooLarge`].
    pub(super) fn check<N: Node>(self) -> Result<(), PlanError> {
        if self.depth > N::DEPTH_MAX {
            return Err(PlanError::TooDeep {
                what: N::LEVELS,
                max: N::DEPTH_MAX,
            });
        }
        let limits = [
            (self.nodes, N::NODES, N::NODES_MAX),
            (self.parts, "parts of expressions", PARTS_MAX),
        ];
        match limits.into_iter().find(|(count, _, max)| count > max) {
            None => Ok(()),
            Some((_, what, max)) => Err(PlanError::TooLarge {
                what,
                max: usize::try_from(max).unwrap_or(usize::MAX),
            }),
        }
    }
}

/// A tree: its root, and its size.
#[derive(Clone)]
pub(super) struct Tree<N: Node> {
    node: Arc<N>,
    size: Size,
}

impl<N: Node> Tree<N> {
    pub(super) fn new(node: N) -> Self {
        Self {
            size: Size::of(&node),
            node: Arc::new(node),
        }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Checks the limits for recursion.
    pub(super) fn is_within_limits(&self) -> bool {
        self.size.is_within::<N>()
    }

    /// Changes the root, so that it has one child more, which is of this size (S1). Copies the root
    /// if it is shared.
    pub(super) fn add_child<T>(&mut self, child: Size, change: impl FnOnce(&mut N) -> T) -> T {
        self.size.add(child);
        change(Arc::make_mut(&mut self.node))
    }

    /// The root itself; a copy of it if it is shared.
    pub(super) fn into_root(mut self) -> N {
        let leaf = N::leaf();
        self.size = leaf.size;
        let node = std::mem::replace(&mut self.node, Arc::clone(&leaf.node));
        Arc::try_unwrap(node).unwrap_or_else(|shared| (*shared).clone())
    }

    /// Moves the children of the root to a list, if no other tree has the root, too.
    fn give_away_children(&mut self, to: &mut Vec<Self>) {
        if let Some(node) = Arc::get_mut(&mut self.node) {
            node.visit_children_mut(&mut |child| to.push(std::mem::replace(child, N::leaf())));
        }
        self.size = N::leaf().size;
    }

    /// The root alone, with leaves in the place of its children.
    fn bare_root(&self) -> N {
        let mut root = (*self.node).clone();
        root.visit_children_mut(&mut |child| *child = N::leaf());
        root
    }

    fn children(&self) -> Vec<&Self> {
        let mut children = Vec::new();
        self.node.visit_children(&mut |child| children.push(child));
        children
    }
}

impl<N: Node> Deref for Tree<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.node
    }
}

impl<N: Node> Drop for Tree<N> {
    fn drop(&mut self) {
        if self.size.depth <= N::DEPTH_MAX {
            return;
        }
        let mut left = Vec::new();
        self.give_away_children(&mut left);
        while let Some(mut tree) = left.pop() {
            tree.give_away_children(&mut left);
        }
    }
}

impl<N: Node> PartialEq for Tree<N> {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.node, &other.node) {
            return true;
        }
        if self.size != other.size {
            return false;
        }
        if self.is_within_limits() {
            return self.node == other.node;
        }
        let mut seen = HashSet::new();
        let mut left = vec![(self, other)];
        while let Some((own, other)) = left.pop() {
            let pair = (Arc::as_ptr(&own.node), Arc::as_ptr(&other.node));
            if pair.0 == pair.1 || !seen.insert(pair) {
                continue;
            }
            if own.size != other.size || own.bare_root() != other.bare_root() {
                return false;
            }
            // Equal roots have equally many.
            left.extend(own.children().into_iter().zip(other.children()));
        }
        true
    }
}
