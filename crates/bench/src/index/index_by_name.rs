//! The indexes that can be measured, by name.

use std::fmt;
use std::str::FromStr;

use namiki::index::{Index, IndexKind, IndexNotInBuild, KeyKind, Point, Tree, TreeKind};

#[cfg(feature = "compare")]
use super::peers::{CongeeTree, LockedBTreeMap, SccTree, SkipList};
use super::result_row::Outcome;
use super::run_one::Plan;
use crate::error::BenchError;
use crate::key_encoding::CORE_BYTES;

/// An index that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An index of ours: a tree, the hash table, or both together.
    Ours(IndexKind),
    /// An index of another crate.
    Peer(Peer),
}

/// An index from the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// `scc::TreeIndex`.
    Scc,
    /// `crossbeam_skiplist::SkipMap`.
    CrossbeamSkiplist,
    /// `congee::Congee`.
    Congee,
    /// `parking_lot::RwLock<BTreeMap>`.
    BTreeMap,
}

impl Peer {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Scc,
        Self::CrossbeamSkiplist,
        Self::Congee,
        Self::BTreeMap,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Scc => "scc",
            Self::CrossbeamSkiplist => "crossbeam-skiplist",
            Self::Congee => "congee",
            Self::BTreeMap => "btreemap",
        }
    }

    #[cfg(feature = "compare")]
    fn run(self, plan: &Plan<'_>, what: &str) -> Result<Outcome, BenchError> {
        let eight = plan.choice.keys.bytes == CORE_BYTES;
        match self {
            Self::Scc if eight => plan.run(&SccTree::<u64>::default(), what),
            Self::Scc => plan.run(&SccTree::<Box<[u8]>>::default(), what),
            Self::CrossbeamSkiplist if eight => plan.run(&SkipList::<u64>::default(), what),
            Self::CrossbeamSkiplist => plan.run(&SkipList::<Box<[u8]>>::default(), what),
            Self::Congee => plan.run(&CongeeTree::default(), what),
            Self::BTreeMap if eight => plan.run(&LockedBTreeMap::<u64>::default(), what),
            Self::BTreeMap => plan.run(&LockedBTreeMap::<Box<[u8]>>::default(), what),
        }
    }

    #[cfg(not(feature = "compare"))]
    fn run(self, _plan: &Plan<'_>, what: &str) -> Result<Outcome, BenchError> {
        Err(not_built(what))
    }
}

impl Subject {
    /// Fails if this program was built without it.
    pub(crate) fn check(self) -> Result<(), BenchError> {
        match self {
            Self::Peer(peer) if !cfg!(feature = "compare") => Err(not_built(peer.name())),
            _ => Ok(()),
        }
    }

    /// Whether it is an unordered index of ours.
    pub(crate) const fn is_unordered(self) -> bool {
        matches!(self, Self::Ours(kind) if !kind.is_ordered())
    }

    /// Runs a plan over a new instance.
    pub(crate) fn run(self, plan: &Plan<'_>) -> Result<Outcome, BenchError> {
        let what = self.to_string();
        match self {
            Self::Ours(kind) => {
                let keys = match plan.choice.keys.bytes {
                    CORE_BYTES => KeyKind::Fixed8,
                    _ => KeyKind::Variable,
                };
                match kind {
                    IndexKind::Ordered(tree) => {
                        plan.run(&Tree::new(tree, keys).map_err(left_out)?, &what)
                    }
                    IndexKind::Hash => plan.run(&Point::new(keys), &what),
                    both => plan.run(&Index::new(both, keys).map_err(left_out)?, &what),
                }
            }
            Self::Peer(peer) => peer.run(plan, &what),
        }
    }
}

fn left_out(error: IndexNotInBuild) -> BenchError {
    BenchError::Usage(error.to_string())
}

fn not_built(what: &str) -> BenchError {
    BenchError::Usage(format!(
        "{what} is not in this program; build it with `cargo build --profile measured -p namiki-bench --features \
         compare`"
    ))
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(kind) => kind.fmt(f),
            Self::Peer(peer) => f.pad(peer.name()),
        }
    }
}

