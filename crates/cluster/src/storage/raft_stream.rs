//! Reading stream 0, and the place at which damage ends it.
//!
//! Stream 0 has votes and acknowledgements, in an order that matters: nothing behind a lost record counts.
//!
//! ```text
//!   frames 1 2 3 │ damaged │ 5 6 7      stream 0 ends with frame 3, and the node may have forgotten promises
//! ```
//! The manifest notes both at once: that the stream is cut there, in the seals of its generations, and that the node must ask
//! all others ([`Manifest::forgotten`](super::manifest::Manifest)). Payloads stay.
//!
//! A strict reader decides what is damage, because it tells that from what a crash leaves. What it does not reach is read by
//! one that skips damage: a lost header of a file costs no frame. A device that refuses to read is no damage: it may do so on
//! all nodes at once, and for a minute.

use std::path::Path;
use std::sync::Arc;

use namiki_log::{
    Frame, GenerationEnd, GenerationInfo, ReadError, StreamEnd, StreamReader, StreamStart,
};
use namiki_platform::Generation;
use namiki_platform::disk::Disk;

use super::error::StoreError;
use super::store::RAFT_STREAM;

/// Damage to stream 0.
#[derive(Debug)]
pub(super) struct RaftDamage {
    pub(super) generation: Generation,
    /// The last frame before it, or the one before the stream's beginning.
    pub(super) sequence: u64,
    pub(super) error: ReadError,
}

impl RaftDamage {
    /// Ends stream 0 before the damage: in the seals of its generation and of later ones, all of which are sealed.
    pub(super) fn cut(&self, generations: &mut [GenerationInfo]) {
        for info in generations {
            if info.generation < self.generation {
                continue;
            }
            let is_damaged = info.generation == self.generation;
            let keeps_some = is_damaged && self.sequence > before_first(info);
            if let Some(seal) = &mut info.seal
                && let Some(sealed) = seal.last_sequences.first_mut()
            {
                *sealed = if keeps_some { self.sequence } else { 0 };
            }
            // A stream without frames has no beginning behind others.
            if !keeps_some && let Some(start) = info.starts.first_mut() {
                *start = StreamStart::FIRST;
            }
        }
    }
}

/// Whether stream 0 of a generation was cut before its first frame: its files do not count.
pub(super) fn is_cut_off(info: &GenerationInfo) -> bool {
    let sealed = |seal: &GenerationEnd| seal.last_sequence(0) <= before_first(info);
    info.seal.as_ref().is_some_and(sealed)
}

fn before_first(info: &GenerationInfo) -> u64 {
    info.start(RAFT_STREAM).sequence.saturating_sub(1)
}

/// Reads stream 0 of a generation, through its end or to the frame before damage.
pub(super) struct RaftStream<'a> {
    disk: &'a Arc<dyn Disk>,
    log_dir: &'a Path,
    identity: u128,
    info: &'a GenerationInfo,
    /// As of the last frame that was taken.
    end: StreamEnd,
    /// The sequence number of the next one.
    next: u64,
}

/// A failure of a pass.
enum PassError {
    Unreadable(ReadError),
    /// The frame makes no sense.
    Senseless(StoreError),
}

impl<'a> RaftStream<'a> {
    pub(super) fn new(
        disk: &'a Arc<dyn Disk>,
        log_dir: &'a Path,
        identity: u128,
        info: &'a GenerationInfo,
    ) -> Self {
        Self {
            disk,
            log_dir,
            identity,
            info,
            end: StreamEnd::default(),
            next: before_first(info) + 1,
        }
    }

