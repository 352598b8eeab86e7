//! Reads the state of checkpoints from the file names in a database's image folder, while another
//! process takes them.
//!
//! The list of an image has a larger number than its other files. It gets its final name only when
//! all of them are valid.

use std::path::Path;

/// Whether a checkpoint is under way, or was interrupted: from its first file until the list has
/// its final name and the superseded files are deleted.
pub(super) fn checkpoint_is_under_way(dir: &Path) -> bool {
    let files = files(dir);
    let last = files.iter().map(|(number, _)| *number).max();
    files.iter().any(|(_, ending)| ending == "list.new") || last > number_of_list(&files)
}

/// The number of the image that the database opens with, if it has one and no checkpoint is about
/// to replace it.
pub(super) fn image_number(dir: &Path) -> Option<u32> {
    number_of_list(&files(dir))
}

fn number_of_list(files: &[(u32, String)]) -> Option<u32> {
    let lists = files.iter().filter(|(_, ending)| ending == "list");
    lists.map(|(number, _)| *number).max()
}

/// The numbers and extensions of the files.
fn files(dir: &Path) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir(dir.join("image"));
    let names = entries.into_iter().flatten().flatten();
    let parsed = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (number, ending) = name.split_once('.')?;
        Some((number.parse().ok()?, ending.to_owned()))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_told_by_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let state = |names: &[&str]| {
            std::fs::create_dir_all(&image).unwrap();
            for name in names {
                std::fs::write(image.join(name), []).unwrap();
            }
            let state = (
                checkpoint_is_under_way(dir.path()),
                image_number(dir.path()),
            );
            std::fs::remove_dir_all(&image).unwrap();
            state
        };
        assert_eq!(state(&[]), (false, None));
        assert_eq!(state(&["00000000.rows"]), (true, None));
        assert_eq!(state(&["00000000.rows", "00000001.list.new"]), (true, None));
        let first = ["00000000.rows", "00000001.list"];
        assert_eq!(state(&first), (false, Some(1)));
        assert_eq!(
            state(&[&first[..], &["00000002.rows"]].concat()),
            (true, Some(1))
        );
    }
}
