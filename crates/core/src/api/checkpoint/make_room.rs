//! Room on a disk that is nearly full: for the next checkpoint, and for commits that were refused.

use std::sync::atomic::Ordering;

use super::take_checkpoint::Work;
use crate::error::Error;
use crate::events;

impl Work {
    /// Takes the room that the next checkpoint will need, by the image that is there and what the log has.
    pub(super) fn reserve_room(&self) {
        self.room
            .set_image(self.image_file_bytes.load(Ordering::Relaxed));
        // In this order: what is written in between is counted twice, and is not missing.
        let files = self.log.files();
        self.room.reserve(&files, self.log_bytes_since());
        self.lift_restrictions();
    }

    /// Lets files that take deletions alone take all, once there is room for that. Returns whether there was.
    pub(super) fn lift_restrictions(&self) -> bool {
        let restricted = self.log.restricted();
        let unwritten_bytes = restricted.iter().map(|file| file.unwritten_bytes).sum();
        let is_lifted = !restricted.is_empty() && self.room.cover(unwritten_bytes);
        if is_lifted {
            self.log.accept_all(&restricted);
        }
        is_lifted
    }

    /// Whether commits are refused because there is no room on the disk for the log's next file.
    pub(super) fn refuses_commits(&self) -> bool {
        self.takes_checkpoints() && !self.has_regions() && self.log.is_short_of_room()
    }

    /// Makes room for the log: by files that it keeps to write them again, or by a checkpoint if that can free something.
    /// Returns whether there may be some now.
    pub(super) fn make_room(&self) -> Result<bool, Error> {
        let removed = self.log.release_unused().map_err(Error::LogFailed)?;
        events::superfluous_removed(&removed);
        self.room.adjust(self.parts.engine.raw_tables.lock().len());
        if self.lift_restrictions() || removed.files > 0 {
            return Ok(true);
        }
        if !self.can_free_room() {
            return Ok(false);
        }
        self.checkpoint(false).map(|_| true)
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
