//! Files without a name, for what is tried and measured: a process that is killed leaves none
//! behind.
//!
//! Where the file system has no such files (`O_TMPFILE`), a name is taken that nothing has, and
//! given up at once. A kill between the two leaves an empty file, which the next attempt in the
//! directory removes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::directory::moved_dir::or_here;

/// The prefix of the names of files that test direct I/O where the file system has no unnamed
/// files.
pub const PROBE_FILES: &str = "direct-io-probe-";

/// The names that are tried: their number bounds the files of one process in one directory at a
/// time.
const NAMES_MAX: u32 = 10_000;

/// Opens an empty file in `dir` for reading and writing, with these additional flags.
pub(super) fn open(dir: &Path, flags: OFlags) -> io::Result<File> {
    open_with(dir, flags, |flags| {
        let own = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::openat(CWD, or_here(dir), own | flags, mode).map(File::from)
    })
}

/// The same where `open_unnamed` opens a file without a name.
fn open_with(
    dir: &Path,
    flags: OFlags,
    open_unnamed: impl Fn(OFlags) -> Result<File, Errno>,
) -> io::Result<File> {
    match open_unnamed(flags) {
        Ok(file) => Ok(file),
        // The file system, or the kernel, has none.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS) => open_named(dir, flags),
        // It has none, or refuses one of the flags.
        Err(Errno::INVAL) if open_unnamed(OFlags::empty()).is_err() => open_named(dir, flags),
        Err(error) => Err(error.into()),
    }
}

/// The same under a name that is given up at once.
fn open_named(dir: &Path, flags: OFlags) -> io::Result<File> {
    remove_left(dir)?;
    for number in 0..NAMES_MAX {
        let path = dir.join(format!("{PROBE_FILES}{}-{number}", process::id()));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(flags.bits() as i32)
            .open(&path);
        if let Err(error) = &opened
            && error.kind() == io::ErrorKind::AlreadyExists
        {
            continue;
        }
        // Also after a failure: a file system without direct I/O fails after creating the file.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return opened,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!(
            "all names of files {PROBE_FILES} in {} are taken",
            dir.display()
        ),
    ))
}

/// Removes what a kill has left. A name of a process that runs is given up by that process as well.
fn remove_left(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(or_here(dir))? {
        let entry = entry?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_probe(&entry.file_name().to_string_lossy()) {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a name is one that is given to a probe, and not just begins like one.
fn is_probe(name: &str) -> bool {
    let numbers = name
        .strip_prefix(PROBE_FILES)
        .and_then(|numbers| numbers.split_once('-'));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_open_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        for open in [open, open_named] {
            let file = open(dir.path(), OFlags::empty()).unwrap();
            assert_eq!(names(dir.path()), [""; 0]);
            file.write_all_at(b"namiki", 0).unwrap();
            let mut back = [0; 6];
            file.read_exact_at(&mut back, 0).unwrap();
            assert_eq!(&back, b"namiki");
        }
    }

    #[test]
    fn a_file_system_without_such_files_gives_a_name() {
        let dir = tempfile::tempdir().unwrap();
        for errno in [Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOSYS, Errno::INVAL] {
            open_with(dir.path(), OFlags::empty(), |_| Err(errno)).unwrap();
            assert_eq!(names(dir.path()), [""; 0]);
        }
        // A file system without direct I/O returns an error, and needs no name.
        let missing = dir.path().join("missing");
        let refuses_flags = |flags: OFlags| {
            if flags.is_empty() {
                Ok(File::open(dir.path()).unwrap())
            } else {
                Err(Errno::INVAL)
            }
        };
        let error = open_with(&missing, OFlags::DSYNC, refuses_flags).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }

    #[test]
    fn leftover_names_are_no_obstacle_and_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let of_this = format!("{PROBE_FILES}{}-0", process::id());
        for left in [&*of_this, "direct-io-probe-1-2", "direct-io-probe-mine"] {
            fs::write(dir.path().join(left), "").unwrap();
        }
        // A name that cannot be removed.
        let taken = dir.path().join(format!("{PROBE_FILES}{}-1", process::id()));
        fs::create_dir(&taken).unwrap();
        open_named(dir.path(), OFlags::empty()).unwrap();
        fs::write(dir.path().join(&of_this), "").unwrap();
        open_named(dir.path(), OFlags::empty()).unwrap();
        let kept = names(dir.path());
        assert!(!kept.contains(&of_this), "{kept:?}");
        assert!(
            !kept.contains(&"direct-io-probe-1-2".to_owned()),
            "{kept:?}"
        );
        assert!(
            kept.contains(&"direct-io-probe-mine".to_owned()),
            "{kept:?}"
        );
    }
}
