//! What an interrupted load leaves behind: segments that no manifest names, and sorted runs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::{Disk, FileKind};

use crate::catalogue::image::{FileNumber, TableImage, image_dir};
use crate::image::external_sort::is_run;

/// The files of the image's directory that have names of a load's files and are not named by the image. Anything else
/// there is not meant.
///
/// # Errors
/// Whatever the device says.
pub fn image_leftovers(
    disk: &dyn Disk,
    dir: &Path,
    image: &TableImage,
) -> io::Result<Vec<PathBuf>> {
    let files = match disk.list(&image_dir(dir)) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let named: BTreeSet<FileNumber> = image.segments().map(|segment| segment.file).collect();
    let is_left = |path: &Path| {
        let number = FileNumber::of_path(path);
        number.is_some_and(|number| !named.contains(&number)) || is_run(path)
    };
    let files = files.into_iter();
    let files = files.filter(|file| file.kind == FileKind::Regular && is_left(&file.path));
    Ok(files.map(|file| file.path).collect())
}

/// Removes what an interrupted load has left.
///
/// Call it with the image of the manifest that is durably in place, while no load is under way (I2).
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path, image: &TableImage) -> io::Result<()> {
    let left = image_leftovers(disk, dir, image)?;
    left.iter().try_for_each(|path| disk.remove(path))?;
    if !left.is_empty() {
        disk.sync_dir(&image_dir(dir))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;
    use crate::catalogue::image::tests::image;

    #[test]
    fn only_files_of_interrupted_loads_are_removed() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        remove_leftovers(&disk, dir, &image()).unwrap();
        disk.create_dir_all(&image_dir(dir)).unwrap();
        let keep = [
            "00000001.seg",
            "00000002.seg",
            "3.seg",
            "notes.txt",
            "runs.run",
        ];
        let left = [
            "00000003.seg",
            "00000009.seg",
            "00000009.0.run",
            "00000009.12.run",
        ];
        for name in keep.iter().chain(&left) {
            disk.create(&image_dir(dir).join(name), 512).unwrap();
        }
        remove_leftovers(&disk, dir, &image()).unwrap();
        let found = disk.list(&image_dir(dir)).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|file| file.path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(found, keep);
    }
}
