//! What structure changes are asked for, and what they have done.

use namiki_index::LeafVersion;

/// What consolidation may do about the size of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    /// Nothing.
    Never,
    /// Split it if it is too large.
    Split,
    /// That, or merge it if it is too small.
    SplitOrMerge,
}

/// What a writer found below its seam.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// It is taken care of.
    Done,
    /// The page must be consolidated at its head.
    NeedsHead,
}

/// A split that this thread carried out.
pub(super) struct SplitDone {
    /// The leaf's version just before; the key set was the same.
    pub(super) of: LeafVersion,
    /// Versions of the left half, same leaf number, and of the right half, just after.
    pub(super) halves: (LeafVersion, LeafVersion),
}
