//! The manifest's entry for a generation of the log, which has everything that a reader needs.

pub(crate) mod layout_config;
pub(crate) mod log_start;
pub(crate) mod superfluous_files;

use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};
use serde::{Deserialize, Serialize};

use crate::format::BLOCK_BYTES_MAX;
use crate::format::region::REGION_BLOCK_BYTES_MIN;
use crate::generation::layout_config::{Layout, Placement, Retain};
use crate::generation::log_start::{LogStart, StreamStart};

/// The rule by which recovery decides which hardened commits count.
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
    /// Those of the epochs through which every stream was hardened, and what is independent of
    /// later ones. Replay is in the order of stamps.
    Epoch,
}

/// The kind of a generation's records.
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
    /// Number of its streams.
    pub streams: u16,
    /// The placement of its frames.
    pub placement: Placement,
    /// The shortest length of a log file, if they differ: from this to the one in `placement`.
    /// Such a log file may end before it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_file_bytes: Option<u64>,
    /// Whether its first log files may be gone.
    pub retain: Retain,
    /// The beginning of each stream. Empty if all begin with their first log files, and never empty
    /// in a shared device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StreamStart>,
    /// L0: below this LSN some may be missing because their log files were recycled, from it on
    /// none may. 0 if none was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub complete_from: Lsn,
    /// The rule for which of its commits count.
    pub cut: CutRule,
    /// The kind of its records.
    pub records: Records,
    /// Whether restore points may stand among its records, which are neither commits nor
    /// operations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restore_points: bool,
    /// The first LSN it could draw.
    pub first_lsn: Lsn,
    /// Where it ends. Set when it was closed, or when recovery has read it; from then on nothing
    /// behind the seal is ever looked at.
    pub seal: Option<GenerationEnd>,
    /// In a sealed generation of a backup: commits with larger stamps do not count, whatever the
    /// seal says of them. It is a boundary between epochs, so no commit that counts depends on one
    /// that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stamp: Option<Stamp>,
}

impl GenerationInfo {
    /// The beginning of a stream.
    #[must_use]
    pub fn start(&self, worker: WorkerId) -> StreamStart {
        let start = self.starts.get(usize::from(worker.0));
        start.copied().unwrap_or(StreamStart::FIRST)
    }

    /// Whether commits with this stamp lie beyond the last one that counts.
    #[must_use]
    pub fn is_beyond(&self, stamp: Stamp) -> bool {
        self.last_stamp.is_some_and(|last| stamp > last)
    }

    /// The first LSN from which on none may be missing.
    #[must_use]
    pub fn complete_lsn(&self) -> Lsn {
        self.first_lsn.max(self.complete_from)
    }

    /// Whether it has ended without a frame of this stream.
    pub(crate) fn is_sealed_empty(&self, worker: WorkerId) -> bool {
        let seal = self.seal.as_ref();
        seal.is_some_and(|seal| seal.last_sequence(usize::from(worker.0)) == 0)
    }

    /// Makes the generation begin where [`Log::recyclable`](crate::Log::recyclable) says.
    pub fn begin_at(&mut self, start: &LogStart) {
        self.starts.clone_from(&start.streams);
        self.complete_from = start.complete_from;
    }
}

/// The end of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationEnd {
    /// Per stream, the sequence number of the last frame that counts; 0 if none does.
    pub last_sequences: Vec<u64>,
    /// The last LSN that counts: under [`CutRule::Lsn`] records above it are cut off.
    pub last_lsn: Lsn,
    /// The last epoch that counts: under [`CutRule::Epoch`] records of later ones are cut off,
    /// unless they are independent.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(lsn: &Lsn) -> bool {
    *lsn == Lsn(0)
}

/// Sequence numbers and epochs never reach it, and counting on from here cannot overflow.
const NUMBER_MAX: u64 = u64::MAX >> 2;
/// The same of generations: each opening begins one.
const GENERATION_MAX: Generation = Generation(u32::MAX >> 1);

/// The reason that a manifest with these generations, and `next` as the next one, contradicts
/// itself; `None` if it does not.
#[must_use]
pub fn generations_contradiction(
    generations: &[GenerationInfo],
    next: Generation,
) -> Option<String> {
    let mut before = Generation(0);
    for info in generations {
        if info.generation <= before {
            return Some(format!("{} comes after {before}", info.generation));
        }
        before = info.generation;
    }
    for (number, info) in generations.iter().enumerate() {
        let generation = info.generation;
        if generation >= next {
            return Some(format!("{next} is to be next, and {generation} is there"));
        }
        if info.seal.is_none() && number + 1 < generations.len() {
            return Some(format!("{generation} has a follower and no seal"));
        }
        if info.last_stamp.is_some() && info.seal.is_none() {
            return Some(format!("{generation} ends at a stamp, and has no seal"));
        }
        if info.streams == 0 || (info.layout == Layout::Single && info.streams != 1) {
            return Some(format!("{generation} has {} streams", info.streams));
        }
        if info.first_lsn.0 == 0 || info.first_lsn.0 > NUMBER_MAX {
            return Some(format!("{generation} begins with {}", info.first_lsn));
        }
        let (Placement::Files {
            log_file_bytes: bytes,
        }
        | Placement::Shared {
            region_bytes: bytes,
            ..
        }) = info.placement;
        if bytes == 0 {
            return Some(format!("{generation} has files of no length"));
        }
        let block = BLOCK_BYTES_MAX as u64;
        if !bytes.is_multiple_of(block) {
            return Some(format!(
                "{generation} has files of {bytes} bytes, which are no whole blocks"
            ));
        }
        if let Some(first) = info.first_file_bytes {
            let is_ring = matches!(info.placement, Placement::Shared { .. });
            if is_ring || first == 0 || first > bytes || !first.is_multiple_of(block) {
                return Some(format!("{generation} has files from {first} bytes on"));
            }
        }
        if let Some(why) = start_contradiction(info) {
            return Some(why);
        }
        let starts = info.starts.iter();
        let starts = starts.flat_map(|start| [start.sequence, start.offset]);
        if starts.chain([info.complete_from.0]).max() > Some(NUMBER_MAX) {
            return Some(format!("{generation} begins beyond what there can be"));
        }
        if let Some(seal) = &info.seal
            && let Some(why) = seal_contradiction(info, seal)
        {
            return Some(format!("the seal of {generation} {why}"));
        }
    }
    (next.0 == 0 || next > GENERATION_MAX).then(|| format!("{next} cannot be next"))
}

