//! The variants of the Bw-tree: the paper's own, the two that it proposes as future work, and the
//! OpenBw-Tree's layout.
//!
//! | | consolidation by writers | a split that the parent does not know |
//! |---|---|---|
//! | [`Plain`] | replaces the head; every writer past the threshold tries | a delta that updates go on top of |
//! | [`InChain`] | below the delta with number N, by its writer alone | as above |
//! | [`SplitHead`] | replaces the head | the delta stays the head, updates go below it |
//! | [`Both`] | below the delta with number N | the delta stays the head |
//! | [`OpenBw`] | as [`Plain`] | as [`Plain`] |
//!
//! (a) is in `consolidate_in_chain.rs`, (b) in `mapping_table.rs`; the pointers both of them swap are in
//! `mutable_delta_pointers.rs`.
//!
//! The last is the layout of the OpenBw-Tree: a leaf's deltas lie in a slab that is allocated with its
//! base node (`slab_slots.rs`), so a chain is a few neighbouring lines, an update allocates nothing, and
//! chains may be longer.
//!
//! Paper: bwtree §5.4, figures 19 and 20; §2.4

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Plain {}
    impl Sealed for super::InChain {}
    impl Sealed for super::SplitHead {}
    impl Sealed for super::Both {}
    impl Sealed for super::OpenBw {}
}

/// Selects which of the paper's two proposals a Bw-tree follows, and where its deltas are.
pub trait Variant: sealed::Sealed + Sized + Send + Sync + 'static {
    /// Proposal (a): the writer of every N-th delta consolidates below it.
    const IN_CHAIN: bool;
    /// Proposal (b): a split delta is the head of its chain as long as it is there.
    const SPLIT_AT_HEAD: bool;
    /// A leaf's deltas lie in its base node's slab. Not together with the proposals: a slab goes with its
    /// base node, and under (a) deltas outlive the base node they were put on (trap "a slab is retired
    /// with its last delta").
    const SLAB: bool = false;
    /// A writer consolidates a leaf when its chain has reached this many deltas, unless configured
    /// otherwise.
    const LEAF_CHAIN_MAX: u8 = 4;
}

/// The Bw-tree as the paper built it.
#[derive(Debug)]
pub struct Plain;

/// Proposal (a).
#[derive(Debug)]
pub struct InChain;

/// Proposal (b).
#[derive(Debug)]
pub struct SplitHead;

/// Both proposals.
#[derive(Debug)]
pub struct Both;

/// The OpenBw-Tree's layout.
#[derive(Debug)]
pub struct OpenBw;

impl Variant for Plain {
    const IN_CHAIN: bool = false;
    const SPLIT_AT_HEAD: bool = false;
}

impl Variant for InChain {
    const IN_CHAIN: bool = true;
    const SPLIT_AT_HEAD: bool = false;
}

impl Variant for SplitHead {
    const IN_CHAIN: bool = false;
    const SPLIT_AT_HEAD: bool = true;
}

impl Variant for Both {
    const IN_CHAIN: bool = true;
    const SPLIT_AT_HEAD: bool = true;
}

impl Variant for OpenBw {
    const IN_CHAIN: bool = false;
    const SPLIT_AT_HEAD: bool = false;
    const SLAB: bool = true;
    const LEAF_CHAIN_MAX: u8 = 12;
}
