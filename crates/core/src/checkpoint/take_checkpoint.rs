//! Taking a checkpoint: from its view to the truncation of the log.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use namiki_log::{Log, RecyclePoint, RegionUse, remove_generations};
use parking_lot::{Mutex, MutexGuard};

use super::announce_image::{announce_image, not_written};
use super::checkpoint_room::CheckpointRoom;
use super::rows_of_view::TableRows;
use super::settings_and_reports::{CheckpointReport, CheckpointSettings, CheckpointStats};
use crate::backup::followed_backup::{BeforeRecycling, FollowSettings, FollowedBackup};
use crate::backup::live_backup::BackupUnderWay;
use crate::catalogue::image_list::{ImageList, ListedRun};
use crate::checkpoint::horizon_stats::HorizonSamples;
use crate::commit::engine::GroupLocks;
use crate::commit::removed_keys::Taken;
use crate::commit::restore_points::mark_restore_point;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;
use crate::events;
use crate::image::write::image_writer::{
    ImageBefore, ImageMoment, ImageOptions, ImageProgress, ImageTarget, PresentImage, write_image,
};
use crate::image::write::new_image::NewImage;
use crate::image::write::run_writer::held_back_bytes;
use crate::live::parts::Parts;

/// A checkpoint is due if the log has this many generations of earlier openings.
const GENERATIONS_MAX: usize = 8;
/// On a nearly full disk, a checkpoint is due after this part of the usual amount of log.
const SHORT_PART: u64 = 16;
/// The longest wait of a commit because the log has no room.
const SLOWED_MS_MAX: u32 = 128;

/// The state that the thread shares with the database. It keeps the tables in memory, but does not
/// keep the database open.
pub(super) struct Work {
    pub(super) parts: Parts,
    pub(super) log: Arc<Log<GroupLocks>>,
    pub(super) settings: CheckpointSettings,
    /// The backup that follows the database, if one does.
    pub(super) followed: Option<FollowedBackup>,
    /// The present image. The running checkpoint or backup holds its lock.
    pub(super) image: Mutex<Option<PresentImage>>,
    /// The backup that has the image locked, if one does.
    pub(super) backup_under_way: Mutex<Option<BackupUnderWay>>,
    /// Room is being made for commits that were refused.
    pub(super) makes_room: AtomicBool,
    /// The database is being closed: a running checkpoint ends.
    pub(super) is_closing: AtomicBool,
    /// Bytes of log that were there when the database was opened and are not in the image.
    log_bytes_before: AtomicU64,
    /// Generations of the log that were there when the database was opened and are not in the image.
    pub(super) generations_before: AtomicUsize,
    /// Bytes of frames that were written when the last checkpoint began.
    frame_bytes_then: AtomicU64,
    /// Bytes of the fullest region of a shared device that the last checkpoint has not freed.
    region_bytes_then: AtomicU64,
    /// Bytes of keys and values in the image, and of its files.
    image_bytes: AtomicU64,
    pub(super) image_file_bytes: AtomicU64,
    /// For the next checkpoint.
    pub(super) room: Arc<CheckpointRoom>,
    /// How long commits wait because the log finds no room.
    slowed_ms: AtomicU32,
    told: Mutex<Told>,
    pub(super) watch: Mutex<HorizonSamples>,
    /// Whether the last checkpoint was taken, or tried.
    pub(super) is_closed: Mutex<bool>,
}

/// Room is lent to a checkpoint until this is dropped.
struct RoomLent<'w>(&'w Work);

impl Drop for RoomLent<'_> {
    fn drop(&mut self) {
        // After success, the space of the previous image is free, and is reserved for the next one.
        // After a failure, the space that was written for this image is free again.
        self.0.reserve_room();
    }
}

#[derive(Default)]
struct Told {
    stats: CheckpointStats,
    last: Option<Instant>,
    /// When the running checkpoint began.
    began: Option<Instant>,
}

