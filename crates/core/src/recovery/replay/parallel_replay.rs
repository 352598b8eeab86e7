//! Parallel replay without an order of commits: for each key, the version with the highest stamp
//! wins.
//!
//! While the cut is unknown, frames bound it: each records the log sequence number, or epoch, up to
//! which the log was durable when it was written, and only commits above the highest of these have
//! to wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_log::{
    CutRule, FrameHeader, GenerationEnd, GenerationInfo, LogRecord, StreamEnd, durable_epoch,
};
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};
use parking_lot::Mutex;

use super::replay_context::{Last, Outcome, Replay, outcome};
use crate::error::OpenError;
use crate::recovery::run_on_threads::on_threads;

/// The position of a commit: it counts exactly if that is below the cut.
fn place(cut: CutRule, record: &LogRecord<'_>) -> u64 {
    match cut {
        CutRule::Stamp => 0,
        CutRule::Lsn => record.lsn.0,
        CutRule::Epoch if record.is_independent() => 0,
        CutRule::Epoch => record.epoch().0,
    }
}

/// The cut of a sealed generation: the first position that does not count.
fn sealed_cut(cut: CutRule, seal: &GenerationEnd) -> u64 {
    match cut {
        CutRule::Stamp => u64::MAX,
        CutRule::Lsn => seal.last_lsn.next().0,
        CutRule::Epoch => seal.durable_epoch.0 + 1,
    }
}

/// Every commit below this counts, as a frame has recorded.
fn safe_by(cut: CutRule, header: &FrameHeader) -> u64 {
    match cut {
        CutRule::Stamp => u64::MAX,
        CutRule::Lsn => header.horizon.0,
        CutRule::Epoch => header.hardened_epoch().0 + 1,
    }
}

/// A commit that waits until the cut is known.
struct Waiting {
    place: u64,
    stamp: Stamp,
    /// Empty if the image has it.
    payload: Box<[u8]>,
}

/// The numbers of commits, by their treatment in replay.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// They lie beyond the cut, or beyond the last stamp of a backup.
    dropped: u64,
    /// The image has them.
    in_image: u64,
    /// They are below the cut, whether in the image, replayed or skipped, and have LSNs of a
    /// sequence without gaps.
    complete: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.dropped += other.dropped;
        self.in_image += other.in_image;
        self.complete += other.complete;
    }
}

/// The outcome of one stream.
struct StreamOutcome {
    worker: WorkerId,
    end: StreamEnd,
    waiting: Vec<Waiting>,
    counts: Counts,
}

impl Replay<'_, '_> {
    /// Replays a generation's streams in parallel.
    pub(in crate::recovery) fn in_no_order(
        &self,
        info: &GenerationInfo,
    ) -> Result<Outcome, OpenError> {
        let safe_below = AtomicU64::new(match info.cut {
            CutRule::Stamp | CutRule::Lsn => info.complete_lsn().0,
            // Epochs begin anew in each generation.
            CutRule::Epoch => 1,
        });
        let next = AtomicU64::new(0);
        let streams = Mutex::new(Vec::new());
        let run = || -> Result<(), OpenError> {
            loop {
                let worker = next.fetch_add(1, Ordering::Relaxed);
                if worker >= u64::from(info.streams) {
                    return Ok(());
                }
                let outcome = self.stream(info, WorkerId(worker as u16), &safe_below);
                if outcome.is_err() {
                    // No thread need begin another stream.
                    next.store(info.streams.into(), Ordering::Relaxed);
                }
                streams.lock().push(outcome?);
            }
        };
        let threads = self.threads.clamp(1, usize::from(info.streams.max(1)));
        on_threads(threads, run)?;
        let mut streams = streams.into_inner();
        streams.sort_unstable_by_key(|stream| stream.worker);

        let mut counts = Counts::default();
        for stream in &streams {
            counts.add(&stream.counts);
        }
        let cut = match (info.cut, &info.seal) {
            (CutRule::Stamp, _) => u64::MAX,
            (cut, Some(seal)) => sealed_cut(cut, seal),
            (CutRule::Lsn, None) => {
                let waiting = streams.iter().flat_map(|stream| &stream.waiting);
                let found = waiting.map(|commit| Lsn(commit.place));
                last_without_gap(Lsn(safe_below.into_inner()), found)
                    .next()
                    .0
            }
            (CutRule::Epoch, None) => durable_epoch(streams.iter().map(|it| &it.end)).0 + 1,
        };
        for commit in streams.iter().flat_map(|stream| &stream.waiting) {
            if commit.place >= cut {
                counts.dropped += 1;
            } else if self.takes(info, commit.place, commit.stamp, &mut counts) {
                self.tables
                    .apply(info.generation, [(commit.stamp, &*commit.payload)])?;
                self.advance(0, 1)?;
            }
        }
        let last = match info.cut {
            CutRule::Stamp => Last::default(),
            CutRule::Lsn => Last {
                lsn: Lsn(cut - 1),
                ..Last::default()
            },
            CutRule::Epoch => Last {
                epoch: Epoch(cut - 1),
                ..Last::default()
            },
        };
        if info.cut == CutRule::Lsn {
            let expected = cut - info.complete_lsn().0;
            let found = counts.complete;
            if found != expected {
                let generation = info.generation;
                return Err(OpenError::MissingCommits {
                    generation,
                    expected,
                    found,
                });
            }
        }
        Ok(outcome(
            info,
            last,
            (counts.dropped, counts.in_image),
            streams.iter().map(|stream| stream.end),
        ))
    }

