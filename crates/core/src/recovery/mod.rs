//! Recovery: reading the logs back into the tables, and loading the image.
//!
//! The image has the rows of all tables as of one stamp; the logs have only later changes. So the
//! logs are replayed first, without the image, down to the last version of each key
//! (`log_winners.rs`), and the image is loaded under these, at once or in the background
//! (`image_loader.rs`).
//!
//! Every generation of the log determines which of its commits count (its [`CutRule`]): under
//! normal lock release all that are whole; under early release, and in a single log, those below
//! the first log sequence number that is missing, because a later one may depend on it; under
//! release by epochs those of the epochs that were durable everywhere, and independent ones. A
//! generation that recovery has read is **sealed** in the manifest before anything new is written,
//! so what was cut off can never come back, and the stamps of the next generation begin above every
//! stamp in it, cut off or not.
//!
//! Two ways to replay, which give the same tables:
//! - [`ReplayOrder::Merge`] is the papers': streams are merged into one order, that of stamps or
//!   that of log sequence numbers, and each change overwrites the previous version.
//! - [`ReplayOrder::HighestStamp`] needs no order: stamps rise with every version of a key, so the version with
//!   the highest stamp wins, in any order. Streams are replayed in parallel, and nothing is sorted.
//!
//! Where operations are logged one by one, neither applies: they are replayed by `aries.rs`, or
//! over an image by `winners.rs`.
//!
//! Where there is an image, commits with stamps at or below its own are skipped, and files and
//! generations that had no others are removed: streams begin at the manifest's positions.
//!
//! Deleted keys stay as absent records until all is replayed, or a late insert would resurrect
//! them. The tables' trees are bulk-built at the end: with an image, once its rows are read.
//!
//! Paper: tictoc-pwal §3.4, pwal §4.3, §5.6

mod load_image;
mod progress;
mod replay;
mod run_on_threads;
mod settings_and_report;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_log::{
    GenerationEnd, GenerationInfo, Placement, Records, check_all_announced, harden_tail,
};
use namiki_platform::disk::Disk;
use namiki_platform::{Generation, Lsn, WorkerId};

pub(crate) use self::load_image::image_loader::{ImageLoader, ImageToLoad};
pub(crate) use self::load_image::unloaded_table::{ImageFiles, UnloadedTable};
use self::progress::{Progress, Totals};
use self::replay::apply::Tables;
use self::replay::replay_context::{Outcome, Replay};
pub(crate) use self::settings_and_report::{BeforeLoad, RecoverySettings};
pub use self::settings_and_report::{
    LoadingProgress, OnProgress, RecoveryProgress, RecoveryReport, ReplayOrder,
};
use crate::catalogue::manifest::Manifest;
use crate::catalogue::opened_backup::announces_all;
use crate::error::OpenError;
use crate::protocol_spec::ConcurrencyControl;
use crate::table::raw_table::{RawTable, TableId};

/// The result of recovery: the report, and the seals of generations that had none.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) seals: Vec<(Generation, GenerationEnd)>,
    pub(crate) next_lsn: Lsn,
    /// Loads the tables of the image. It has to be started, unless all tables are loaded.
    pub(crate) loader: Arc<ImageLoader>,
}

impl Replay<'_, '_> {
    /// Replays one generation of the log. The end of one that is not sealed is hardened if the settings say so.
    fn generation(
        &self,
        generation: &GenerationInfo,
        settings: &RecoverySettings,
    ) -> Result<Outcome, OpenError> {
        let outcome = match (generation.records, settings.order) {
            (Records::Operations, _) => self.operations(generation)?,
            (Records::Commits, ReplayOrder::HighestStamp) => self.in_no_order(generation)?,
            (Records::Commits, ReplayOrder::Merge) => self.in_order(generation)?,
        };
        if generation.seal.is_none() && settings.hardens {
            // Frames that are readable after the crash need not be durable; those that a seal
            // counts have to be.
            for (worker, end) in (0..).map(WorkerId).zip(&outcome.ends) {
                harden_tail(self.disk, self.wal_dir, generation, worker, end)
                    .map_err(OpenError::Log)?;
            }
        }
        Ok(outcome)
    }
}

