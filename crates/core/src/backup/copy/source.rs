//! The source of a copy: a database as of one stamp, and the files that it needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_log::Placement;
use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, DiskFile};

use crate::backup::error::BackupError;
use crate::catalogue::image_files::FileNumber;
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::catalogue::segment_file::SegmentFile;

/// A database to be copied. No file that its manifest names is changed or removed during the copy,
/// except that the segments of dropped tables lose their names: those files are open.
pub(crate) struct Source<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) dir: &'a Path,
    /// All generations are sealed.
    pub(crate) manifest: Manifest,
    /// The image list that it names.
    pub(crate) list: Option<ImageList>,
    /// The copy ends at this stamp.
    pub(crate) stamp: Stamp,
    /// All that was acknowledged by this time counts: milliseconds since 1970 began.
    pub(crate) taken_at_ms: u64,
    segments: BTreeMap<FileNumber, Arc<dyn DiskFile>>,
}

impl<'a> Source<'a> {
    /// The database that this manifest describes. No table may be dropped during the call.
    ///
    /// # Errors
    /// [`BackupError::SharedDevice`]; [`BackupError::Segment`] if a segment is missing; [`BackupError::Device`].
    pub(crate) fn new(
        disk: &'a Arc<dyn Disk>,
        dir: &'a Path,
        manifest: Manifest,
        list: Option<ImageList>,
        taken_at_ms: u64,
    ) -> Result<Self, BackupError> {
        for info in &manifest.generations {
            if let Placement::Shared { path, .. } = &info.placement {
                let path = path.clone();
                return Err(BackupError::SharedDevice { path });
            }
        }
        let mut segments = BTreeMap::new();
        for segment in manifest.loaded_tables.segments() {
            let path = segment.file.path_of_named(&**disk, dir);
            let file = disk.open(&path);
            let file = file.map_err(|error| unreadable(disk, &path, segment, &manifest, error))?;
            segments.insert(segment.file, file);
        }
        Ok(Self {
            disk,
            dir,
            stamp: last_stamp_of(&manifest),
            taken_at_ms,
            manifest,
            list,
            segments,
        })
    }

    /// A segment of a loaded table.
    pub(super) fn open_segment(&self, segment: &SegmentFile) -> Option<&Arc<dyn DiskFile>> {
        self.segments.get(&segment.file)
    }

    /// Why a file could not be read, or is invalid.
    pub(super) fn unreadable(
        &self,
        path: &Path,
        segment: &SegmentFile,
        error: std::io::Error,
    ) -> BackupError {
        unreadable(self.disk, path, segment, &self.manifest, error)
    }

    /// The damage of a file, if it has any.
    pub(super) fn damage(&self, path: &Path, segment: &SegmentFile) -> Option<BackupError> {
        damage(self.disk, path, segment, &self.manifest)
    }

    /// The log's directory.
    pub(crate) fn wal(&self) -> PathBuf {
        self.dir.join("wal")
    }
}

/// The largest stamp of what counts. No commit of a later opening has it.
fn last_stamp_of(manifest: &Manifest) -> Stamp {
    let image = manifest.image_list.as_ref().map(|list| list.stamp);
    let ends = manifest.generations.iter().filter_map(|info| {
        let largest = info.seal.as_ref()?.max_stamp;
        Some(info.last_stamp.map_or(largest, |last| last.min(largest)))
    });
    let mark = manifest.backup.as_ref().map(|mark| mark.stamp);
    ends.chain(image).chain(mark).max().unwrap_or_default()
}

fn damage(
    disk: &Arc<dyn Disk>,
    path: &Path,
    segment: &SegmentFile,
    manifest: &Manifest,
) -> Option<BackupError> {
    let found = namiki_segment::check(disk, path, segment.id(manifest.identity()));
    let source = found.err()?;
    Some(BackupError::Segment {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn unreadable(
    disk: &Arc<dyn Disk>,
    path: &Path,
    segment: &SegmentFile,
    manifest: &Manifest,
    error: std::io::Error,
) -> BackupError {
    let damage = damage(disk, path, segment, manifest);
    damage.unwrap_or_else(|| BackupError::device(path, error))
}
