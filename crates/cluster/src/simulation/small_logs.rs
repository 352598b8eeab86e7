//! Logs with limits of a few files: room is short, on a minority or everywhere.

use namiki_platform::seeded_random::Random;

/// Nodes with a small limit of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallLogs {
    /// None.
    None,
    /// A minority.
    Minority,
    /// All.
    All,
}

impl SmallLogs {
    pub(super) fn of(seed: u64) -> Self {
        match seed % 8 {
            1 => Self::Minority,
            5 => Self::All,
            _ => Self::None,
        }
    }

    /// Number of nodes with a small log.
    pub(super) fn nodes(self, nodes: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Minority => nodes / 2,
            Self::All => nodes,
        }
    }

    /// A limit of a few files for each stream.
    pub(super) fn limit(workers: u16, random: &mut Random) -> u64 {
        let streams = u64::from(workers) + 1;
        (streams * (300 + random.below(300))) << 10
    }
}
