//! What is in the image's directory beside the segments that the manifest names: what loads that did not end have left,
//! and segments that a newer manifest must have named.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::{Disk, FileKind};

use crate::catalogue::image::TableImage;
use crate::catalogue::image_files::{FileNumber, SegmentName, image_dir};
use crate::image::external_sort::run_of;

/// The files of the image's directory that its manifest does not account for. Files with any other name than a load
/// gives are not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSurvey {
    /// Segments that were loaded, and that the manifest does not name: it is older than they are.
    pub not_in_manifest: Vec<PathBuf>,
    /// What loads that did not end have left. The next opening removes it.
    pub left: Vec<PathBuf>,
    /// Segments that the manifest names and that have their first name.
    new: Vec<FileNumber>,
}

/// Compares the image's directory with the image of the manifest.
///
/// # Errors
/// Whatever the device says.
pub fn survey_image(disk: &dyn Disk, dir: &Path, image: &TableImage) -> io::Result<ImageSurvey> {
    let mut survey = ImageSurvey::default();
    let image_dir = image_dir(dir);
    let files = match disk.list(&image_dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(survey),
        Err(error) => return Err(error),
    };
    // Where the file system has no files without a name, what is being written has a temporary one.
    let unfinished = disk.unfinished(&image_dir)?.into_iter();
    survey.left.extend(unfinished.filter(|path| {
        let whole = path.with_extension("");
        matches!(SegmentName::of(&whole), Some(SegmentName::New(_))) || run_of(&whole).is_some()
    }));
    let named: BTreeSet<FileNumber> = image.segments().map(|segment| segment.file).collect();
    let mut lasting = BTreeSet::new();
    for file in files {
        if file.kind != FileKind::Regular {
            continue;
        }
        match SegmentName::of(&file.path) {
            Some(SegmentName::Lasting(number)) if !named.contains(&number) => {
                survey.not_in_manifest.push(file.path);
            }
            Some(SegmentName::New(number)) if named.contains(&number) => survey.new.push(number),
            Some(SegmentName::New(_)) => survey.left.push(file.path),
            Some(SegmentName::Lasting(number)) => {
                lasting.insert(number);
            }
            None if run_of(&file.path).is_some() => survey.left.push(file.path),
            None => {}
        }
    }
    // One that has its lasting name is not replaced, whatever else is there.
    survey.new.retain(|number| !lasting.contains(number));
    Ok(survey)
}

impl ImageSurvey {
    /// Removes what interrupted loads have left, and gives segments that the manifest names their lasting names. Returns a
    /// number above those of all files that are left all the same: they are in the way of no opening, and of no load
    /// that does not use their names.
    ///
    /// To be called by an opening, with the survey of the manifest in place, while no load is under way.
    pub(crate) fn clean_up(&self, disk: &dyn Disk, dir: &Path) -> FileNumber {
        let mut free = FileNumber(0);
        for number in &self.new {
            // A segment is found under its first name, too.
            let _ = disk.rename(&number.new_path(dir), &number.path(dir));
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

/// The number in the name of a load's file, whole or not.
fn number_of(path: &Path) -> Option<FileNumber> {
    let of = |path: &Path| {
        let segment = SegmentName::of(path).map(SegmentName::number);
        segment.or_else(|| run_of(path))
    };
    of(path).or_else(|| of(&path.with_extension("")))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use namiki_platform::disk::SimDisk;
    use namiki_platform::disk::sim::{Fault, Step};

    use super::*;
    use crate::catalogue::image::tests::image;

    const DIR: &str = "/db";
    const KEPT: [&str; 5] = [
        "00000001.seg",
        "00000002.seg",
        "3.seg",
        "notes.txt",
        "runs.run",
    ];
    const LEFT: [&str; 4] = [
        "00000003.new",
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

    fn survey(disk: &SimDisk) -> ImageSurvey {
        survey_image(disk, Path::new(DIR), &image()).unwrap()
    }

    #[test]
    fn only_files_of_interrupted_loads_are_removed() {
        let disk = SimDisk::new();
        assert_eq!(survey(&disk), ImageSurvey::default());
        let disk = directory(&[&KEPT[..], &LEFT].concat());
        let found = survey(&disk);
        assert_eq!(found.not_in_manifest, [""; 0].map(PathBuf::from));
        assert_eq!(found.clean_up(&disk, Path::new(DIR)), FileNumber(0));
        assert_eq!(names(&disk), KEPT);
    }

    #[test]
    fn files_that_were_being_written_are_removed() {
        let disk = directory(&KEPT);
        let path = |name: &str| image_dir(Path::new(DIR)).join(name);
        for name in ["00000003.new", "00000004.2.run", "letter"] {
            std::mem::forget(disk.append(&path(name)).unwrap());
        }
        survey(&disk).clean_up(&disk, Path::new(DIR));
        let unfinished = disk.unfinished(&image_dir(Path::new(DIR))).unwrap();
        assert_eq!(unfinished, [path("letter.tmp")]);
        assert_eq!(names(&disk), KEPT);
    }

    #[test]
    fn named_segments_get_their_lasting_names() {
        let disk = directory(&["00000001.new", "00000002.seg"]);
        survey(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), ["00000001.seg", "00000002.seg"]);
        let both = ["00000001.new", "00000001.seg", "00000002.seg"];
        let disk = directory(&both);
        survey(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), both);
    }

    #[test]
    fn a_loaded_segment_without_a_name_is_told_apart() {
        let disk = directory(&["00000001.seg", "00000007.seg"]);
        let found = survey(&disk);
        assert_eq!(found.not_in_manifest, [FileNumber(7).path(Path::new(DIR))]);
        found.clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), ["00000001.seg", "00000007.seg"]);
    }

    #[test]
    fn what_cannot_be_removed_is_left_and_numbered_around() {
        let disk = directory(&LEFT);
        let refused = Fault::once(Step::Remove, 0, ErrorKind::PermissionDenied);
        disk.inject(refused.and_ever_after());
        let free = survey(&disk).clean_up(&disk, Path::new(DIR));
        disk.heal();
        assert_eq!(free, FileNumber(10));
        assert_eq!(names(&disk), LEFT);
        survey(&disk).clean_up(&disk, Path::new(DIR));
        assert_eq!(names(&disk), [""; 0]);
    }
}