impl Work {
    pub(super) fn new(
        parts: Parts,
        log: Arc<Log<GroupLocks>>,
        settings: CheckpointSettings,
        follow: Option<FollowSettings>,
        image: Option<PresentImage>,
        log_bytes: u64,
    ) -> Self {
        // The last one is this opening's.
        let generations = parts.catalogue.lock().manifest.generations.len();
        let generations_before = generations.saturating_sub(1);
        let room = Arc::new(CheckpointRoom::new(
            &*parts.disk,
            &parts.dir,
            settings.log_bytes < u64::MAX,
            held_back_bytes(settings.run_bytes),
        ));
        let work = Self {
            room,
            slowed_ms: AtomicU32::new(0),
            parts,
            log,
            settings,
            followed: follow.map(FollowedBackup::new),
            image_bytes: AtomicU64::new(image.as_ref().map_or(0, |it| it.list.row_bytes())),
            image_file_bytes: AtomicU64::new(image.as_ref().map_or(0, |it| it.list.file_bytes())),
            image: Mutex::new(image),
            backup_under_way: Mutex::default(),
            makes_room: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            log_bytes_before: AtomicU64::new(log_bytes),
            generations_before: AtomicUsize::new(generations_before),
            frame_bytes_then: AtomicU64::new(0),
            region_bytes_then: AtomicU64::new(0),
            told: Mutex::default(),
            watch: Mutex::default(),
            is_closed: Mutex::default(),
        };
        if work.takes_checkpoints() {
            work.reserve_room();
            work.log.keep_room(Arc::clone(&work.room) as _);
        }
        work
    }

    /// Whether checkpoints are taken automatically.
    pub(super) fn takes_checkpoints(&self) -> bool {
        self.settings.log_bytes < u64::MAX
    }

    /// Waits for the running checkpoint or backup. Once the database is being closed, only the last
    /// checkpoint begins.
    pub(super) fn wait(&self) {
        drop(self.image.lock());
    }

    /// Writes a restore point to the log if it has grown since it had `frame_bytes` bytes of
    /// frames. Returns how many it has now.
    pub(super) fn mark_restore_point(&self, frame_bytes: u64) -> Result<u64, Error> {
        if self.log.counters().frame_bytes == frame_bytes {
            return Ok(frame_bytes);
        }
        // As long as it is locked, no table is dropped.
        let mut catalogue = self.parts.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        if let Some(point) = mark_restore_point(&self.parts.engine, &self.log)? {
            catalogue.last_point = point.stamp;
        }
        Ok(self.log.counters().frame_bytes)
    }

    /// Runs `body` while no checkpoint does. The list that it returns is that of the image from then on.
    pub(super) fn replace_image<E>(
        &self,
        body: impl FnOnce(Option<&ImageList>) -> Result<ImageList, E>,
    ) -> Result<(), E> {
        let mut image = self.image.lock();
        let list = body(image.as_ref().map(|image| &image.list))?;
        self.image_bytes.store(list.row_bytes(), Ordering::Relaxed);
        self.image_file_bytes
            .store(list.file_bytes(), Ordering::Relaxed);
        let shrunk_files = image.take().map(|image| image.shrunk_files);
        *image = Some(PresentImage {
            list,
            shrunk_files: shrunk_files.unwrap_or_default(),
        });
        self.reserve_room();
        Ok(())
    }

    /// Samples the horizons, and reserves the disk space that the next checkpoint will need. While
    /// the regions of a shared device are nearly full, it throttles commits, with a growing delay.
    pub(super) fn look(&self) {
        self.watch.lock().look(&self.parts.engine);
        self.adjust_room();
        self.lift_restrictions();
        let slowed_ms = if self.has_regions() && self.log.is_short_of_room() {
            (2 * self.slowed_ms.load(Ordering::Relaxed)).clamp(1, SLOWED_MS_MAX)
        } else {
            0
        };
        self.slowed_ms.store(slowed_ms, Ordering::Relaxed);
        self.parts.engine.slow_down(slowed_ms);
    }

    /// Bytes of log since the last checkpoint.
    pub(super) fn log_bytes_since(&self) -> u64 {
        let written = self.log.counters().frame_bytes;
        let since = written - self.frame_bytes_then.load(Ordering::Relaxed).min(written);
        since + self.log_bytes_before.load(Ordering::Relaxed)
    }

