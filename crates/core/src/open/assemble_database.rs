//! The last step of an opening, for writing or reading: assembles the database from the recovered
//! parts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::{Duration, Instant};

use namiki_log::Log;
use namiki_platform::Stamp;
use namiki_platform::disk::{DirLock, Disk};
use parking_lot::Mutex;

use crate::api::database::{Database, Shared};
use crate::catalogue::catalogue_files::CatalogueFiles;
use crate::catalogue::image_list::LOADED;
use crate::catalogue::manifest::Manifest;
use crate::catalogue::table_ids_by_name::TableIds;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::commit::engine::{Engine, GroupLocks, Settings};
use crate::commit::epoch::Epochs;
use crate::error::OpenError;
use crate::image::write::image_writer::PresentImage;
use crate::live::catalogue::{Catalogue, Loading};
use crate::live::catalogue_view::CatalogueViews;
use crate::live::opened_tables::OpenedTables;
use crate::live::parts::Parts;
use crate::live::tables_in_segments::TablesInSegments;
use crate::protocol_spec::ProtocolSpec;
use crate::recovery::{ImageLoader, RecoveryReport};
use crate::settings::autotune::TunedConfig;
use crate::settings::builder::Builder;
use crate::table::raw_table::{Owner, RawTable, TableId};

/// A directory that was opened, read-only or for writing, and recovered.
pub(crate) struct Opened {
    pub(crate) spec: ProtocolSpec,
    pub(crate) read_only: bool,
    pub(crate) tuned_config: Option<TunedConfig>,
    pub(crate) owner: Owner,
    pub(crate) raw_tables: BTreeMap<TableId, Arc<RawTable>>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<Arc<Log<GroupLocks>>>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) lock: DirLock,
    pub(crate) recovery: RecoveryReport,
    pub(crate) manifest: Manifest,
    pub(crate) files: CatalogueFiles,
    /// The image of the tables in memory.
    pub(crate) image: Option<PresentImage>,
    /// The loader of the image.
    pub(crate) loader: Arc<ImageLoader>,
}

/// Epochs with stamps above all that were recovered, and above that of rows that were loaded or will be.
pub(crate) fn epochs_after(recovered: &RecoveryReport, length_min: Duration) -> Arc<Epochs> {
    let floor = Stamp(recovered.max_stamp.max(LOADED).0 + 1).min(Stamp::MAX);
    Arc::new(Epochs::new(floor, length_min))
}

impl Builder {
    /// Empty tables for the manifest's tables in memory.
    pub(crate) fn raw_tables(
        &self,
        manifest: &Manifest,
        owner: Owner,
    ) -> Result<BTreeMap<TableId, Arc<RawTable>>, OpenError> {
        let mut raw_tables = BTreeMap::new();
        for info in &manifest.tables {
            let index = self.tuning.indexes.of(&info.name);
            let raw_table = RawTable::new(info.clone(), index, owner)?;
            raw_tables.insert(info.id, Arc::new(raw_table));
        }
        Ok(raw_tables)
    }

    /// Assembles the database.
    pub(crate) fn database(self, opened: Opened) -> Database {
        let settings = Settings {
            spec: opened.spec,
            format: self.format.record_format,
            attempts_max: self.tuning.attempts_max,
            waits: self.tuning.waits,
            read_only: opened.read_only,
            replica_through: self.is_replica.then(|| {
                let image = opened.image.as_ref();
                image.map_or(Stamp(0), |image| image.list.stamp)
            }),
            view_bytes_max: self.tuning.view_bytes_max,
        };
        let Opened {
            owner,
            epochs,
            log,
            raw_tables,
            manifest,
            ..
        } = opened;
        let engine = Engine::new(settings, owner, epochs, log, raw_tables);
        let engine = Arc::new(engine);
        let catalogue = Arc::new(Mutex::new(Catalogue {
            ids: TableIds::of(&manifest.tables),
            manifest,
            files: opened.files,
            closed: None,
            loading: Loading::default(),
            last_point: opened.recovery.max_stamp,
            views: CatalogueViews::default(),
        }));
        let parts = Parts {
            engine: Arc::clone(&engine),
            disk: Arc::clone(&opened.disk),
            dir: opened.dir.clone(),
            catalogue: Arc::clone(&catalogue),
            loader: Arc::clone(&opened.loader),
        };
        opened.loader.start(self.tuning.recovery.threads);
        let log_bytes = opened.recovery.bytes;
        let (settings, follow) = (self.tuning.checkpoint, self.tuning.follow);
        let in_segments = TablesInSegments::new(
            self.tuning.loaded_tables_bytes_max,
            &catalogue.lock().manifest,
            opened.image.as_ref().map(|image| &image.list),
        );
        let mut image = opened.image;
        let checkpointer = engine.log.as_ref().map(|log| {
            let log = Arc::clone(log);
            Checkpointer::start(parts, log, settings, follow, image.take(), log_bytes)
        });
        Database::from_shared(Shared {
            engine,
            checkpointer,
            replica_image: Mutex::new(image),
            disk: opened.disk,
            dir: opened.dir,
            indexes: self.tuning.indexes,
            tuned_config: opened.tuned_config,
            recovery: opened.recovery,
            catalogue,
            loader: opened.loader,
            closing: Mutex::default(),
            dir_lock: Mutex::new(Some(opened.lock)),
            pools: Default::default(),
            next_worker: AtomicU16::new(0),
            opened_at: Instant::now(),
            opened: OpenedTables::new(self.tuning.page_cache_bytes),
            in_segments,
            loading_threads: self.tuning.recovery.threads,
        })
    }
}
