//! The variants of the Bw-tree: today's, the two proposals of the paper, the OpenBw-Tree's layout, and
//! the paper's own tree.
//!
//! | | consolidation | a split that the parent does not know |
//! |---|---|---|
//! | [`Plain`] | replaces the head; every writer past the threshold tries | a delta that updates go on top of |
//! | [`InChain`] | below the delta with number N, by its writer alone | as above |
//! | [`SplitHead`] | replaces the head | the delta stays the head, updates go below it |
//! | [`Both`] | below the delta with number N | the delta stays the head |
//! | [`OpenBw`] | as [`Plain`] | as [`Plain`] |
//! | [`Paper`] | replaces the head; every visitor past the threshold tries | a delta in the chain until it is consolidated |
//! | [`PaperInChain`] | as [`InChain`] | as [`Paper`] |
//! | [`PaperSplitHead`] | as [`Paper`] | as [`SplitHead`], until it is consolidated |
//!
//! (a) is in `consolidate_in_chain.rs`, (b) in `mapping_table.rs`; the pointers both of them swap are in
//! `mutable_delta_pointers.rs`.
//!
//! The OpenBw-Tree's layout: a leaf's deltas lie in a slab that is allocated with its base node
//! (`slab_slots.rs`), so a chain is a few neighbouring lines, an update allocates nothing, and chains may
//! be longer.
//!
//! The paper's own tree has none of what makes [`Plain`] fast: its deltas describe only their own change
//! (`node/literal.rs`), inner entries have no hints, deltas no positions, and a descent keeps the node
//! stack (`node_stack.rs`). The paper's findings are tested on it, and its two proposals against it.
//!
//! Paper: bwtree §4; §5.4, figures 19 and 20; §2.4

use std::fmt;

use super::node_stack::{NoStack, NodeStack, Stack};

mod sealed {
    pub trait Sealed {}
}

/// Selects which of the paper's two proposals a Bw-tree follows, where its deltas are, and whether it
/// is the paper's own.
pub trait Variant: sealed::Sealed + Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Proposal (a): the writer of every N-th delta consolidates below it.
    const IN_CHAIN: bool = false;
    /// Proposal (b): a split delta is the head of its chain as long as it is there.
    const SPLIT_AT_HEAD: bool = false;
    /// A leaf's deltas lie in its base node's slab. Not together with the proposals: a slab goes with its
    /// base node, and under (a) deltas outlive the base node they were put on (trap "a slab is retired
    /// with its last delta").
    const SLAB: bool = false;
    /// The paper's own tree: deltas without fences and lengths, consolidation by every visitor, no
    /// hints.
    const LITERAL: bool = false;
    /// A page is consolidated when its chain has reached this many deltas, unless configured otherwise.
    const LEAF_CHAIN_MAX: u8 = 4;
    /// The pages that a descent passed.
    type Stack: Stack;
}

/// Defines a variant by its difference from the plain one.
macro_rules! variant {
    ($(#[$attribute:meta])* $name:ident, $stack:ty $(, $constant:ident: $type:ty = $value:expr)*) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name;

        impl sealed::Sealed for $name {}

        impl Variant for $name {
            $(const $constant: $type = $value;)*
            type Stack = $stack;
        }
    };
}

variant! {
    /// The paper's structure with deltas that describe their page.
    Plain, NoStack
}
variant! {
    /// Proposal (a).
    InChain, NoStack, IN_CHAIN: bool = true
}
variant! {
    /// Proposal (b).
    SplitHead, NoStack, SPLIT_AT_HEAD: bool = true
}
variant! {
    /// Both proposals.
    Both, NoStack, IN_CHAIN: bool = true, SPLIT_AT_HEAD: bool = true
}
variant! {
    /// The OpenBw-Tree's layout.
    OpenBw, NoStack, SLAB: bool = true, LEAF_CHAIN_MAX: u8 = 12
}
variant! {
    /// The Bw-tree as the paper built it.
    Paper, NodeStack, LITERAL: bool = true
}
variant! {
    /// The paper's own tree with its proposal (a).
    PaperInChain, NodeStack, LITERAL: bool = true, IN_CHAIN: bool = true
}
variant! {
    /// The paper's own tree with its proposal (b).
    PaperSplitHead, NodeStack, LITERAL: bool = true, SPLIT_AT_HEAD: bool = true
}
