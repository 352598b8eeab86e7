//! The restore points of a database, and the database as of one of them.

use std::sync::Arc;

use namiki_log::{GenerationEnd, ReadError, StreamReader};
use namiki_platform::{Epoch, Stamp, WorkerId};

use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::backup::retention::earlier_backups;
use crate::wal_format::restore_point::RestorePoint;

impl<'a> Source<'a> {
    /// The points to which it can be restored, oldest first: those in its log, and those of the earlier backups that its
    /// directory keeps, with the ends of these.
    ///
    /// # Errors
    /// [`BackupError::Log`]; [`BackupError::Source`] if an earlier backup cannot be read.
    pub(crate) fn restore_points(&self) -> Result<Vec<RestorePoint>, BackupError> {
        let mut points = self.points_in_log()?;
        for earlier in self.earlier()? {
            points.extend(earlier.points_in_log()?);
            points.push(earlier.end_as_point());
        }
        points.sort_unstable();
        // One state: the first time at which it was there.
        points.dedup_by_key(|point| point.stamp);
        Ok(points)
    }

    /// The database as of a restore point, or as of its end: later commits are left out. If several
    /// backups have the point, the oldest one is taken: its tables are those of the point, or of
    /// soon after it.
    ///
    /// # Errors
    /// [`BackupError::NoSuchPoint`]; as [`Source::restore_points`].
    pub(crate) fn ended_at(self, stamp: Stamp) -> Result<Self, BackupError> {
        let mut points = Vec::new();
        for mut source in self.earlier()?.into_iter().chain([self]) {
            points.extend(source.points_in_log()?.iter().map(|point| point.stamp));
            if source.stamp == stamp || points.contains(&stamp) {
                source.end_at(stamp);
                return Ok(source);
            }
        }
        Err(BackupError::NoSuchPoint {
            stamp,
            oldest: points.iter().min().copied(),
            newest: points.iter().max().copied(),
        })
    }

    /// The earlier backups that its directory keeps, oldest first. Only a backup has any.
    fn earlier(&self) -> Result<Vec<Source<'a>>, BackupError> {
        if self.manifest.backup.is_none() {
            return Ok(Vec::new());
        }
        let earlier = earlier_backups(&**self.disk, self.dir)?;
        let sources = earlier.into_iter().map(|earlier| {
            let list = earlier.list(&**self.disk, self.dir)?;
            let taken_at_ms = earlier.taken_at_ms();
            Source::new(self.disk, self.dir, earlier.manifest, list, taken_at_ms)
        });
        sources.collect()
    }

    /// The points that its own log has: everything between the image and them, and all that was committed up to them.
    fn points_in_log(&self) -> Result<Vec<RestorePoint>, BackupError> {
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
        Ok(points)
    }

    fn end_as_point(&self) -> RestorePoint {
        RestorePoint {
            stamp: self.stamp,
            time_ms: self.taken_at_ms,
            epoch: Epoch(0),
        }
    }

    fn end_at(&mut self, stamp: Stamp) {
        for info in &mut self.manifest.generations {
            let has_later = |seal: &GenerationEnd| seal.max_stamp > stamp;
            if info.seal.as_ref().is_some_and(has_later) {
                info.last_stamp = Some(stamp);
            }
        }
        self.stamp = stamp;
    }

    /// Earlier points are not in the log any more.
    fn oldest_point(&self) -> Stamp {
        let image = self.manifest.image_list.as_ref().map(|list| list.stamp);
        image.unwrap_or_default().max(self.manifest.points_from)
    }
}

fn log_failed(source: ReadError) -> BackupError {
    BackupError::Log(Box::new(source))
}
