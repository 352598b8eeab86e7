//! Harm to the directory of a node that does not run: damaged bytes, and an earlier copy that is put back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use namiki_platform::seeded_random::Random;

use crate::error::BenchError;

/// Damaged places of a round.
const PLACES: u64 = 5;
/// Bytes of each.
const PLACE_BYTES: usize = 16;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The payloads of the log.
    Payloads,
    /// The image of the tables.
    Image,
    /// The part of the log that has votes and entries.
    RaftLog,
}

impl Part {
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::RaftLog,
            1 | 2 => Self::Image,
            _ => Self::Payloads,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Payloads => "damage-payloads",
            Self::Image => "damage-image",
            Self::RaftLog => "damage-raft-log",
        }
    }

    /// Its files in a node's directory.
    fn files(self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match self {
                Self::Image if name.starts_with("db") => files_below(&entry.path(), &mut files)?,
                Self::Payloads | Self::RaftLog if name == "log" => {
                    for stream in fs::read_dir(entry.path())? {
                        let stream = stream?;
                        let is_raft = stream.file_name().to_string_lossy().starts_with("0000");
                        if is_raft == (self == Self::RaftLog) {
                            files_below(&stream.path(), &mut files)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(files)
    }
}

fn files_below(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        files_below(&entry?.path(), files)?;
    }
    Ok(())
}

/// Overwrites some bytes of a part of a node's directory.
pub(super) fn damage(directory: &Path, part: Part, random: &mut Random) -> Result<(), BenchError> {
    let failed = BenchError::file("damage", directory);
    let mut damaged = || -> io::Result<()> {
        let files = part.files(directory)?;
        for _ in 0..PLACES {
            let Some(path) = files.get(random.below(files.len().max(1) as u64) as usize) else {
                break;
            };
            let file = File::options().read(true).write(true).open(path)?;
            let length = file.metadata()?.len();
            let at = random.below(length.max(1));
            let mut bytes = [0; PLACE_BYTES];
            let read = file.read_at(&mut bytes, at)?;
            bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
            file.write_all_at(&bytes[..read], at)?;
            file.sync_all()?;
        }
        Ok(())
    };
    damaged().map_err(failed)
}

/// Puts an earlier copy in the place of a directory, which is the copy of the next time. The first time, one is made.
pub(super) fn put_back(directory: &Path, copy: &Path) -> Result<(), BenchError> {
    let failed = BenchError::file("put back", directory);
    let swapped = || -> io::Result<()> {
        if !copy.exists() {
            return copy_below(directory, copy);
        }
        let aside = copy.with_extension("next");
        fs::rename(directory, &aside)?;
        fs::rename(copy, directory)?;
        fs::rename(&aside, copy)
    };
    swapped().map_err(failed)
}

fn copy_below(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_below(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_the_state_of_the_time_before() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, copy) = (folder.path().join("data"), folder.path().join("copy"));
        fs::create_dir_all(directory.join("log")).unwrap();
        let file = directory.join("log/file");
        let mut found = Vec::new();
        for state in ["1", "2", "3"] {
            fs::write(&file, state).unwrap();
            put_back(&directory, &copy).unwrap();
            found.push(fs::read_to_string(&file).unwrap());
        }
        assert_eq!(found, ["1", "1", "2"]);
    }

    #[test]
    fn only_the_part_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let names = ["log/0000/a", "log/0001/a", "db/a"];
        for name in names {
            fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            fs::write(file(name), [7; 1000]).unwrap();
        }
        let is_damaged = |name: &&str| fs::read(file(name)).unwrap() != [7; 1000];
        let parts = [Part::RaftLog, Part::Payloads, Part::Image];
        for (count, part) in parts.into_iter().enumerate() {
            damage(folder.path(), part, &mut Random::seeded(1)).unwrap();
            assert_eq!(names.iter().filter(|it| is_damaged(it)).count(), count + 1);
        }
    }
}
