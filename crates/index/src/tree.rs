//! A tree chosen at run time, called without a virtual call.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use crate::art::{ArtConfig, FixedArtTree, VariableArtTree};
use crate::blink::{FixedBlinkTree, VariableBlinkTree};
use crate::bwtree::{
    Both, BwConfig, BwTree, FixedBwTree, InChain, OpenBw, SplitHead, VariableBwTree,
};
use crate::bztree::{Append, FixedBzTree, InPlace, VariableBzTree};
use crate::forward::forward_point_index;
use crate::key::{Fixed8, Key, Variable};
use crate::masstree::{FixedMasstree, VariableMasstree};
use crate::{IndexError, OrderedIndex, ScanItem, ScanRange, UnknownKind};

/// Defines [`TreeKind`] and [`Tree`] from the list of the trees there are, and `each_tree!`, which calls the
/// same method of whichever tree it is. The first argument is a dollar sign.
macro_rules! trees {
    ($d:tt $(
        $(#[$attribute:meta])*
        $kind:ident = $name:literal: $fixed:ident($fixed_tree:ty), $variable:ident($variable_tree:ty);
    )+) => {
        /// Which tree. The names are those of the benchmark's `--tree`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[non_exhaustive]
        pub enum TreeKind {
            $($(#[$attribute])* $kind,)+
        }

        impl TreeKind {
            /// Every tree there is.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }

        /// Any tree over any kind of keys.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Tree {
            $(
                #[doc = concat!("`", $name, "`, eight-byte keys.")]
                $fixed($fixed_tree),
                #[doc = concat!("`", $name, "`, byte strings.")]
                $variable($variable_tree),
            )+
        }

        impl Tree {
            /// An empty tree with its default sizes.
            #[must_use]
            pub fn new(kind: TreeKind, keys: KeyKind) -> Self {
                match (kind, keys) {
                    $(
                        (TreeKind::$kind, KeyKind::Fixed8) => Self::$fixed(Default::default()),
                        (TreeKind::$kind, KeyKind::Variable) => Self::$variable(Default::default()),
                    )+
                }
            }

            /// Which tree this is.
            #[must_use]
            pub const fn kind(&self) -> TreeKind {
                match self {
                    $(Self::$fixed(_) | Self::$variable(_) => TreeKind::$kind,)+
                }
            }

            /// What its keys are.
            #[must_use]
            pub const fn key_kind(&self) -> KeyKind {
                match self {
                    $(
                        Self::$fixed(_) => KeyKind::Fixed8,
                        Self::$variable(_) => KeyKind::Variable,
                    )+
                }
            }
        }

        macro_rules! each_tree {
            ($d self:ident, $d tree:ident => $d call:expr) => {
                match $d self {
                    $(
                        Tree::$fixed($d tree) => $d call,
                        Tree::$variable($d tree) => $d call,
                    )+
                }
            };
        }
    };
}

trees! { $
    /// The Bw-tree of the paper.
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
    /// The adaptive radix tree with optimistic lock coupling.
    #[default]
    Art = "art": ArtFixed8(FixedArtTree), ArtVariable(VariableArtTree);
}

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

/// What the keys are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyKind {
    /// Exactly eight bytes; compared as big-endian numbers.
    Fixed8,
    /// Zero to 65 536 bytes.
    Variable,
}

impl KeyKind {
    /// Whether these bytes are such a key.
    ///
    /// # Errors
    /// [`IndexError::KeyLength`], [`IndexError::KeyTooLong`].
    #[inline]
    pub fn check(self, key: &[u8]) -> Result<(), IndexError> {
        match self {
            Self::Fixed8 => Fixed8::parse(key).map(drop),
            Self::Variable => Variable::parse(key).map(drop),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fixed8 => "fixed8",
            Self::Variable => "variable",
        })
    }
}

impl FromStr for KeyKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        match name {
            "fixed8" => Ok(Self::Fixed8),
            "variable" => Ok(Self::Variable),
            _ => Err(UnknownKind {
                what: "kind of key",
                name: name.to_owned(),
                expected: "fixed8, variable".to_owned(),
            }),
        }
    }
}

forward_point_index!(Tree, each_tree);

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
        each_tree!(self, tree => tree.scan(range, visit))
    }

    fn bulk_load<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        each_tree!(self, tree => tree.bulk_load(sorted))
    }
}
