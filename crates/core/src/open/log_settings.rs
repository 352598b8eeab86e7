//! Defaults for settings that were not given, and the resulting configuration of the log.

use std::io;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_log::{CutRule, GenerationInfo, LogConfig, Placement, Records, Retain, SequencerKind};
use namiki_platform::disk::{DeviceProfile, Disk, is_full};

use crate::catalogue::manifest::Manifest;
use crate::commit::epoch::Epochs;
use crate::error::OpenError;
use crate::image::leftovers::ImageSurvey;
use crate::protocol_spec::{Layout, LockRelease, LogStyle, Logging, ProtocolSpec};
use crate::settings::absolute_path::absolute_path;
use crate::settings::autotune::{ProtocolChoice, TunedConfig};
use crate::settings::builder::Builder;

/// The default, unless another value is set or chosen.
const EPOCH_LENGTH: Duration = Duration::from_millis(1);

/// The smallest number of files that fit into the log of a stream, unless files already have the
/// smallest length.
const LOG_FILES_OF_STREAM_MIN: u64 = 64;

/// Lengths of log files are multiples of this.
const BLOCK_BYTES: u64 = 4096;

/// The settings of an opening, with the automatic choices made.
pub(super) struct ResolvedConfig {
    pub(super) spec: ProtocolSpec,
    pub(super) streams: NonZeroU16,
    pub(super) epoch_length: Duration,
    pub(super) tuned_config: Option<TunedConfig>,
}

impl Builder {
    /// The settings of this opening, with what the program leaves open.
    pub(super) fn resolved_config(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        left: &ImageSurvey,
    ) -> io::Result<ResolvedConfig> {
        let cores = TunedConfig::cores();
        let tuned_config = match self.tuning.protocol {
            ProtocolChoice::Fixed(_) => None,
            ProtocolChoice::Auto(isolation) => {
                let measure = || DeviceProfile::measure(disk, dir, TunedConfig::writers(cores));
                let device = match measure() {
                    // The files of an interrupted load may be what fills the disk: they have to be
                    // removed before the recovery.
                    Err(error) if is_full(&error) => {
                        left.clean_up(disk, dir);
                        measure()
                    }
                    measured => measured,
                };
                match device {
                    Ok(device) => Some(TunedConfig::of(isolation, device, cores)),
                    // Reading needs no choice, and the common defaults are right for any device.
                    Err(error) if is_full(&error) => None,
                    Err(error) => return Err(error),
                }
            }
        };
        let spec = match (self.tuning.protocol, tuned_config) {
            (ProtocolChoice::Fixed(spec), _) => spec,
            (ProtocolChoice::Auto(_), tuned_config) => {
                tuned_config.map_or(ProtocolSpec::DEFAULT, |tuned_config| tuned_config.spec)
            }
        };
        let streams = tuned_config.map_or(cores, |tuned_config| tuned_config.streams);
        let epochs = tuned_config.map_or(EPOCH_LENGTH, |tuned_config| tuned_config.epoch_length);
        Ok(ResolvedConfig {
            spec,
            streams: self.tuning.streams.unwrap_or(streams),
            epoch_length: self.tuning.epoch_length.unwrap_or(epochs),
            tuned_config,
        })
    }

    /// The length of log files: as requested, or shorter on a small disk. There, each stream's file
    /// is limited to a small part of the disk, because the space of the file that is being written
    /// cannot be freed.
    fn log_file_bytes_on(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        layout: Layout,
        streams: NonZeroU16,
    ) -> u64 {
        let asked = self.format.log_file_bytes;
        let room = disk.preallocation(dir).ok().flatten();
        let Some(space) = room.and_then(|room| room.space().ok()).flatten() else {
            return asked;
        };
        let streams = match layout {
            Layout::PerWorker => u64::from(streams.get()),
            Layout::Single => 1,
        };
        let part = space.total_bytes / LOG_FILES_OF_STREAM_MIN / streams;
        // The header's block, the longest frame of a buffer, and an epoch marker.
        let buffer = (self.tuning.buffer_bytes.max(1) as u64).next_multiple_of(BLOCK_BYTES);
        let least = buffer + 2 * BLOCK_BYTES;
        (part - part % BLOCK_BYTES).max(least).min(asked)
    }

    /// The configuration of a new generation of the log and its manifest entry; `None` without a
    /// log.
    pub(super) fn log_config(
        &self,
        resolved_config: &ResolvedConfig,
        manifest: &Manifest,
        next_lsn: namiki_platform::Lsn,
        epochs: &Arc<Epochs>,
        (disk, dir): (&dyn Disk, &Path),
    ) -> Result<Option<(LogConfig, GenerationInfo)>, OpenError> {
        let Logging::Log {
            layout,
            group,
            style,
        } = resolved_config.spec.logging
        else {
            return Ok(None);
        };
        let cut = match (resolved_config.spec.release, layout) {
            (LockRelease::Normal, Layout::PerWorker) => CutRule::Stamp,
            (LockRelease::EpochEarly, Layout::PerWorker) => CutRule::Epoch,
            _ => CutRule::Lsn,
        };
        let sequencer = match (cut, style) {
            (CutRule::Stamp | CutRule::Epoch, LogStyle::Redo) => SequencerKind::None,
            (CutRule::Lsn, _) | (_, LogStyle::Operations | LogStyle::OperationsAndReads) => {
                self.testing.sequencer
            }
        };
        let records = match style {
            LogStyle::Redo => Records::Commits,
            LogStyle::Operations | LogStyle::OperationsAndReads => Records::Operations,
        };
        let config = LogConfig {
            layout,
            streams: resolved_config.streams,
            group,
            group_wait_max: self.tuning.group_wait_max,
            async_flush_min_commits: self.tuning.async_flush_min_commits,
            sequencer,
            epochs: match cut {
                CutRule::Epoch => Some(Arc::clone(epochs) as _),
                CutRule::Stamp | CutRule::Lsn => None,
            },
            buffer_bytes: self.tuning.buffer_bytes,
            payload_bytes_max: Some(self.tuning.transaction_bytes_max),
            placement: match &self.format.shared_device {
                Some((path, region_bytes)) => Placement::Shared {
                    // The manifest must name the same file wherever it is read from.
                    path: absolute_path(path)?,
                    region_bytes: *region_bytes,
                },
                None => Placement::Files {
                    log_file_bytes: self.log_file_bytes_on(
                        disk,
                        dir,
                        layout,
                        resolved_config.streams,
                    ),
                },
            },
            retain: Retain::UntilRecycled,
            first_file_bytes: None,
            kept: Some(manifest.generations.clone()),
            prepare: self.testing.prepare,
            generation: manifest.next_generation,
            first_lsn: next_lsn,
            identity: manifest.identity(),
        };
        let info = GenerationInfo {
            records,
            restore_points: self.tuning.checkpoint.restore_points.is_some(),
            ..config.generation_info(cut)
        };
        Ok(Some((config, info)))
    }
}
