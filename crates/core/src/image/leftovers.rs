//! Files in the folder `image` that the manifest and its image list do not name: leftovers of
//! interrupted loads and checkpoints, and files that a newer manifest must have named.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::{Disk, FileKind};

use crate::catalogue::image_files::{FileNumber, ImageFileName, image_dir};
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;

/// The files in the folder `image` that the manifest does not account for. Files are ignored if
/// their names are not those of a load or a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSurvey {
    /// Segments that were loaded, and that the manifest does not name: it is older than they are.
    segments_not_in_manifest: Vec<PathBuf>,
    /// Image lists that a manifest has named, and this one does not: it is older than they are.
    lists_not_in_manifest: Vec<PathBuf>,
    /// Leftovers of interrupted loads and checkpoints. The next opening removes them.
    pub left: Vec<PathBuf>,
    /// Files that the manifest names and that have their first name.
    new: Vec<ImageFileName>,
}

/// Reads the image list that the manifest names, if it names one, and compares the folder `image`
/// with both.
///
/// # Errors
/// [`OpenError::SegmentNotInManifest`], [`OpenError::ImageNotInManifest`] if the manifest is older than the folder;
/// [`OpenError::DamagedImageList`], [`OpenError::OtherFormat`]; [`OpenError::Device`].
pub fn read_image(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<(Option<ImageList>, ImageSurvey), OpenError> {
    let list = read_list(disk, dir, manifest);
    let found = list.as_ref().ok().and_then(Option::as_ref);
    let survey = survey(disk, dir, manifest, found).map_err(|source| OpenError::Device {
        path: image_dir(dir),
        source,
    })?;
    // Checked first: an older manifest explains why its list is missing.
    if let Some(file) = survey.segments_not_in_manifest.first() {
        let file = file.clone();
        return Err(OpenError::SegmentNotInManifest { file });
    }
    if let Some(file) = survey.lists_not_in_manifest.first() {
        let file = file.clone();
        return Err(OpenError::ImageNotInManifest { file });
    }
    Ok((list?, survey))
}

/// The image list that the manifest names, if it names one.
///
/// # Errors
/// [`OpenError::DamagedImageList`], [`OpenError::OtherFormat`]; [`OpenError::Device`].
pub(crate) fn read_list(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<Option<ImageList>, OpenError> {
    let Some(named) = &manifest.image_list else {
        return Ok(None);
    };
    let list = ImageList::read(disk, dir, manifest.identity(), named)?;
    match list.tables.last() {
        Some(last) if last.id >= manifest.next_table() => Err(OpenError::DamagedImageList {
            path: named.file.path_of_named_list(disk, dir),
            why: format!(
                "it lists table {}, and the manifest has had {}",
                last.id.0,
                manifest.next_table().0
            ),
        }),
        _ => Ok(Some(list)),
    }
}

/// Compares the folder `image` with the files that the manifest and its image list name. Without
/// that list, runs of rows cannot be judged, and are ignored.
fn survey(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    list: Option<&ImageList>,
) -> io::Result<ImageSurvey> {
    let mut survey = ImageSurvey::default();
    let image_dir = image_dir(dir);
    let files = match disk.list(&image_dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(survey),
        Err(error) => return Err(error),
    };
    let named = Named::of(manifest, list);
    // If the file system has no unnamed files, a file that is being written has a temporary name.
    let unfinished = disk.unfinished(&image_dir)?.into_iter();
    survey.left.extend(unfinished.filter(|path| {
        let whole = path.with_extension("");
        match ImageFileName::of(&whole) {
            // Neither is ever being written: it is renamed.
            Some(ImageFileName::Segment(_) | ImageFileName::List(_)) => false,
            Some(_) => true,
            None => FileNumber::of_sort_run(&whole).is_some(),
        }
    }));
    let mut lasting = BTreeSet::new();
    for file in files {
        if file.kind != FileKind::Regular {
            continue;
        }
        let path = file.path;
        match ImageFileName::of(&path) {
            Some(name) if named.has(name) => match name.lasting() {
                Some(_) => survey.new.push(name),
                None => {
                    lasting.insert(name);
                }
            },
            Some(ImageFileName::Segment(_)) => survey.segments_not_in_manifest.push(path),
            Some(ImageFileName::List(_)) => survey.lists_not_in_manifest.push(path),
            Some(ImageFileName::NewSegment(_) | ImageFileName::NewList(_)) => {
                survey.left.push(path);
            }
            Some(ImageFileName::Rows(_)) if named.tells_of_rows => survey.left.push(path),
            Some(ImageFileName::Rows(_)) => {}
            None if FileNumber::of_sort_run(&path).is_some() => survey.left.push(path),
            None => {}
        }
    }
    // One that has its lasting name is not replaced, whatever else is there.
    survey
        .new
        .retain(|name| name.lasting().is_some_and(|name| !lasting.contains(&name)));
    Ok(survey)
}

/// The files that a manifest names, and those that its image list does.
struct Named {
    segments: BTreeSet<FileNumber>,
    list: Option<FileNumber>,
    rows: BTreeSet<FileNumber>,
    /// Whether `rows` is complete.
    tells_of_rows: bool,
}

impl Named {
    fn of(manifest: &Manifest, list: Option<&ImageList>) -> Self {
        let segments = manifest
            .loaded_tables
            .segments()
            .map(|segment| segment.file);
        let runs = list.into_iter().flat_map(ImageList::runs);
        Self {
            segments: segments.collect(),
            list: manifest.image_list.as_ref().map(|list| list.file),
            rows: runs.map(|run| run.segment.file).collect(),
            tells_of_rows: manifest.image_list.is_none() || list.is_some(),
        }
    }

    fn has(&self, name: ImageFileName) -> bool {
        match name {
            ImageFileName::Segment(number) | ImageFileName::NewSegment(number) => {
                self.segments.contains(&number)
            }
            ImageFileName::List(number) | ImageFileName::NewList(number) => {
                self.list == Some(number)
            }
            ImageFileName::Rows(number) => self.rows.contains(&number),
        }
    }
}

impl ImageSurvey {
    /// Leaves out files that are needed although the manifest does not name them: those of earlier backups.
    pub(crate) fn spare(&mut self, is_needed: impl Fn(ImageFileName) -> bool) {
        self.left
            .retain(|path| !ImageFileName::of(path).is_some_and(&is_needed));
    }

    /// Removes the leftovers of interrupted loads and checkpoints, and gives files that the
    /// manifest names their lasting names. Returns a number above those of all files that could not
    /// be removed: these are harmless as long as their names are not used.
    ///
    /// Called by an opening, with the survey of the present manifest, and without concurrent
    /// writers.
    pub(crate) fn clean_up(&self, disk: &dyn Disk, dir: &Path) -> FileNumber {
        let mut free = FileNumber(0);
        for name in &self.new {
            if let Some(lasting) = name.lasting() {
                // A file is found under its first name, too.
                let _ = disk.rename(&name.path(dir), &lasting.path(dir));
            }
        }
        for path in &self.left {
            match disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let number = number_of(path).unwrap_or(free);
                    free = free.max(FileNumber(number.0.saturating_add(1)));
                }
                _ => {}
            }
        }
        if !self.new.is_empty() || !self.left.is_empty() {
            let _ = disk.sync_dir(&image_dir(dir));
        }
        free
    }
}

