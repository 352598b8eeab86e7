//! Room on a disk that is nearly full: for the next checkpoint, and for commits that were refused.

use std::sync::atomic::Ordering;

use super::take_checkpoint::Work;
use crate::error::Error;
use crate::events;

/// Guard: room is being made until this is dropped.
struct MakingRoom<'w>(&'w Work);

impl<'w> MakingRoom<'w> {
    fn begin(work: &'w Work) -> Self {
        work.makes_room.store(true, Ordering::SeqCst);
        Self(work)
    }
}

impl Drop for MakingRoom<'_> {
    fn drop(&mut self) {
        self.0.makes_room.store(false, Ordering::SeqCst);
    }
}

impl Work {
    /// Reserves the room that the next checkpoint will need, computed from the present image and
    /// the log.
    pub(super) fn reserve_room(&self) {
        self.room
            .set_image(self.image_file_bytes.load(Ordering::Relaxed));
        // In this order: what is written in between is counted twice, and is not missing.
        let files = self.log.files();
        self.room.reserve(&files, self.log_bytes_since());
        self.lift_restrictions();
    }

    /// Lifts the restriction to deletions from log files, as far as the room allows: first from
    /// files for which a commit was refused, then from those with the least space left. Returns
    /// whether a refused commit may succeed now.
    pub(super) fn lift_restrictions(&self) -> bool {
        let mut restricted = self.log.restricted();
        restricted.sort_by_key(|file| (!file.has_refused, file.unwritten_bytes));
        restricted.retain(|file| self.room.cover(file.unwritten_bytes));
        self.log.accept_all(&restricted);
        restricted.iter().any(|file| file.has_refused)
    }

    /// Reserves the room that the next checkpoint will need, or as much of it as the disk has.
    pub(super) fn adjust_room(&self) {
        // Without the tables' lock, because the disk may be slow.
        let tables = self.parts.engine.raw_tables.lock().len();
        self.room.adjust(tables);
    }

    /// Whether commits are refused because there is no room on the disk for the log's next file.
    pub(super) fn refuses_commits(&self) -> bool {
        self.takes_checkpoints() && !self.has_regions() && self.log.is_short_of_room()
    }

    /// Whether that thread is making room for commits.
    pub(super) fn is_making_room(&self) -> bool {
        self.makes_room.load(Ordering::SeqCst)
    }

    /// Makes room for the log: by removing files that it keeps for reuse, or by a checkpoint if
    /// that can free log and no requested backup is running. Returns whether there may be room now.
    pub(super) fn make_room(&self) -> Result<bool, Error> {
        let _making = MakingRoom::begin(self);
        let removed = self.log.release_unused().map_err(Error::LogFailed)?;
        events::superfluous_removed(&removed);
        self.adjust_room();
        let is_lifted = self.lift_restrictions();
        // Commits that are refused from here on request more room.
        self.log.forget_refusals();
        if is_lifted || removed.files > 0 {
            return Ok(true);
        }
        if !self.can_free_room() {
            return Ok(false);
        }
        let loaded = self.parts.loader.wait();
        match self.lock_image_for_room() {
            Some(image) => self.checkpoint_of(image, loaded, false).map(|_| true),
            None => Ok(false),
        }
    }

    /// Whether a checkpoint could free room: there is log that is not in the image, or the image has a table that was
    /// dropped.
    fn can_free_room(&self) -> bool {
        let has_log = self.log_bytes_since() > 0;
        has_log || self.generations_before.load(Ordering::Relaxed) > 0 || self.has_dropped_tables()
    }

    fn has_dropped_tables(&self) -> bool {
        let Some(image) = self.image.try_lock() else {
            return false;
        };
        let raw_tables = self.parts.engine.raw_tables.lock();
        let in_memory = |id| raw_tables.contains_key(id);
        let tables = image.iter().flat_map(|image| &image.list.tables);
        tables
            .into_iter()
            .any(|table| !table.runs.is_empty() && !in_memory(&table.id))
    }
}
