//! The settings of an opening, by what a change of them costs.
//!
//! - [`Tuning`]: no cost. Each opening has its own.
//! - [`Format`]: it applies to new files, and existing ones stay as they are.
//! - [`Testing`]: for tests and experiments alone; the documentation hides their methods of
//!   [`Builder`](crate::Builder).

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki_log::{Prepare, SequencerKind};
use namiki_platform::disk::Disk;
use namiki_platform::{Stamp, threads};

use crate::backup::followed_backup::FollowSettings;
use crate::checkpoint::settings_and_reports::CheckpointSettings;
use crate::commit::engine::Waits;
use crate::protocol_spec::{ProtocolSpec, WaitPolicy};
use crate::recovery::{BeforeLoad, OnProgress, RecoverySettings, ReplayOrder};
use crate::settings::autotune::ProtocolChoice;
use crate::storage::index::{IndexKind, IndexNotInBuild};
use crate::wal_format::encoding_primitives::RecordFormat;

/// The index of each table in this opening of the database.
#[derive(Clone, Default)]
pub(crate) struct Indexes {
    /// The indexes of tables with these names.
    pub(crate) by_name: BTreeMap<String, IndexKind>,
    /// The index of all other tables.
    pub(crate) others: IndexKind,
}

impl Indexes {
    pub(crate) fn of(&self, table: &str) -> IndexKind {
        self.by_name.get(table).copied().unwrap_or(self.others)
    }

    /// Checks that all of them are in this build.
    pub(crate) fn check(&self) -> Result<(), IndexNotInBuild> {
        let mut kinds = self.by_name.values().chain([&self.others]);
        kinds.try_for_each(|kind| kind.check_in_build())
    }
}

/// The tuning of this opening.
#[derive(Clone)]
pub(crate) struct Tuning {
    pub(crate) protocol: ProtocolChoice,
    pub(crate) indexes: Indexes,
    pub(crate) streams: Option<NonZeroU16>,
    pub(crate) group_wait_max: Duration,
    pub(crate) async_flush_min_commits: Option<NonZeroU32>,
    /// Default: 1 ms, or what was chosen.
    pub(crate) epoch_length: Option<Duration>,
    pub(crate) buffer_bytes: usize,
    pub(crate) transaction_bytes_max: usize,
    pub(crate) lock_dir_wait: Duration,
    pub(crate) view_bytes_max: u64,
    pub(crate) checkpoint: CheckpointSettings,
    /// The backup that follows the database, if one is to.
    pub(crate) follow: Option<FollowSettings>,
    pub(crate) attempts_max: u32,
    pub(crate) waits: Waits,
    pub(crate) page_cache_bytes: usize,
    /// Default: half of the memory that is available.
    pub(crate) loaded_tables_bytes_max: Option<u64>,
    pub(crate) recovery: RecoveryTuning,
}

/// The recovery settings of this opening.
#[derive(Clone)]
pub(crate) struct RecoveryTuning {
    pub(crate) threads: usize,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    /// Whether the image is loaded before the opening returns.
    pub(crate) loads_image: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            protocol: ProtocolChoice::Fixed(ProtocolSpec::DEFAULT),
            indexes: Indexes::default(),
            streams: None,
            group_wait_max: Duration::from_millis(1),
            async_flush_min_commits: None,
            epoch_length: None,
            buffer_bytes: 256 << 10,
            transaction_bytes_max: 1 << 30,
            lock_dir_wait: Duration::ZERO,
            view_bytes_max: 1 << 30,
            checkpoint: CheckpointSettings::default(),
            follow: None,
            attempts_max: 10_000,
            waits: Waits {
                policy: WaitPolicy::WoundWait,
                longest: Duration::from_secs(10),
            },
            page_cache_bytes: 256 << 20,
            loaded_tables_bytes_max: None,
            recovery: RecoveryTuning {
                threads: threads::processors().get(),
                on_progress: None,
                interrupt: None,
                loads_image: false,
            },
        }
    }
}

/// The formats that this opening writes.
#[derive(Clone)]
pub(crate) struct Format {
    pub(crate) record_format: RecordFormat,
    pub(crate) log_file_bytes: u64,
    pub(crate) shared_device: Option<(PathBuf, u64)>,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            record_format: RecordFormat::Compact,
            log_file_bytes: 16 << 20,
            shared_device: None,
        }
    }
}

/// Settings that only tests and experiments change.
#[derive(Clone)]
pub(crate) struct Testing {
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) sequencer: SequencerKind,
    pub(crate) prepare: Prepare,
    pub(crate) replay_order: ReplayOrder,
    pub(crate) before_load: Option<BeforeLoad>,
}

impl Default for Testing {
    fn default() -> Self {
        Self {
            disk: None,
            sequencer: SequencerKind::FetchAdd,
            prepare: Prepare::Background,
            replay_order: ReplayOrder::HighestStamp,
            before_load: None,
        }
    }
}

impl Tuning {
    /// The settings of the recovery.
    pub(crate) fn recovery_settings(&self, testing: &Testing) -> RecoverySettings {
        let RecoveryTuning {
            threads,
            on_progress,
            interrupt,
            loads_image,
        } = self.recovery.clone();
        RecoverySettings {
            image_stamp: Stamp(0),
            threads,
            order: testing.replay_order,
            before_load: testing.before_load.clone(),
            on_progress,
            interrupt,
            loads_image,
            hardens: true,
        }
    }
}
