//! Installs a written image as the database's.

use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::Disk;

use crate::catalogue::manifest::Manifest;
use crate::error::Error;
use crate::image::image_error::ImageError;
use crate::image::write::new_image::NewImage;
use crate::live::catalogue::{Catalogue, not_changed};

/// Replaces the manifest by one that names the image, and with this change, and gives the image's
/// list its lasting name. The files that only the previous image had can be removed then.
///
/// # Errors
/// Why that could not be done. The image before is the database's, unless it is not known what the disk has: the next opening
/// finds whatever the manifest names.
pub(crate) fn announce_image(
    (disk, dir): (&dyn Disk, &Path),
    catalogue: &mut Catalogue,
    mut new: NewImage,
    change: impl FnOnce(&mut Manifest),
) -> Result<NewImage, Error> {
    new.step_back().map_err(checkpoint_failed)?;
    let before = catalogue.manifest.clone();
    let changed = catalogue.change_manifest(disk, dir, |manifest| {
        manifest.image_list = Some(new.named().clone());
        change(manifest);
    });
    if let Err(unchanged) = changed {
        if !unchanged.is_as_before {
            new.keep();
        }
        return Err(not_changed(dir, unchanged));
    }
    if let Err(gone) = new.give_lasting_name() {
        // The number of the next file and that of the opening stay as they are.
        let take_back = |manifest: &mut Manifest| {
            manifest.image_list.clone_from(&before.image_list);
            manifest
                .loaded_tables
                .tables
                .clone_from(&before.loaded_tables.tables);
            manifest.tables.clone_from(&before.tables);
            manifest.generations.clone_from(&before.generations);
            manifest.oldest_generation = before.oldest_generation;
        };
        if catalogue.change_manifest(disk, dir, take_back).is_err() {
            // The disk may have either manifest, with all its files; in memory, the previous one
            // stays, as does all other state.
            new.keep();
            take_back(&mut catalogue.manifest);
        }
        return Err(checkpoint_failed(gone));
    }
    Ok(new)
}

/// An image was not written; [`Error::Closed`] if that was interrupted.
pub(crate) fn not_written(error: ImageError) -> Error {
    match error {
        ImageError::Interrupted => Error::Closed,
        error => checkpoint_failed(error),
    }
}

/// An image was not written, or could not be installed.
fn checkpoint_failed(error: ImageError) -> Error {
    Error::CheckpointFailed(Arc::new(error))
}