/// The value of `--tree`: indexes of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trees(Vec<Subject>);

/// The value of `--trees`: indexes of ours, and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreesAndPeers(Vec<Subject>);

impl Trees {
    /// The named indexes.
    pub(crate) fn subjects(&self) -> &[Subject] {
        &self.0
    }
}

impl Default for Trees {
    fn default() -> Self {
        Self(vec![Subject::Ours(IndexKind::default())])
    }
}

impl fmt::Display for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(&self.0, f)
    }
}

impl TreesAndPeers {
    /// The default tree and all indexes that it can be compared with.
    pub(crate) fn defaults() -> [Self; 1] {
        let tree = Subject::Ours(IndexKind::default());
        let peers = Peer::ALL.map(Subject::Peer);
        [Self([tree].into_iter().chain(peers).collect())]
    }

    /// The named indexes.
    pub(crate) fn subjects(&self) -> &[Subject] {
        &self.0
    }
}

impl fmt::Display for TreesAndPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(&self.0, f)
    }
}

fn list(subjects: &[Subject], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    f.pad(&names.join(","))
}

/// Every tree, and the hash table.
fn ours() -> impl Iterator<Item = Subject> {
    let trees = TreeKind::ALL.iter().copied().map(IndexKind::Ordered);
    trees.chain([IndexKind::Hash]).map(Subject::Ours)
}

impl FromStr for Trees {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" {
            return Ok(Self(ours().collect()));
        }
        let kind = name
            .parse()
            .map_err(|error| format!("{error}, or all of them with all"))?;
        Ok(Self(vec![Subject::Ours(kind)]))
    }
}

impl FromStr for TreesAndPeers {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let peers = Peer::ALL;
        if name == "all" {
            let all = ours().chain(peers.map(Subject::Peer));
            return Ok(Self(all.collect()));
        }
        if let Some(peer) = peers.into_iter().find(|peer| peer.name() == name) {
            return Ok(Self(vec![Subject::Peer(peer)]));
        }
        let names = peers.map(Peer::name).join(", ");
        let trees = name.parse::<Trees>();
        trees
            .map(|trees| Self(trees.0))
            .map_err(|error| format!("{error}, {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_one_or_for_all() {
        let tree: Trees = "bwtree".parse().unwrap();
        assert_eq!(tree.subjects(), [Subject::Ours(TreeKind::Bwtree.into())]);
        let hash: Trees = "hash".parse().unwrap();
        assert_eq!(hash.subjects(), [Subject::Ours(IndexKind::Hash)]);
        let all: Trees = "all".parse().unwrap();
        assert_eq!(all.subjects().len(), TreeKind::ALL.len() + 1);
        let unordered = all
            .subjects()
            .iter()
            .filter(|subject| subject.is_unordered());
        assert_eq!(unordered.collect::<Vec<_>>(), [&hash.subjects()[0]]);
        assert!("scc".parse::<Trees>().unwrap_err().contains("bwtree"));
        let all: TreesAndPeers = "all".parse().unwrap();
        assert_eq!(all.subjects().len(), TreeKind::ALL.len() + 1 + 4);
        let both: TreesAndPeers = "art+hash".parse().unwrap();
        for subject in all.subjects().iter().chain(both.subjects()) {
            let again: TreesAndPeers = subject.to_string().parse().unwrap();
            assert_eq!(again.subjects(), [*subject]);
        }
        let said = "oak".parse::<TreesAndPeers>().unwrap_err();
        for word in ["oak", "bwtree", "hash", "congee"] {
            assert!(said.contains(word), "{said}");
        }
        let [defaults] = TreesAndPeers::defaults();
        assert_eq!(
            defaults.to_string(),
            "art,scc,crossbeam-skiplist,congee,btreemap"
        );
        assert_eq!(Trees::default().to_string(), "art");
    }
}
