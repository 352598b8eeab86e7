//! Parameters and results of structure changes.

use namiki_index::LeafVersion;

/// Permission of a consolidation to change the size of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    /// Nothing.
    Never,
    /// Split it if it is too large.
    Split,
    /// That, or merge it if it is too small.
    SplitOrMerge,
}

/// The state that a writer found below its seam.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// Nothing is left to be done.
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