    /// Passes each frame to `take`, in order.
    ///
    /// # Errors
    /// Those of `take`; those of the reader, as `unreadable` has them, if they are no damage.
    pub(super) fn read(
        mut self,
        mut take: impl FnMut(&Frame<'_>) -> Result<(), StoreError>,
        unreadable: impl Fn(ReadError) -> StoreError,
    ) -> Result<(StreamEnd, Option<RaftDamage>), StoreError> {
        let error = match self.pass(StreamReader::open, &mut take) {
            Ok(()) => return Ok((self.end, None)),
            Err(PassError::Senseless(error)) => return Err(error),
            Err(PassError::Unreadable(error)) => error,
        };
        if !matches!(
            error,
            ReadError::Damaged { .. } | ReadError::BeginningLost { .. }
        ) {
            return Err(unreadable(error));
        }
        match self.pass(StreamReader::open_skipping_damage, &mut take) {
            Ok(()) => {}
            Err(PassError::Senseless(error)) => return Err(error),
            Err(PassError::Unreadable(error)) => return Err(unreadable(error)),
        }
        let seal = self.info.seal.as_ref();
        let is_whole = seal.is_some_and(|seal| seal.last_sequence(0) < self.next);
        let damage = RaftDamage {
            generation: self.info.generation,
            sequence: self.next - 1,
            error,
        };
        Ok((self.end, (!is_whole).then_some(damage)))
    }

    /// Takes the frames that follow without a gap.
    fn pass(
        &mut self,
        open: impl FnOnce(
            Arc<dyn Disk>,
            &Path,
            u128,
            &GenerationInfo,
            namiki_platform::WorkerId,
        ) -> Result<StreamReader, ReadError>,
        take: &mut impl FnMut(&Frame<'_>) -> Result<(), StoreError>,
    ) -> Result<(), PassError> {
        let disk = Arc::clone(self.disk);
        let reader = open(disk, self.log_dir, self.identity, self.info, RAFT_STREAM);
        let mut reader = reader.map_err(PassError::Unreadable)?;
        while let Some(frame) = reader.next_frame().map_err(PassError::Unreadable)? {
            let sequence = frame.header.sequence;
            if sequence > self.next {
                return Ok(());
            }
            if sequence == self.next {
                take(&frame).map_err(PassError::Senseless)?;
                self.next += 1;
                self.end = reader.end();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namiki_log::{CutRule, LogConfig, Retain, generations_contradiction};
    use namiki_platform::{Epoch, Lsn, Stamp};

    use super::*;

    /// A generation of two streams that were recycled up to frame 7.
    fn recycled(generation: u32) -> GenerationInfo {
        let config = LogConfig {
            retain: Retain::UntilRecycled,
            ..LogConfig::new(7, Generation(generation))
        };
        let start = StreamStart {
            file_number: 2,
            sequence: 7,
            offset: 0,
        };
        GenerationInfo {
            streams: 2,
            starts: vec![start; 2],
            seal: Some(GenerationEnd {
                last_sequences: vec![9; 2],
                last_lsn: Lsn(0),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(0),
            }),
            ..config.generation_info(CutRule::Stamp)
        }
    }

    /// In the manifest, a stream does not begin behind its seal.
    #[test]
    fn a_cut_before_the_first_frame_leaves_none() {
        for (sequence, expected) in [(6, 0), (7, 7), (8, 8)] {
            let mut generations = [1, 2, 3].map(recycled);
            let damage = RaftDamage {
                generation: Generation(2),
                sequence,
                error: ReadError::Damaged {
                    file: "log".into(),
                    offset_bytes: 0,
                    missing: false,
                    what: "a frame",
                },
            };
            damage.cut(&mut generations);
            let why = generations_contradiction(&generations, Generation(4));
            assert_eq!(why, None, "cut after frame {sequence}");
            let lasts = generations.each_ref().map(|info| {
                let seal = info.seal.as_ref().expect("a seal");
                (seal.last_sequences[0], seal.last_sequences[1])
            });
            assert_eq!(lasts, [(9, 9), (expected, 9), (0, 9)]);
            assert_eq!(is_cut_off(&generations[1]), sequence == 6);
            assert!(!is_cut_off(&generations[0]) && is_cut_off(&generations[2]));
        }
    }
}
