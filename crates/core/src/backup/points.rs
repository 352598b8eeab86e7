//! The restore points of a database, and the database as of one of them.

use std::sync::Arc;

use namiki_log::{GenerationEnd, ReadError, StreamReader};
use namiki_platform::{Stamp, WorkerId};

use crate::backup::error::BackupError;
use crate::backup::source::Source;
use crate::wal_format::restore_point::RestorePoint;

impl Source<'_> {
    /// The points to which it can be restored, oldest first: the log has everything between the image and them, and all
    /// that was committed up to them.
    ///
    /// # Errors
    /// [`BackupError::Log`].
    pub(crate) fn restore_points(&self) -> Result<Vec<RestorePoint>, BackupError> {
        let mut points = Vec::new();
        let wal = self.wal();
        let identity = self.manifest.identity();
        let generations = self.manifest.generations.iter();
        for info in generations.filter(|info| info.restore_points) {
            for worker in (0..info.streams).map(WorkerId) {
                let disk = Arc::clone(self.disk);
                let reader = StreamReader::open(disk, &wal, identity, info, worker);
                let mut reader = reader.map_err(log_failed)?;
                while let Some(frame) = reader.next_frame().map_err(log_failed)? {
                    let records = frame.records();
                    points.extend(records.filter_map(|it| RestorePoint::decode(it.payload)));
                }
            }
        }
        let oldest = self.oldest_point();
        points.retain(|point| (oldest..=self.stamp).contains(&point.stamp));
        points.sort_unstable();
        points.dedup();
        Ok(points)
    }

    /// Ends at a restore point: what was committed after it does not count.
    ///
    /// # Errors
    /// [`BackupError::NoSuchPoint`]; as [`Source::restore_points`].
    pub(crate) fn end_at(&mut self, stamp: Stamp) -> Result<(), BackupError> {
        let points = self.restore_points()?;
        if !points.iter().any(|point| point.stamp == stamp) {
            return Err(BackupError::NoSuchPoint {
                stamp,
                oldest: points.first().map(|point| point.stamp),
                newest: points.last().map(|point| point.stamp),
            });
        }
        for info in &mut self.manifest.generations {
            let has_later = |seal: &GenerationEnd| seal.max_stamp > stamp;
            if info.seal.as_ref().is_some_and(has_later) {
                info.last_stamp = Some(stamp);
            }
        }
        self.stamp = stamp;
        Ok(())
    }

    /// What was before is not in the log any more.
    fn oldest_point(&self) -> Stamp {
        let image = self.manifest.image_list.as_ref().map(|list| list.stamp);
        image.unwrap_or_default().max(self.manifest.points_from)
    }
}

fn log_failed(source: ReadError) -> BackupError {
    BackupError::Log(Box::new(source))
}