/// The reason that a generation cannot begin at its start; `None` if it can.
fn start_contradiction(info: &GenerationInfo) -> Option<String> {
    let generation = info.generation;
    let is_ring = matches!(info.placement, Placement::Shared { .. });
    if info.starts.is_empty() && is_ring {
        return Some(format!(
            "{generation} is in a shared device, and does not say where its streams begin"
        ));
    }
    if info.starts.is_empty() {
        return (info.complete_from != Lsn(0)).then(|| {
            let l0 = info.complete_from;
            format!("{generation} is complete from {l0} on, and nothing of it was recycled")
        });
    }
    if info.starts.len() != usize::from(info.streams) {
        return Some(format!(
            "{generation} has {} streams, and says where {} begin",
            info.streams,
            info.starts.len()
        ));
    }
    if info.retain != Retain::UntilRecycled {
        return Some(format!("{generation} keeps all, and has a beginning"));
    }
    for (worker, start) in (0..).map(WorkerId).zip(&info.starts) {
        let StreamStart {
            file_number,
            sequence,
            offset,
        } = *start;
        let makes_sense = if is_ring {
            file_number == 1
                && sequence > 0
                && offset > 0
                && offset.is_multiple_of(REGION_BLOCK_BYTES_MIN as u64)
        } else {
            // Each log file before has at least one frame.
            file_number > 0
                && offset == 0
                && sequence >= file_number
                && (file_number > 1 || sequence == 1)
        };
        if !makes_sense {
            return Some(format!(
                "{worker} of {generation} begins with frame {sequence} in log file {file_number}, at {offset}"
            ));
        }
        if let Some(seal) = &info.seal
            && !start.is_first()
            && seal.last_sequence(usize::from(worker.0)) < sequence
        {
            return Some(format!(
                "{worker} of {generation} begins with frame {sequence}, behind its seal"
            ));
        }
    }
    let is_numbered = info.cut == CutRule::Lsn || info.records == Records::Operations;
    if !is_numbered && info.complete_from != Lsn(0) {
        return Some(format!("{generation} draws no LSNs, and has an L0"));
    }
    if info.cut == CutRule::Lsn
        && let Some(seal) = &info.seal
        && seal.last_lsn.next() < info.complete_from
    {
        return Some(format!(
            "{generation} is complete from {} on, behind its seal",
            info.complete_from
        ));
    }
    None
}

fn seal_contradiction(info: &GenerationInfo, seal: &GenerationEnd) -> Option<String> {
    let streams = seal.last_sequences.len();
    if streams != usize::from(info.streams) {
        return Some(format!("is of {streams} streams, not of {}", info.streams));
    }
    let largest = [seal.last_lsn.0, seal.durable_epoch.0];
    let largest = largest.iter().chain(&seal.last_sequences).max();
    if largest.is_some_and(|largest| *largest > NUMBER_MAX) || seal.max_stamp > Stamp::MAX {
        return Some("says more than there can be".to_owned());
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::config::LogConfig;

    #[test]
    fn a_ring_begins_at_a_block_and_with_a_frame() {
        let why = |start: StreamStart, retain| {
            let config = LogConfig {
                placement: Placement::Shared {
                    path: "/device".into(),
                    region_bytes: 1 << 20,
                },
                retain,
                ..LogConfig::new(7, Generation(1))
            };
            let info = GenerationInfo {
                starts: vec![start],
                ..config.generation_info(CutRule::Stamp)
            };
            generations_contradiction(&[info], Generation(2))
        };
        let sound = StreamStart {
            offset: 3 << 20,
            sequence: 9,
            ..StreamStart::FIRST
        };
        assert_eq!(why(sound, Retain::UntilRecycled), None);
        assert!(why(sound, Retain::All).is_some());
        for (file_number, sequence, offset) in [
            (1, 9, 0),
            (1, 9, 700),
            (1, 9, u64::MAX << 9),
            (1, 0, 3 << 20),
            (2, 9, 3 << 20),
        ] {
            let start = StreamStart {
                file_number,
                sequence,
                offset,
            };
            assert!(why(start, Retain::UntilRecycled).is_some(), "{start:?}");
        }
    }
}
