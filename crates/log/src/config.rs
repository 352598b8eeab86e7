//! The configuration with which a log is created.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::{Generation, Lsn, threads};
use serde::{Deserialize, Serialize};

use crate::error::LogError;
use crate::format;
use crate::format::frame::{ENTRY_OVERHEAD_BYTES, FRAME_BYTES_MAX};
use crate::frame_position::FramePosition;
use crate::generation::layout_config::{Layout, Placement, Retain};
use crate::generation::{CutRule, GenerationInfo, Records};
use crate::horizon::epoch_source::EpochSource;
use crate::horizon::sequencer::SequencerKind;
use crate::log_target::STRETCHES;

/// Resources that a group of commits holds until it is hardened: under normal lock release, record
/// locks.
pub trait GroupResource: Default + Send + 'static {
    /// Is told where the group's frame is. Called as [`GroupResource::release`] is, and before it.
    fn written(&mut self, position: FramePosition) {
        let _ = position;
    }
    /// Releases everything. Called by the flush leader, after the frame is durable and before any
    /// waiter is woken; it must neither append to the log nor wait for it.
    fn release(&mut self);
    /// Whether there is nothing to release.
    fn is_empty(&self) -> bool;
}

impl GroupResource for () {
    fn release(&mut self) {}
    fn is_empty(&self) -> bool {
        true
    }
}

/// The number of commits that share a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// A fixed number; 1 is what the papers call NoGroup.
    Count(NonZeroU32),
    /// The commits that arrive during the flush before.
    Auto,
}

/// When, and on which thread, the next log file is made ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prepare {
    /// A thread, as soon as half of the current log file is used and no other is ready.
    #[default]
    Background,
    /// The commit that needs it. For simulated disks, where threads would spoil the replay.
    Inline,
}

/// See [`LogConfig::async_flush_min_commits`].
const ASYNC_FLUSH_MIN_COMMITS: NonZeroU32 = NonZeroU32::new(32).unwrap();

/// Everything [`crate::Log::create`] needs to know.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// One stream per worker or one in all.
    pub layout: Layout,
    /// Number of streams under [`Layout::PerWorker`].
    pub streams: NonZeroU16,
    /// Commits per flush.
    pub group: Group,
    /// Longest a commit waits for its group. `Duration::MAX`: no limit and no flusher thread; a
    /// waiter for a commit then flushes immediately.
    pub group_wait_max: Duration,
    /// From how many commits on the flush of a full group is left to the disk, where the disk can
    /// write on its own, and its worker continues: see `Stream::begin_flush`. Nothing: from 32 on,
    /// where there are at most two streams for each processor. A write that is left alone costs
    /// more processor time than one that is waited for, which the few commits of a smaller group do
    /// not make up for; and where there are many workers, one that waits leaves its processor to
    /// others.
    pub async_flush_min_commits: Option<NonZeroU32>,
    /// The source of LSNs.
    pub sequencer: SequencerKind,
    /// The source of epochs, if commits are acknowledged by them ([`CutRule::Epoch`]); no LSNs are
    /// drawn then.
    pub epochs: Option<Arc<dyn EpochSource>>,
    /// Length of a buffer (a stream has two), and so of the longest frame with several entries;
    /// rounded up to 4 KiB.
    pub buffer_bytes: usize,
    /// The longest payload of one entry. What does not fit into a buffer gets a frame of its own
    /// ([`Stream::prepare_oversize`](crate::Stream::prepare_oversize)). Nothing: as much as fits
    /// into a buffer.
    pub payload_bytes_max: Option<usize>,
    /// The placement of frames.
    pub placement: Placement,
    /// Length of a stream's first log file. Each one is twice as long as the one before, up to the
    /// length in `placement`, if that one was filled by half; half as long if it was not filled by
    /// a quarter. So a stream with few records takes little of the disk. `None`: all log files have
    /// the length in `placement`.
    pub first_file_bytes: Option<u64>,
    /// The retention of hardened log files, or of hardened frames in a region.
    pub retain: Retain,
    /// The other generations that the manifest will name: their frames in a shared device are not
    /// overwritten before [`Log::recycle`](crate::Log::recycle) gives them up. `None` if they are
    /// unknown: then all frames there are kept.
    pub kept: Option<Vec<GenerationInfo>>,
    /// When, and on which thread, log files are made ready.
    pub prepare: Prepare,
    /// The life of the log: higher than every earlier one.
    pub generation: Generation,
    /// The first LSN to draw: above every one before.
    pub first_lsn: Lsn,
    /// The database. It is in every file's header and in every frame's checksum.
    pub identity: u128,
}

