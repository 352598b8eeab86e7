//! What the manifest keeps about a generation of the log, and what a reader needs to read it.

use namiki_platform::{Epoch, Generation, Lsn, Stamp};
use serde::{Deserialize, Serialize};

use crate::layout_config::{Layout, Placement, Retain};

/// How recovery decides which hardened commits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CutRule {
    /// All of them: under normal lock release nothing depends on what was not hardened. Replay is
    /// in the order of stamps.
    ///
    /// Paper: tictoc-pwal §3.4
    Stamp,
    /// Those below the first LSN that is missing. Replay is in the order of LSNs.
    ///
    /// Paper: pwal §4.3
    Lsn,
    /// Those of the epochs through which every stream was hardened, and what is independent of later
    /// ones. Replay is in the order of stamps.
    Epoch,
}

/// What the records of a generation are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Records {
    /// Whole commits.
    #[default]
    Commits,
    /// Parts of transactions and their ends. Replay is in the order of LSNs, whatever the cut.
    ///
    /// Paper: pwal §5
    Operations,
}

/// One generation of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationInfo {
    /// Its number.
    pub generation: Generation,
    /// One stream per worker or one in all.
    pub layout: Layout,
    /// How many streams it has.
    pub streams: u16,
    /// Where its frames are.
    pub placement: Placement,
    /// Whether its first segments may be gone.
    pub retain: Retain,
    /// Which of its commits count.
    pub cut: CutRule,
    /// What its records are.
    #[serde(default)]
    pub records: Records,
    /// The first LSN it could draw.
    pub first_lsn: Lsn,
    /// Where it ends. Set when it was closed, or when recovery has read it; from then on nothing
    /// behind the seal is ever looked at.
    pub seal: Option<GenerationEnd>,
}

/// The end of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationEnd {
    /// Per stream, the sequence number of the last frame that counts; 0 if none does.
    pub last_sequences: Vec<u64>,
    /// The last LSN that counts: under [`CutRule::Lsn`] records above it are cut off.
    pub last_lsn: Lsn,
    /// The last epoch that counts: under [`CutRule::Epoch`] records of later ones are cut off, unless
    /// they are independent.
    #[serde(default)]
    pub durable_epoch: Epoch,
    /// The largest stamp in the generation, in what was cut off too. Stamps restart above it.
    pub max_stamp: Stamp,
}

impl GenerationEnd {
    /// The last frame of a stream that counts.
    #[must_use]
    pub fn last_sequence(&self, stream: usize) -> u64 {
        self.last_sequences.get(stream).copied().unwrap_or(0)
    }
}
