//! Whether one directory lies in another one, whatever they are called.
//!
//! Directories are compared by device and inode, along the way up from each: so symbolic links,
//! bind mounts, relative paths and file systems that do not tell `A` from `a` make no difference.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::moved_dir::or_here;

/// Whether the two are one directory of the operating system, or one lies in the other, at any
/// depth. One that does not exist is where it would be made.
///
/// # Errors
/// Whatever the system says of one of them, or of a directory above it.
pub fn is_one_in_the_other(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (Place::of(one)?, Place::of(other)?);
    Ok(one.is_in(&other) || other.is_in(&one))
}

/// A directory.
struct Place {
    /// Its own, if it exists.
    own: Option<Identity>,
    /// The identities of all existing directories on the way up, its own included.
    way_up: Vec<Identity>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Place {
    fn of(dir: &Path) -> io::Result<Self> {
        let dir = std::path::absolute(or_here(dir))?;
        let (existing, is_itself) = existing(&dir)?;
        let way_up = existing.ancestors().map(|dir| {
            let found: Metadata = fs::metadata(dir)?;
            Ok(Identity {
                device: found.dev(),
                inode: found.ino(),
            })
        });
        let way_up: Vec<_> = way_up.collect::<io::Result<_>>()?;
        Ok(Self {
            own: way_up.first().copied().filter(|_| is_itself),
            way_up,
        })
    }

    fn is_in(&self, other: &Self) -> bool {
        other.own.is_some_and(|own| self.way_up.contains(&own))
    }
}

/// The nearest directory above a path that exists, without links, and whether it is the path's own.
fn existing(dir: &Path) -> io::Result<(PathBuf, bool)> {
    for (level, dir) in dir.ancestors().enumerate() {
        match fs::canonicalize(dir) {
            Ok(found) => return Ok((found, level == 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_missing_directories_make_no_difference() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for dir in ["shop/wal", "elsewhere"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("shop"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(root.join("shop/wal"), root.join("elsewhere/in")).unwrap();
        let shop = root.join("shop");
        for (dir, expected) in [
            ("shop", true),
            ("shop/.", true),
            ("elsewhere/../shop/wal", true),
            ("shop/new/copy", true),
            ("link", true),
            ("link/copy", true),
            ("elsewhere/in/copy", true),
            ("", true),
            ("elsewhere", false),
            ("shop-copy", false),
            ("new/shop", false),
        ] {
            let dir = root.join(dir);
            assert_eq!(
                is_one_in_the_other(&shop, &dir).unwrap(),
                expected,
                "{}",
                dir.display()
            );
            assert_eq!(is_one_in_the_other(&dir, &shop).unwrap(), expected);
        }
    }
}
