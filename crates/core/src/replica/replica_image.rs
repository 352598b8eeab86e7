//! The image of a replica: its tables as of one entry, written while later entries are applied, and what an opening begins
//! with.
//!
//! It is the library's image. The manifest on the disk names the tables of the entry, not those that are there when it is
//! written: the entries after it create and drop them again. So the one replacement of the manifest has everything, and the
//! caller may give up the log through the entry when [`Replica::write_image`] returns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_platform::{Epoch, Generation, Stamp};

use super::apply::{ChangedRow, create};
use super::{RESERVED, Replica, ReplicaView};
use crate::checkpoint::announce_image::{announce_image, not_written};
use crate::checkpoint::rows_of_view::TableRows;
use crate::error::Error;
use crate::events;
use crate::image::image_error::ImageError;
use crate::image::write::image_writer::{
    ImageBefore, ImageMoment, ImageOptions, ImageProgress, ImageTarget, PresentImage, RUN_BYTES,
    write_image,
};
use crate::image::write::new_image::NewImage;
use crate::storage::record::RecordRef;

/// What an image has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageReport {
    /// The image has exactly the groups with this stamp or a lower one.
    pub stamp: Stamp,
    /// Rows that were written; those of key ranges without changes since the previous image were not.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// The bytes of the files that were written.
    pub written_bytes: u64,
    /// The bytes of all files of the image.
    pub file_bytes: u64,
}

impl Replica {
    /// A view for [`Replica::write_image`], which does not expire.
    ///
    /// # Errors
    /// As [`Replica::view`].
    pub fn view_for_image(&self) -> Result<ReplicaView, Error> {
        ReplicaView::open(&self.db, false)
    }

    /// Writes the image of this view's entry, and makes it the one that an opening begins with. `go_on` is called with the
    /// bytes of the files so far after each piece of rows, about 1 MiB, and ends the writing if it returns false. It may wait: the
    /// view stays open, and one image is written at a time.
    ///
    /// # Errors
    /// [`Error::CheckpointFailed`], [`Error::Manifest`], [`Error::AnotherWriter`]; [`Error::TableNotLoaded`];
    /// [`Error::Closed`] if `go_on` ended it. The image before is the replica's then.
    pub fn write_image(
        &self,
        view: ReplicaView,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<ImageReport, Error> {
        let shared = &self.db.shared;
        let mut present = shared.replica_image.lock();
        shared.loader.wait()?;
        // One that was dropped before it was loaded has no rows in memory: a newer view does without it.
        for raw_table in view.raw_tables() {
            raw_table.load_state.wait()?;
        }
        if let Some(image) = &mut *present {
            let mut shrunk_files = shared.loader.take_shrunk_files();
            image.shrunk_files.append(&mut shrunk_files);
            image.shrunk_files.append(&mut self.damaged_files.lock());
        }
        let mut progress = ImageProgress::default();
        let written = self.write_files(&view, present.as_ref(), |now| {
            progress = now;
            if go_on(now.file_bytes) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let new = written.map_err(not_written)?;
        let new = self.announce(new, &view)?;
        let stamp = view.stamp();
        drop(view);
        shared.loader.open_files_in_use();
        let list = new.remove_superseded();
        let file_bytes = list.file_bytes();
        *present = Some(PresentImage {
            list,
            shrunk_files: BTreeSet::new(),
        });
        events::checkpoint_taken(stamp, progress.rows, progress.bytes);
        Ok(ImageReport {
            stamp,
            rows: progress.rows,
            bytes: progress.bytes,
            written_bytes: progress.file_bytes,
            file_bytes,
        })
    }

    /// The bytes of all files of the image that an opening would begin with; 0 without one.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        let present = self.db.shared.replica_image.lock();
        present.as_ref().map_or(0, |image| image.list.file_bytes())
    }

    /// From the next image on, the tables have a history of their own, which goes by this number: a backup of the history
    /// before is not continued with them.
    pub fn begin_history(&self, number: u128) {
        self.db.shared.catalogue.lock().manifest.branch = format!("{number:032x}");
    }

    fn write_files(
        &self,
        view: &ReplicaView,
        before: Option<&PresentImage>,
        mut on_progress: impl FnMut(ImageProgress) -> ControlFlow<()>,
    ) -> Result<NewImage, ImageError> {
        let shared = &self.db.shared;
        let (identity, named) = {
            let manifest = &shared.catalogue.lock().manifest;
            (manifest.identity(), manifest.image_list.clone())
        };
        let target = ImageTarget {
            disk: &shared.disk,
            dir: &shared.dir,
            identity,
            take_number: &|| {
                let loaded_tables = &mut shared.catalogue.lock().manifest.loaded_tables;
                loaded_tables.take_number()
            },
        };
        let moment = ImageMoment {
            stamp: view.stamp(),
            // It has no log.
            generation: Generation::default(),
            epoch: Epoch(0),
        };
        let before = named.as_ref().zip(before);
        let before = before.map(|(named, image)| ImageBefore { named, image });
        let open = &view.view().open;
        let tables = view.raw_tables().map(|raw_table| {
            let id = raw_table.id;
            (id, TableRows::new(open, Arc::clone(raw_table)))
        });
        let options = ImageOptions {
            run_bytes: RUN_BYTES,
            bytes_per_second: None,
            on_progress: &mut on_progress,
        };
        write_image(&target, moment, before, tables, options)
    }

    /// The one switch: the manifest names the image, with the tables of its entry.
    fn announce(&self, new: NewImage, view: &ReplicaView) -> Result<NewImage, Error> {
        let shared = &self.db.shared;
        let catalogue = &mut *shared.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        let (tables, dropped) = view.catalogue();
        let manifest = &mut catalogue.manifest;
        let now = (
            std::mem::replace(&mut manifest.tables, tables.to_vec()),
            std::mem::replace(&mut manifest.dropped, dropped),
        );
        let announced = announce_image((&*shared.disk, &shared.dir), catalogue, new, |_| {});
        let manifest = &mut catalogue.manifest;
        (manifest.tables, manifest.dropped) = now;
        announced
    }

    /// Writes rows of the cluster's own, which the image has beside those of the clients; no value: the row is deleted. They
    /// get the stamp of the last group, so a row is written once between two groups, and there is one. Called by the applier,
    /// before it opens a view for an image. A view of the same stamp that is open already may see them or not.
    pub fn put_reserved<'r>(&self, rows: impl IntoIterator<Item = (&'r [u8], Option<&'r [u8]>)>) {
        let applier = &mut *self.applier.lock();
        let Some(raw_table) = applier.tables.get(&RESERVED) else {
            unreachable!("the opening has made it");
        };
        let record_of = |key| match raw_table.find(key)? {
            Ok(record) => Ok(record),
            Err(_) => create(raw_table, key),
        };
        let with_record = |(key, value)| match record_of(key) {
            Ok(record) => (RESERVED, key, value, record),
            Err(error) => unreachable!("the cluster's keys fit: {error}"),
        };
        let rows: Vec<ChangedRow<'_>> = rows.into_iter().map(with_record).collect();
        let records: Vec<RecordRef> = rows.iter().map(|(_, _, _, record)| *record).collect();
        let through = self.installed().write();
        let stamp = *through;
        debug_assert!(stamp > Stamp(0), "a version has the stamp of a group");
        let rows = || rows.iter().copied();
        if self.install_rows(&mut applier.seen_views, stamp, &records, rows, |_| {}) {
            self.note_deleted(stamp, rows());
        }
    }
}
