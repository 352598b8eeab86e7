//! Why an index is unavailable: its name is unknown, or this build lacks it.

use namiki_platform::debug_as_sentence;

debug_as_sentence!(UnknownKind, IndexNotInBuild);

/// A name that is not that of any tree or kind of key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{name}\", expected one of: {expected}")]
pub struct UnknownKind {
    /// The category of the name: "tree" or "kind of key".
    pub what: &'static str,
    /// The name given.
    pub name: String,
    /// The names there are.
    pub expected: String,
}

/// A tree that this build does not have.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index `{tree}` is not in this build: enable the feature `all-indexes` of `namiki`")]
pub struct IndexNotInBuild {
    /// The tree's name.
    pub tree: &'static str,
}
