//! Contradictory settings are refused before any file is created.

use std::num::NonZeroU16;

use namiki_log::{LogConfig, LogError, Placement, SequencerKind};
use namiki_platform::Generation;

use crate::error::OpenError;
use crate::settings::absolute_path::absolute_path;
use crate::settings::autotune::ProtocolChoice;
use crate::settings::builder::Builder;
use crate::wal_format::encoding_primitives::RecordFormat;

impl Builder {
    /// Fails if the settings make no sense.
    ///
    /// # Errors
    /// [`OpenError::Settings`].
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |why: String| Err(OpenError::Settings(why));
        if let RecordFormat::Fixed(bytes) = self.format.record_format
            && bytes.get() < RecordFormat::FIXED_BYTES_MIN
        {
            return refuse(format!(
                "log records of {bytes} bytes are too short: at least {}",
                RecordFormat::FIXED_BYTES_MIN
            ));
        }
        if let ProtocolChoice::Fixed(spec) = self.tuning.protocol
            && let Some(why) = spec.contradiction()
        {
            return refuse(format!("{spec} makes no sense: {why}"));
        }
        self.tuning.indexes.check()?;
        if self.testing.sequencer == SequencerKind::None {
            return refuse(
                "a log in the order of its sequence numbers has to draw them".to_owned(),
            );
        }
        // Before anything is created. (With whichever streams and group: those are right by their types.)
        let placement = match &self.format.shared_device {
            Some((path, region_bytes)) => Placement::Shared {
                path: path.clone(),
                region_bytes: *region_bytes,
            },
            None => Placement::Files {
                log_file_bytes: self.format.log_file_bytes,
            },
        };
        let log = LogConfig {
            streams: self.tuning.streams.unwrap_or(NonZeroU16::MIN),
            buffer_bytes: self.tuning.buffer_bytes,
            placement,
            ..LogConfig::new(0, Generation(1))
        };
        match log.check() {
            Err(LogError::InvalidConfig { reason }) => refuse(reason),
            _ => Ok(()),
        }
    }

    /// Makes the paths absolute that are kept for as long as the database is open.
    ///
    /// # Errors
    /// [`OpenError::Device`].
    pub(crate) fn make_paths_absolute(&mut self) -> Result<(), OpenError> {
        if let Some((device, _)) = &mut self.format.shared_device {
            *device = absolute_path(device)?;
        }
        if let Some(follow) = &mut self.tuning.follow {
            follow.dir = absolute_path(&follow.dir)?;
        }
        Ok(())
    }
}