/// Replays all generations of the manifest of a directory, over the image if there is one.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    manifest: &Manifest,
    image: Option<ImageToLoad<'_>>,
    raw_tables: &BTreeMap<TableId, Arc<RawTable>>,
    concurrency: ConcurrencyControl,
    settings: &RecoverySettings,
) -> Result<Recovered, OpenError> {
    let began = Instant::now();
    let wal_dir = &dir.join("wal");
    if announces_all(&**disk, dir, manifest)? {
        check_all_announced(
            &**disk,
            wal_dir,
            manifest.identity(),
            &manifest.generations,
            manifest.next_generation,
        )
        .map_err(OpenError::Log)?;
    }
    let totals = Totals {
        log: log_file_bytes(&**disk, wal_dir, manifest),
        image: match image {
            Some(image) if settings.loads_image => image.len_bytes(manifest),
            _ => 0,
        },
    };
    let progress = Progress::new(settings, totals, began);
    let tables = Tables::new(raw_tables, manifest.next_table(), concurrency);
    let image_stamp = image.map_or(settings.image_stamp, |image| image.list.stamp);
    let replay = Replay {
        disk,
        wal_dir,
        identity: manifest.identity(),
        tables: &tables,
        image_stamp,
        threads: settings.threads,
        progress: &progress,
    };
    let mut report = RecoveryReport {
        generations: manifest.generations.len() as u32,
        closed: manifest.closed,
        // New stamps begin above those of commits that only the image has.
        max_stamp: image_stamp,
        ..RecoveryReport::default()
    };
    let mut seals = Vec::new();
    let mut next_lsn = Lsn(1);
    for generation in &manifest.generations {
        let outcome = replay.generation(generation, settings)?;
        report.dropped += outcome.dropped;
        report.in_image += outcome.in_image;
        report.undone += outcome.undone;
        report.torn += outcome.torn;
        report.max_stamp = report.max_stamp.max(outcome.seal.max_stamp);
        next_lsn = next_lsn
            .max(generation.first_lsn)
            .max(outcome.largest_lsn.next());
        if generation.seal.is_none() {
            seals.push((generation.generation, outcome.seal));
        }
    }
    let threads = match settings.order {
        ReplayOrder::HighestStamp => settings.threads,
        ReplayOrder::Merge => 1,
    };
    let watch = || progress.advance(0, 0);
    let loader = match image {
        None => {
            tables.finish(threads, watch)?;
            ImageLoader::none(concurrency)
        }
        Some(image) => {
            let winners = tables.into_winners(threads, watch)?;
            let options = (concurrency, settings.before_load.clone());
            ImageLoader::new(disk, image, manifest, raw_tables, winners, options)
        }
    };
    loader.check_files()?;
    if settings.loads_image {
        loader.load_now(settings.threads, &|bytes, rows| {
            progress.advance_image(bytes, rows)
        })?;
    }
    let (done, image) = (progress.now(), loader.progress());
    (report.bytes, report.replayed) = (done.bytes, done.replayed);
    (report.image_bytes, report.image_rows) = (image.bytes_total, image.rows_total);
    report.seconds = began.elapsed().as_secs_f64();
    Ok(Recovered {
        report,
        seals,
        next_lsn,
        loader,
    })
}

/// The bytes of the files and regions in which the logs of this manifest are.
pub(crate) fn log_file_bytes(disk: &dyn Disk, wal_dir: &Path, manifest: &Manifest) -> u64 {
    // Generations use the same directories or regions again.
    let (mut directories, mut regions) = (0, BTreeMap::new());
    for info in &manifest.generations {
        match &info.placement {
            Placement::Files { .. } => directories = info.streams.max(directories),
            Placement::Shared { path, region_bytes } => {
                let bytes = region_bytes.saturating_mul(info.streams.into());
                let most = regions.entry(path).or_default();
                *most = bytes.max(*most);
            }
        }
    }
    let files = (0..directories)
        .filter_map(|worker| disk.list(&wal_dir.join(format!("{worker:04}"))).ok())
        .flatten()
        .map(|file| file.len_bytes);
    files.chain(regions.into_values()).sum()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use namiki_log::{CutRule, LogConfig};
    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::protocol_spec::ProtocolSpec;

    #[test]
    fn files_and_the_regions_of_a_device_are_counted_once() {
        let disk = SimDisk::new();
        let wal_dir = Path::new("/wal");
        for (file, len_bytes) in [("0000/a", 1024), ("0001/a", 512), ("0001/b", 512)] {
            let path = wal_dir.join(file);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create(&path, len_bytes).unwrap();
        }
        let mut manifest = Manifest::new(1, ProtocolSpec::DEFAULT);
        let mut announce = |streams, placement| {
            let config = LogConfig {
                streams: NonZeroU16::new(streams).unwrap(),
                placement,
                ..LogConfig::new(1, Generation(1))
            };
            let info = config.generation_info(CutRule::Stamp);
            manifest.generations.push(info);
            log_file_bytes(&disk, wal_dir, &manifest)
        };
        let files = Placement::Files {
            log_file_bytes: 512,
        };
        assert_eq!(announce(1, files.clone()), 1024);
        assert_eq!(announce(2, files), 2048);
        let device = Placement::Shared {
            path: "/device".into(),
            region_bytes: 100,
        };
        assert_eq!(announce(3, device.clone()), 2348);
        assert_eq!(announce(2, device), 2348);
    }
}