    /// Counts a commit that counts. Returns whether it is to be replayed.
    fn takes(&self, info: &GenerationInfo, place: u64, stamp: Stamp, counts: &mut Counts) -> bool {
        counts.complete += u64::from(place >= info.complete_lsn().0);
        if info.is_beyond(stamp) {
            counts.dropped += 1;
            return false;
        }
        let in_image = self.is_in_image(stamp);
        counts.in_image += u64::from(in_image);
        !in_image
    }

    /// Replays one stream. Commits that may lie beyond the cut are returned.
    fn stream(
        &self,
        info: &GenerationInfo,
        worker: WorkerId,
        safe_below: &AtomicU64,
    ) -> Result<StreamOutcome, OpenError> {
        let mut reader = self.open(info, worker)?;
        let sealed = (info.seal.as_ref()).map(|seal| sealed_cut(info.cut, seal));
        let mut waiting = VecDeque::<Waiting>::new();
        let mut counts = Counts::default();
        while let Some(frame) = reader.next_frame().map_err(OpenError::Log)? {
            let header = frame.header;
            // All commits below were durable before this frame was written.
            let by_this = safe_by(info.cut, &header);
            let safe = safe_below
                .fetch_max(by_this, Ordering::Relaxed)
                .max(by_this);
            // In the order of LSNs these are all of them; epochs need not be in order.
            let due = waiting.iter().take_while(|commit| commit.place < safe);
            let due = due.count();
            let mut replayed = 0;
            if due > 0 {
                let mut due: Vec<_> = waiting.drain(..due).collect();
                due.retain(|commit| self.takes(info, commit.place, commit.stamp, &mut counts));
                replayed += due.len() as u64;
                let due = due.iter().map(|commit| (commit.stamp, &*commit.payload));
                self.tables.apply(info.generation, due)?;
            }
            let taken = frame.records().filter_map(|record| {
                let place = place(info.cut, &record);
                let LogRecord { stamp, payload, .. } = record;
                match sealed {
                    Some(cut) if place >= cut => {
                        counts.dropped += 1;
                        return None;
                    }
                    None if place >= safe => {
                        let payload = if self.is_in_image(stamp) {
                            Box::default()
                        } else {
                            payload.into()
                        };
                        waiting.push_back(Waiting {
                            place,
                            stamp,
                            payload,
                        });
                        return None;
                    }
                    _ => {}
                }
                let is_replayed = self.takes(info, place, stamp, &mut counts);
                replayed += u64::from(is_replayed);
                is_replayed.then_some((stamp, payload))
            });
            self.tables.apply(info.generation, taken)?;
            self.advance(u64::from(header.length), replayed)?;
        }
        Ok(StreamOutcome {
            worker,
            end: reader.end(),
            waiting: waiting.into(),
            counts,
        })
    }
}

/// The last LSN before the first one that is missing, when all below `safe_below` are there.
fn last_without_gap(safe_below: Lsn, found: impl Iterator<Item = Lsn>) -> Lsn {
    let mut found: Vec<Lsn> = found.filter(|lsn| *lsn >= safe_below).collect();
    found.sort_unstable();
    let mut next = safe_below;
    for lsn in found {
        if lsn != next {
            break;
        }
        next = next.next();
    }
    Lsn(next.0 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_before_the_first_missing_lsn() {
        let cut =
            |safe, found: &[u64]| last_without_gap(Lsn(safe), found.iter().copied().map(Lsn)).0;
        assert_eq!(cut(1, &[]), 0);
        assert_eq!(cut(1, &[3, 1, 2]), 3);
        assert_eq!(cut(1, &[2, 3]), 0);
        assert_eq!(cut(5, &[4, 5, 7]), 5);
        assert_eq!(cut(5, &[3, 4]), 4);
    }
}