impl LogConfig {
    /// A P-WAL with the defaults of the papers: groups of 16 flushed after a millisecond at the
    /// latest, buffers of 256 KiB, log files of 64 MiB.
    #[must_use]
    pub fn new(identity: u128, generation: Generation) -> Self {
        Self {
            layout: Layout::PerWorker,
            streams: NonZeroU16::MIN,
            group: Group::Count(NonZeroU32::MIN.saturating_add(15)),
            group_wait_max: Duration::from_millis(1),
            async_flush_min_commits: None,
            sequencer: SequencerKind::None,
            epochs: None,
            buffer_bytes: 256 << 10,
            payload_bytes_max: None,
            placement: Placement::Files {
                log_file_bytes: 64 << 20,
            },
            first_file_bytes: None,
            retain: Retain::All,
            kept: None,
            prepare: Prepare::Background,
            generation,
            first_lsn: Lsn(1),
            identity,
        }
    }

    /// Number of streams that the log will have.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        match self.layout {
            Layout::PerWorker => usize::from(self.streams.get()),
            Layout::Single => 1,
        }
    }

    /// The facts that a reader needs about the generation this configuration writes.
    #[must_use]
    pub fn generation_info(&self, cut: CutRule) -> GenerationInfo {
        GenerationInfo {
            generation: self.generation,
            layout: self.layout,
            streams: self.stream_count() as u16,
            placement: self.placement.clone(),
            first_file_bytes: self.first_file_bytes,
            retain: self.retain,
            starts: Vec::new(),
            complete_from: Lsn(0),
            cut,
            records: Records::default(),
            restore_points: false,
            first_lsn: self.first_lsn,
            seal: None,
            last_stamp: None,
        }
    }

    /// `async_flush_min_commits` with the default resolved; `None` if no group is ever submitted.
    pub(crate) fn async_flush_threshold(&self) -> Option<NonZeroU32> {
        match (self.layout, self.async_flush_min_commits) {
            (Layout::Single, _) => None,
            (Layout::PerWorker, Some(size)) => Some(size),
            (Layout::PerWorker, None) => {
                let streams_max = 2 * threads::processors().get();
                (self.stream_count() <= streams_max).then_some(ASYNC_FLUSH_MIN_COMMITS)
            }
        }
    }

    /// The room that a stream keeps behind the frame it fills for one without records, which may be
    /// needed to certify that frame's epoch. In a ring, for more of them: a checkpoint needs one to
    /// free room, and so does each view until then.
    pub(crate) fn marker_room(&self) -> usize {
        let room = match (&self.epochs, self.recycled_ring_bytes()) {
            (None, _) => 0,
            (Some(_), None) => format::BLOCK_BYTES_MAX as u64,
            (Some(_), Some(bytes)) => (bytes / 32).clamp(format::BLOCK_BYTES_MAX as u64, 32 << 20),
        };
        room as usize
    }

    /// The length of a region's ring, if it is one: laid out in the largest blocks.
    fn recycled_ring_bytes(&self) -> Option<u64> {
        match (&self.placement, self.retain) {
            (Placement::Shared { region_bytes, .. }, Retain::UntilRecycled) => {
                Some(region_bytes.saturating_sub(2 * format::BLOCK_BYTES_MAX as u64))
            }
            _ => None,
        }
    }

    /// The longest frame that has room together with the last one, however long that is, once all
    /// else is recycled: with less, a stream of long transactions would stop. At least a buffer.
    fn ring_frame_bytes_max(&self, ring_bytes: u64) -> u64 {
        let others = ring_bytes / STRETCHES + (self.marker_room() + format::BLOCK_BYTES_MAX) as u64;
        let half = ring_bytes.saturating_sub(others) / 2;
        half.max(self.buffer_len() as u64)
    }

    /// The longest payload that shares a buffer with others.
    pub(crate) fn buffered_bytes_max(&self) -> usize {
        self.buffer_len() - ENTRY_OVERHEAD_BYTES
    }

    /// The longest payload of all: no longer than was asked for, than a frame can be, and than a
    /// region, or nearly half of it where it is a ring.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        let fits_buffer = self.buffered_bytes_max();
        let asked = self.payload_bytes_max.unwrap_or(fits_buffer);
        let longest = match self.placement {
            Placement::Files { .. } => FRAME_BYTES_MAX,
            Placement::Shared { region_bytes, .. } => {
                let room = region_bytes - 2 * format::BLOCK_BYTES_MAX as u64;
                let all = room - self.marker_room() as u64;
                let ring = self.recycled_ring_bytes();
                let frame = ring.map_or(all, |ring| self.ring_frame_bytes_max(ring).min(all));
                usize::try_from(frame).map_or(FRAME_BYTES_MAX, |frame| frame.min(FRAME_BYTES_MAX))
            }
        };
        asked.min(longest - ENTRY_OVERHEAD_BYTES)
    }

    /// The longest frame, padding included, in a log file of the usual length or when a region is
    /// laid out. A longer one has a log file made for it, or a head that announces it.
    pub(crate) fn frame_bytes_max(&self) -> u32 {
        let longest = match self.placement {
            Placement::Files { log_file_bytes } => {
                let payload = self.payload_bytes_max().max(self.buffered_bytes_max());
                let frame = payload + ENTRY_OVERHEAD_BYTES;
                let room = log_file_bytes - (format::BLOCK_BYTES_MAX + self.marker_room()) as u64;
                room.min(frame.next_multiple_of(format::BLOCK_BYTES_MAX) as u64)
            }
            Placement::Shared { .. } => self.buffer_len() as u64,
        };
        // No frame is longer than 1 GiB.
        longest as u32
    }

    /// Buffer length in use.
    pub(crate) fn buffer_len(&self) -> usize {
        self.buffer_bytes
            .max(1)
            .next_multiple_of(format::BLOCK_BYTES_MAX)
    }

    /// The first check of [`crate::Log::create`], to be called before anything is written.
    ///
    /// # Errors
    /// [`LogError::InvalidConfig`], which names the setting.
    pub fn check(&self) -> Result<(), LogError> {
        let invalid = |reason: String| Err(LogError::InvalidConfig { reason });
        let block = format::BLOCK_BYTES_MAX as u64;
        if self.buffer_bytes > FRAME_BYTES_MAX {
            return invalid(format!(
                "buffer_bytes is {}, and more than 1 GiB is no use",
                self.buffer_bytes
            ));
        }
        let buffer = self.buffer_len() as u64;
        let (name, bytes, headers) = match self.placement {
            Placement::Files { log_file_bytes } => ("log_file_bytes", log_file_bytes, block),
            Placement::Shared { region_bytes, .. } => ("region_bytes", region_bytes, 2 * block),
        };
        if bytes % block != 0 {
            return invalid(format!("{name} is {bytes}, not a multiple of {block}"));
        }
        let marker = self.marker_room() as u64;
        if bytes < buffer + headers + marker {
            return invalid(format!(
                "{name} is {bytes}, too small for a frame of buffer_bytes ({buffer}) and {} bytes of \
                 headers",
                headers + marker
            ));
        }
        if let Some(first) = self.first_file_bytes {
            let Placement::Files { log_file_bytes } = self.placement else {
                return invalid("first_file_bytes is set, and there are no log files".to_owned());
            };
            if first % block != 0 || first > log_file_bytes {
                return invalid(format!(
                    "first_file_bytes is {first}, not a multiple of {block} up to log_file_bytes \
                     ({log_file_bytes})"
                ));
            }
            if first < buffer + headers + marker {
                return invalid(format!(
                    "first_file_bytes is {first}, too small for a frame of buffer_bytes ({buffer}) \
                     and {} bytes of headers",
                    headers + marker
                ));
            }
            if let Retain::Last(_) = self.retain {
                return invalid(
                    "first_file_bytes is set, and log files that are written again and again have \
                     one length"
                        .to_owned(),
                );
            }
            if self.payload_bytes_max() > self.buffered_bytes_max() {
                return invalid(
                    "first_file_bytes is set, and payload_bytes_max is more than a log buffer holds"
                        .to_owned(),
                );
            }
        }
        if let Retain::Last(_) = self.retain
            && let Placement::Files { log_file_bytes } = self.placement
            && self.payload_bytes_max() as u64
                > log_file_bytes - block - marker - ENTRY_OVERHEAD_BYTES as u64
        {
            return invalid(format!(
                "payload_bytes_max is {}, and log_files of {log_file_bytes} bytes that are written \
                 again and again cannot hold so much",
                self.payload_bytes_max()
            ));
        }
        if let Placement::Shared { region_bytes, .. } = self.placement
            && region_bytes
                .checked_mul(self.stream_count() as u64)
                .is_none()
        {
            return invalid(format!(
                "region_bytes is {region_bytes}, and {} such regions are longer than any device",
                self.stream_count()
            ));
        }
        if self.epochs.is_some() && self.sequencer.draws() {
            return invalid("sequencer draws numbers, and epochs need none".to_owned());
        }
        if self.first_lsn == Lsn(0) {
            return invalid("first_lsn is 0, which means that none was drawn".to_owned());
        }
        Ok(())
    }
}