    /// Whether at least `log_bytes` bytes of log were written since the last checkpoint; or whether
    /// the log has so large a number of generations that the next opening would have to read many
    /// files, however little is in them.
    pub(super) fn is_due_from(&self, log_bytes: u64) -> bool {
        let generations = self.generations_before.load(Ordering::Relaxed);
        let are_many = generations >= GENERATIONS_MAX && log_bytes < u64::MAX;
        self.log_bytes_since() >= log_bytes || are_many
    }

    /// How many bytes of log make a checkpoint due while the database is open.
    fn log_bytes_max(&self) -> u64 {
        let half = self.image_bytes.load(Ordering::Relaxed) / 2;
        self.settings.log_bytes.max(half)
    }

    /// Whether a checkpoint is due while the database is open: sooner if the disk is nearly full.
    pub(super) fn is_due(&self) -> bool {
        let log_bytes = self.log_bytes_max();
        let is_short = self.room.is_short() || self.slowed_ms.load(Ordering::Relaxed) > 0;
        let is_due = if is_short && log_bytes < u64::MAX {
            self.is_due_from(log_bytes / SHORT_PART)
        } else {
            self.is_due_from(log_bytes)
        };
        is_due || self.is_region_due()
    }

    /// Whether the log lies in the regions of a shared device, which fill up before the amount of
    /// log makes a checkpoint due.
    pub(super) fn has_regions(&self) -> bool {
        self.takes_checkpoints() && self.log.fullest_region().is_some()
    }

    /// Whether a region is so full that a checkpoint is due: half of what the last one has left free is used.
    pub(super) fn is_region_due(&self) -> bool {
        let then = self.region_bytes_then.load(Ordering::Relaxed);
        let is_due = |it: RegionUse| it.kept_bytes > then && it.kept_bytes >= (it.bytes + then) / 2;
        self.has_regions() && self.log.fullest_region().is_some_and(is_due)
    }

    /// Whether commits wait because a region is nearly full. The cause of the last checkpoint's
    /// failure may be gone.
    pub(super) fn is_region_short(&self) -> bool {
        self.has_regions() && self.slowed_ms.load(Ordering::Relaxed) > 0
    }

    /// Whether all tables are loaded, of which a checkpoint writes what has changed.
    pub(super) fn has_all_tables(&self) -> bool {
        self.parts.loader.is_done()
    }