/// The number in the name of a file, whole or not.
fn number_of(path: &Path) -> Option<FileNumber> {
    let of = |path: &Path| {
        let file = ImageFileName::of(path).map(ImageFileName::number);
        file.or_else(|| FileNumber::of_sort_run(path))
    };
    of(path).or_else(|| of(&path.with_extension("")))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use namiki_platform::disk::SimDisk;
    use namiki_platform::disk::sim::{Fault, Step};

    use super::*;
    use crate::catalogue::image_list::tests::{list, named};
    use crate::catalogue::loaded_tables::tests::loaded_tables;
    use crate::protocol_spec::ProtocolSpec;

    /// Segments 1 and 2, list 12, and the runs 4, 7 and 11.
    const DIR: &str = "/db";
    const KEPT: [&str; 7] = [
        "00000001.seg",
        "00000002.seg",
        "00000004.rows",
        "00000012.list",
        "3.seg",
        "notes.txt",
        "runs.run",
    ];
    const LEFT: [&str; 6] = [
        "00000003.new",
        "00000006.rows",
        "00000008.list.new",
        "00000009.0.run",
        "00000009.12.run",
        "00000009.new",
    ];

    /// A directory with files of these names.
    fn directory(names: &[&str]) -> SimDisk {
        let disk = SimDisk::new();
        let image_dir = image_dir(Path::new(DIR));
        disk.create_dir_all(&image_dir).unwrap();
        for name in names {
            disk.create(&image_dir.join(name), 512).unwrap();
        }
        disk
    }

    fn names(disk: &SimDisk) -> Vec<String> {
        let found = disk.list(&image_dir(Path::new(DIR))).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        found.iter().map(|file| name(&file.path)).collect()
    }

    fn manifest() -> Manifest {
        let mut manifest = Manifest::new(7, ProtocolSpec::DEFAULT);
        manifest.loaded_tables = loaded_tables();
        manifest.image_list = Some(named());
        manifest
    }

    fn survey_of(disk: &SimDisk) -> ImageSurvey {
        survey(disk, Path::new(DIR), &manifest(), Some(&list())).unwrap()
    }

    #[test]
    fn only_files_of_interrupted_loads_are_removed() {
        let disk = SimDisk::new();
        assert_eq!(survey_of(&disk), ImageSurvey::default());
        let disk = directory(&[&KEPT[..], &LEFT].concat());
        let found = survey_of(&disk);
        assert_eq!(found.segments_not_in_manifest, [""; 0].map(PathBuf::from));
        assert_eq!(found.lists_not_in_manifest, [""; 0].map(PathBuf::from));
        assert_eq!(found.clean_up(&disk, Path::new(DIR)), FileNumber(0));
        assert_eq!(names(&disk), KEPT);
    }

    #[test]
    fn files_that_were_being_written_are_removed() {
        let disk = directory(&KEPT);
        let path = |name: &str| image_dir(Path::new(DIR)).join(name);
        let written = ["00000003.new", "00000004.2.run", "00000005.rows", "letter"];
        for name in written {
            std::mem::forget(disk.append(&path(name)).unwrap());
        }
        survey_of(&disk).clean_up(&disk, Path::new(DIR));
        let unfinished = disk.unfinished(&image_dir(Path::new(DIR))).unwrap();
        assert_eq!(unfinished, [path("letter.tmp")]);
        assert_eq!(names(&disk), KEPT);
    }

    #[test]
    fn named_segments_get_their_lasting_names() {
        let disk = directory(&["00000001.new", "00000002.seg"]);
        survey_of(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), ["00000001.seg", "00000002.seg"]);
        let both = ["00000001.new", "00000001.seg", "00000002.seg"];
        let disk = directory(&both);
        survey_of(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), both);
        let disk = directory(&["00000012.list.new"]);
        survey_of(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), ["00000012.list"]);
    }

    #[test]
    fn files_of_a_later_manifest_are_told_apart_and_stay() {
        let later = ["00000001.seg", "00000007.seg", "00000013.list"];
        let disk = directory(&later);
        let found = survey_of(&disk);
        let (segment, list) = (FileNumber(7), FileNumber(13));
        let dir = Path::new(DIR);
        assert_eq!(found.segments_not_in_manifest, [segment.path(dir)]);
        assert_eq!(found.lists_not_in_manifest, [list.list_path(dir)]);
        found.clean_up(&disk, dir);
        assert_eq!(names(&disk), later);
    }

    #[test]
    fn rows_are_left_over_only_by_a_list() {
        let rows = ["00000004.rows", "00000005.rows"];
        let disk = directory(&rows);
        let dir = Path::new(DIR);
        let unknown = survey(&disk, dir, &manifest(), None).unwrap();
        assert_eq!(unknown, ImageSurvey::default());
        let other = FileNumber(5).rows_path(dir);
        assert_eq!(survey_of(&disk).left, std::slice::from_ref(&other));
        let none = Manifest::new(7, ProtocolSpec::DEFAULT);
        let all = survey(&disk, dir, &none, None).unwrap();
        assert_eq!(all.left, [FileNumber(4).rows_path(dir), other]);
    }

    #[test]
    fn what_cannot_be_removed_is_left_and_numbered_around() {
        let disk = directory(&LEFT);
        let refused = Fault::once(Step::Remove, 0, ErrorKind::PermissionDenied);
        disk.inject(refused.and_ever_after());
        let free = survey_of(&disk).clean_up(&disk, Path::new(DIR));
        disk.heal();
        assert_eq!(free, FileNumber(10));
        assert_eq!(names(&disk), LEFT);
        survey_of(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), [""; 0]);
    }
}
