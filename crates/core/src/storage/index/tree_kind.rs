//! A tree chosen at run time, called without a virtual call.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use namiki_index::art::{ArtConfig, FixedArtTree, VariableArtTree};
#[cfg(feature = "all-indexes")]
use namiki_index::key::{Fixed8, Variable};
use namiki_index::{IndexError, OrderedIndex, ScanItem, ScanRange};
#[cfg(feature = "all-indexes")]
use namiki_trees::{
    blink::{FixedBlinkTree, VariableBlinkTree},
    bwtree::{
        Both, BwConfig, BwTree, FixedBwTree, InChain, OpenBw, Paper, PaperInChain, PaperSplitHead,
        SplitHead, VariableBwTree,
    },
    bztree::{Append, FixedBzTree, InPlace, VariableBzTree},
    masstree::{FixedMasstree, VariableMasstree},
};

use super::dispatch::dispatch_point_index;
use super::key_kind::KeyKind;
use super::unavailable_index_error::{IndexNotInBuild, UnknownKind};

/// Defines [`TreeKind`], which names all trees, [`Tree`], which is one of those in this build, and
/// `each_tree!`, which calls the same method of whichever tree it is. The first argument is a dollar sign.
macro_rules! trees {
    ($d:tt
        with all-indexes {$(
            $(#[$attribute:meta])*
            $kind:ident = $name:literal: $fixed:ident($fixed_tree:ty), $variable:ident($variable_tree:ty);
        )+}
        always {$(
            $(#[$always_attribute:meta])*
            $always_kind:ident = $always_name:literal:
                $always_fixed:ident($always_fixed_tree:ty), $always_variable:ident($always_variable_tree:ty);
        )+}
    ) => {
        /// The kind of a tree. The names are those of the benchmark's `--tree`.
        ///
        /// All but ART are in the build only with the feature `all-indexes`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[non_exhaustive]
        pub enum TreeKind {
            $($(#[$attribute])* $kind,)+
            $($(#[$always_attribute])* $always_kind,)+
        }

        impl TreeKind {
            /// All trees, in this build or not.
            pub const ALL: &[Self] = &[$(Self::$kind,)+ $(Self::$always_kind,)+];

            /// The trees in this build.
            pub fn in_build() -> impl Iterator<Item = Self> + Clone {
                Self::ALL.iter().copied().filter(|kind| kind.is_in_build())
            }

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                    $(Self::$always_kind => $always_name,)+
                }
            }

            /// Whether it is in this build.
            #[must_use]
            pub const fn is_in_build(self) -> bool {
                match self {
                    $(Self::$kind => cfg!(feature = "all-indexes"),)+
                    $(Self::$always_kind => true,)+
                }
            }

            /// That it is in this build.
            ///
            /// # Errors
            /// If it is not.
            pub fn check_in_build(self) -> Result<(), IndexNotInBuild> {
                if self.is_in_build() {
                    Ok(())
                } else {
                    Err(IndexNotInBuild { tree: self.name() })
                }
            }
        }

        /// Any tree over any kind of keys.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Tree {
            $(
                #[doc = concat!("`", $name, "`, eight-byte keys.")]
                #[cfg(feature = "all-indexes")]
                $fixed($fixed_tree),
                #[doc = concat!("`", $name, "`, byte strings.")]
                #[cfg(feature = "all-indexes")]
                $variable($variable_tree),
            )+
            $(
                #[doc = concat!("`", $always_name, "`, eight-byte keys.")]
                $always_fixed($always_fixed_tree),
                #[doc = concat!("`", $always_name, "`, byte strings.")]
                $always_variable($always_variable_tree),
            )+
        }

        impl Tree {
            /// An empty tree with its default sizes.
            ///
            /// # Errors
            /// If it is not in this build.
            pub fn new(kind: TreeKind, keys: KeyKind) -> Result<Self, IndexNotInBuild> {
                match (kind, keys) {
                    $(
                        #[cfg(feature = "all-indexes")]
                        (TreeKind::$kind, KeyKind::Fixed8) => Ok(Self::$fixed(Default::default())),
                        #[cfg(feature = "all-indexes")]
                        (TreeKind::$kind, KeyKind::Variable) => Ok(Self::$variable(Default::default())),
                        #[cfg(not(feature = "all-indexes"))]
                        (TreeKind::$kind, _) => Err(IndexNotInBuild { tree: $name }),
                    )+
                    $(
                        (TreeKind::$always_kind, KeyKind::Fixed8) => {
                            Ok(Self::$always_fixed(Default::default()))
                        }
                        (TreeKind::$always_kind, KeyKind::Variable) => {
                            Ok(Self::$always_variable(Default::default()))
                        }
                    )+
                }
            }

            /// Which tree this is.
            #[must_use]
            pub const fn kind(&self) -> TreeKind {
                match self {
                    $(
                        #[cfg(feature = "all-indexes")]
                        Self::$fixed(_) | Self::$variable(_) => TreeKind::$kind,
                    )+
                    $(
                        Self::$always_fixed(_) | Self::$always_variable(_) => TreeKind::$always_kind,
                    )+
                }
            }

            /// The kind of its keys.
            #[must_use]
            pub const fn key_kind(&self) -> KeyKind {
                match self {
                    $(
                        #[cfg(feature = "all-indexes")]
                        Self::$fixed(_) => KeyKind::Fixed8,
                        #[cfg(feature = "all-indexes")]
                        Self::$variable(_) => KeyKind::Variable,
                    )+
                    $(
                        Self::$always_fixed(_) => KeyKind::Fixed8,
                        Self::$always_variable(_) => KeyKind::Variable,
                    )+
                }
            }
        }

        macro_rules! each_tree {
            ($d self:ident, $d tree:ident => $d call:expr) => {
                match $d self {
                    $(
                        #[cfg(feature = "all-indexes")]
                        Tree::$fixed($d tree) => $d call,
                        #[cfg(feature = "all-indexes")]
                        Tree::$variable($d tree) => $d call,
                    )+
                    $(
                        Tree::$always_fixed($d tree) => $d call,
                        Tree::$always_variable($d tree) => $d call,
                    )+
                }
            };
        }
    };
}

trees! { $
    with all-indexes {
    /// The Bw-tree with deltas that describe their page.
    Bwtree = "bwtree": BwtreeFixed8(FixedBwTree), BwtreeVariable(VariableBwTree);
    /// The Bw-tree with writers that consolidate within the chain: the paper's proposal (a).
    BwtreeInchain = "bwtree-inchain":
        BwtreeInchainFixed8(BwTree<Fixed8, InChain>), BwtreeInchainVariable(BwTree<Variable, InChain>);
    /// The Bw-tree with split deltas that stay at the head: the paper's proposal (b).
    BwtreeSplithead = "bwtree-splithead":
        BwtreeSplitheadFixed8(BwTree<Fixed8, SplitHead>), BwtreeSplitheadVariable(BwTree<Variable, SplitHead>);
    /// The Bw-tree with both proposals.
    BwtreeBoth = "bwtree-both":
        BwtreeBothFixed8(BwTree<Fixed8, Both>), BwtreeBothVariable(BwTree<Variable, Both>);
    /// The Bw-tree as the paper built it: deltas describe their change alone, every visitor
    /// consolidates, and structure changes take the parent from a node stack.
    BwtreePaper = "bwtree-paper":
        BwtreePaperFixed8(BwTree<Fixed8, Paper>), BwtreePaperVariable(BwTree<Variable, Paper>);
    /// The paper's own tree with its proposal (a).
    BwtreePaperInchain = "bwtree-paper-inchain":
        BwtreePaperInchainFixed8(BwTree<Fixed8, PaperInChain>),
        BwtreePaperInchainVariable(BwTree<Variable, PaperInChain>);
    /// The paper's own tree with its proposal (b).
    BwtreePaperSplithead = "bwtree-paper-splithead":
        BwtreePaperSplitheadFixed8(BwTree<Fixed8, PaperSplitHead>),
        BwtreePaperSplitheadVariable(BwTree<Variable, PaperSplitHead>);
    /// The Bw-tree with leaves that are allocated together with their deltas: the OpenBw-Tree's layout.
    Openbw = "openbw":
        OpenbwFixed8(BwTree<Fixed8, OpenBw>), OpenbwVariable(BwTree<Variable, OpenBw>);
    /// The BzTree in which writes add records.
    BztreeAppend = "bztree-append":
        BztreeAppendFixed8(FixedBzTree<Append>), BztreeAppendVariable(VariableBzTree<Append>);
    /// The BzTree that replaces payloads in place.
    BztreeInplace = "bztree-inplace":
        BztreeInplaceFixed8(FixedBzTree<InPlace>), BztreeInplaceVariable(VariableBzTree<InPlace>);
    /// A trie of B+-trees.
    Masstree = "masstree": MasstreeFixed8(FixedMasstree), MasstreeVariable(VariableMasstree);
    /// The B-link tree: latched writers, readers without latches.
    Blink = "blink": BlinkFixed8(FixedBlinkTree), BlinkVariable(VariableBlinkTree);
    }
    always {
    /// The adaptive radix tree with optimistic lock coupling.
    #[default]
    Art = "art": ArtFixed8(FixedArtTree), ArtVariable(VariableArtTree);
    }
}

#[cfg(feature = "all-indexes")]
impl Tree {
    /// An empty Bw-tree with the given sizes.
    #[must_use]
    pub fn bwtree(keys: KeyKind, config: BwConfig) -> Self {
        match keys {
            KeyKind::Fixed8 => Self::BwtreeFixed8(FixedBwTree::new(config)),
            KeyKind::Variable => Self::BwtreeVariable(VariableBwTree::new(config)),
        }
    }
}

impl Tree {
    /// An empty adaptive radix tree with the given sizes.
    #[must_use]
    pub fn art(keys: KeyKind, config: ArtConfig) -> Self {
        match keys {
            KeyKind::Fixed8 => Self::ArtFixed8(FixedArtTree::new(config)),
            KeyKind::Variable => Self::ArtVariable(VariableArtTree::new(config)),
        }
    }
}

impl fmt::Display for TreeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TreeKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let known = Self::ALL.iter().find(|kind| kind.name() == name);
        known.copied().ok_or_else(|| UnknownKind {
            what: "tree",
            name: name.to_owned(),
            expected: Self::ALL
                .iter()
                .map(|kind| kind.name())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

dispatch_point_index!(Tree, each_tree);

impl Tree {
    /// Leaves the tree no page number that was never used, so that it soon has to refuse new keys.
    pub(crate) fn use_up(&self) {
        each_tree!(self, tree => tree.use_up());
    }
}

impl OrderedIndex for Tree {
    fn scan(
        &self,
        range: ScanRange<'_>,
        visit: impl FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        #[cfg(debug_assertions)]
        return self.scan_as_object(range, &mut { visit });
        #[cfg(not(debug_assertions))]
        each_tree!(self, tree => tree.scan(range, visit))
    }

    fn bulk_load<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        #[cfg(debug_assertions)]
        return self.bulk_load_object(&mut sorted.into_iter());
        #[cfg(not(debug_assertions))]
        each_tree!(self, tree => tree.bulk_load(sorted))
    }
}

/// See [`dispatch`](super::dispatch).
#[cfg(debug_assertions)]
impl Tree {
    fn scan_as_object(
        &self,
        range: ScanRange<'_>,
        visit: &mut dyn FnMut(ScanItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        each_tree!(self, tree => tree.scan(range, visit))
    }

    fn bulk_load_object<B: AsRef<[u8]>>(
        &self,
        sorted: &mut dyn Iterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        each_tree!(self, tree => tree.bulk_load(sorted))
    }
}