    /// Whether commits were refused or lost by the log: no checkpoint can be taken any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst) || self.parts.engine.check_poison().is_err()
    }

    /// Takes deleted keys out of the indexes. If `waiting_before`, the number at the last look, has
    /// not changed, no transaction takes them out: they may wait for an epoch to end. Returns how
    /// many are left.
    pub(super) fn take_out_removed(&self, waiting_before: usize) -> usize {
        let engine = &self.parts.engine;
        let take_out_all = || engine.take_out_in_background(|| self.is_over());
        let waiting = || engine.removed_keys.waiting(Taken::All);
        if waiting() == 0 {
            return 0;
        }
        let is_paused = take_out_all();
        let is_stuck = !is_paused && waiting() == waiting_before;
        if is_stuck && waiting() > 0 && engine.views.oldest_epoch().is_none() {
            // A view closes the current epoch, and waits until it is durable. If it cannot, they stay.
            drop(OpenView::open::<NoFaults>(engine, false));
            take_out_all();
        }
        waiting()
    }

    /// Takes a checkpoint, after a running one. `is_last`: the database is being closed.
    pub(super) fn checkpoint(&self, is_last: bool) -> Result<CheckpointReport, Error> {
        // Not with the image locked: a close waits for that.
        let loaded = self.parts.loader.wait();
        self.checkpoint_of(self.image.lock(), loaded, is_last)
    }

    /// Takes a checkpoint unless the image is locked for longer than this: by another checkpoint, or by a backup. Returns whether
    /// one was taken.
    pub(super) fn checkpoint_within(&self, longest: Duration) -> Result<bool, Error> {
        let loaded = self.parts.loader.wait();
        match self.image.try_lock_for(longest) {
            Some(image) => self.checkpoint_of(image, loaded, false).map(|_| true),
            None => Ok(false),
        }
    }

    /// Takes a checkpoint, with the image locked.
    pub(super) fn checkpoint_of(
        &self,
        mut image: MutexGuard<'_, Option<PresentImage>>,
        loaded: Result<(), Error>,
        is_last: bool,
    ) -> Result<CheckpointReport, Error> {
        if !is_last && self.is_closing.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        self.told.lock().began = Some(Instant::now());
        let done = loaded.and_then(|()| self.take(&mut image, is_last));
        let mut told = self.told.lock();
        told.began = None;
        let stats = &mut told.stats;
        match &done {
            Ok(report) => {
                stats.taken += 1;
                stats.last_error = None;
                stats.last = Some(*report);
                stats.bytes_written += report.bytes;
                stats.file_bytes_written += report.file_bytes;
                told.last = Some(Instant::now());
            }
            // Not a failure: it was cancelled.
            Err(Error::Closed) => {}
            Err(error) => {
                stats.failed += 1;
                stats.last_error = Some(error.clone());
            }
        }
        match &done {
            Ok(report) => events::checkpoint_taken(report.stamp, report.rows, report.bytes),
            Err(error) => events::checkpoint_failed(error),
        }
        done
    }

    fn take(
        &self,
        image: &mut Option<PresentImage>,
        is_last: bool,
    ) -> Result<CheckpointReport, Error> {
        let began = Instant::now();
        if let Some(image) = image {
            let shrunk_files = &mut self.parts.loader.take_shrunk_files();
            image.shrunk_files.append(shrunk_files);
        }
        let engine = &self.parts.engine;
        // In this order: transactions that have ended by now are in the view. Log from here on
        // counts as written since the checkpoint.
        let frame_bytes = self.log.counters().frame_bytes;
        let below_lsn = engine.oldest_operation();
        let view = OpenView::open::<NoFaults>(engine, false)?;
        let _lent = RoomLent(self);
        let mut progress = ImageProgress::default();
        let new = self.write(&view, image.as_ref(), is_last, &mut progress)?;
        let stamp = view.stamp;
        drop(view);
        let backup = self.back_up_before_recycling(image.as_ref(), is_last)?;
        let point = RecyclePoint { stamp, below_lsn };
        let (list, log_files_freed) = self.announce(new, point, is_last)?;
        if let (BeforeRecycling::IsBehind, Some(followed)) = (backup, &self.followed) {
            followed.tell_gap();
        }
        let files_before: BTreeSet<_> = (image.iter().flat_map(|it| it.list.runs()))
            .map(|run| run.segment.file)
            .collect();
        let is_new = |run: &&ListedRun| !files_before.contains(&run.segment.file);
        let new_runs = list.runs().filter(is_new);
        let file_bytes = new_runs.map(|run| run.segment.len_bytes()).sum();
        self.image_bytes.store(list.row_bytes(), Ordering::Relaxed);
        self.image_file_bytes
            .store(list.file_bytes(), Ordering::Relaxed);
        self.frame_bytes_then.store(frame_bytes, Ordering::Relaxed);
        self.log_bytes_before.store(0, Ordering::Relaxed);
        self.generations_before.store(0, Ordering::Relaxed);
        // Log that was written since then may be freed by the next checkpoint.
        let since = self.log.counters().frame_bytes - frame_bytes;
        let region = self.log.fullest_region();
        let not_freed = region.map_or(0, |it| it.kept_bytes.saturating_sub(since));
        self.region_bytes_then.store(not_freed, Ordering::Relaxed);
        *image = Some(PresentImage {
            list,
            shrunk_files: BTreeSet::new(),
        });
        Ok(CheckpointReport {
            stamp,
            tables: progress.tables,
            rows: progress.rows,
            bytes: progress.bytes,
            file_bytes,
            files_kept: progress.runs_kept,
            log_files_freed,
            took: began.elapsed(),
        })
    }

    /// Writes the image of a view.
    fn write(
        &self,
        view: &OpenView,
        before: Option<&PresentImage>,
        is_last: bool,
        progress: &mut ImageProgress,
    ) -> Result<NewImage, Error> {
        let (engine, disk) = (&self.parts.engine, &self.parts.disk);
        self.room.lend(0);
        let (identity, generation, named) = {
            let manifest = &self.parts.catalogue.lock().manifest;
            let generation = manifest.generations.last().map(|info| info.generation);
            let named = manifest.image_list.clone();
            (manifest.identity(), generation, named)
        };
        let target = ImageTarget {
            disk,
            dir: &self.parts.dir,
            identity,
            take_number: &|| {
                let loaded_tables = &mut self.parts.catalogue.lock().manifest.loaded_tables;
                loaded_tables.take_number()
            },
        };
        let moment = ImageMoment {
            stamp: view.stamp,
            generation: generation.unwrap_or_default(),
            epoch: view.epoch(),
        };
        let before = named.as_ref().zip(before);
        let before = before.map(|(named, image)| ImageBefore { named, image });
        // A table that is created later has no row that the view sees.
        let raw_tables: Vec<_> = engine.raw_tables.lock().values().cloned().collect();
        let tables = raw_tables.into_iter().map(|raw_table| {
            let id = raw_table.id;
            (id, TableRows::new(view, raw_table))
        });
        let options = ImageOptions {
            run_bytes: self.settings.run_bytes,
            bytes_per_second: self.settings.bytes_per_second.filter(|_| !is_last),
            on_progress: &mut |now| {
                *progress = now;
                self.room.lend(now.file_bytes);
                if !is_last && self.is_over() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        };
        write_image(&target, moment, before, tables, options).map_err(not_written)
    }

    /// Installs the image, and frees the log that it makes superfluous. Returns its list, and how
    /// many log files were freed.
    fn announce(
        &self,
        new: NewImage,
        point: RecyclePoint,
        is_last: bool,
    ) -> Result<(ImageList, u64), Error> {
        let (disk, dir) = (&*self.parts.disk, &*self.parts.dir);
        let start = self.log.recyclable(point).map_err(Error::LogFailed)?;
        let mut catalogue = self.parts.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        let new = announce_image((disk, dir), &mut catalogue, new, |manifest| {
            manifest.drop_superfluous_generations(point.stamp);
            if let Some(written) = manifest.generations.last_mut() {
                written.begin_at(&start);
            }
        })?;
        let oldest = catalogue.manifest.oldest_generation;
        drop(catalogue);
        self.parts.loader.open_files_in_use();
        let list = new.remove_superseded();
        let removed = remove_generations(disk, &dir.join("wal"), oldest);
        events::superfluous_removed(&removed);
        // Until the next checkpoint, as much will be written again.
        let reuse_bytes = if is_last {
            0
        } else {
            (self.room).reusable_bytes(list.file_bytes(), self.log_bytes_max())
        };
        let recycled = self.log.recycle(&start, oldest, reuse_bytes);
        let recycled = recycled.map_err(Error::LogFailed)?;
        self.log.imaged(point);
        events::superfluous_removed(&recycled);
        Ok((list, removed.files + recycled.files))
    }

    pub(super) fn stats(&self) -> CheckpointStats {
        let named = self.parts.catalogue.lock().manifest.image_list.clone();
        let told = self.told.lock();
        CheckpointStats {
            last_ago: told.last.map(|last| last.elapsed()),
            image_stamp: named.map(|list| list.stamp),
            image_bytes: self.image_bytes.load(Ordering::Relaxed),
            preallocated_bytes: self.room.taken_bytes(),
            is_short_of_room: self.room.is_short(),
            region: self.log.fullest_region(),
            under_way_for: told.began.map(|began| began.elapsed()),
            image_file_bytes: self.image_file_bytes.load(Ordering::Relaxed),
            log_bytes_since: self.log_bytes_since(),
            ..told.stats.clone()
        }
    }
}
