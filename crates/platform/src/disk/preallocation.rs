//! Room on a disk that is taken ahead, so that nothing else takes it.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::unnamed_file;

/// Room on a disk that nothing else can take, until it is given up: what is about to be written
/// gives up as much before. It has no name, and is gone when it is dropped and with its process.
pub trait Preallocation: Send + Sync {
    /// Takes this number of bytes in all: more than before, or fewer.
    ///
    /// # Errors
    /// `StorageFull`, and as many are taken as before; otherwise the error of the device.
    fn resize(&self, bytes: u64) -> io::Result<()>;

    /// The bytes of the device; `None` if it does not say.
    ///
    /// # Errors
    /// The error of the device.
    fn space(&self) -> io::Result<Option<DiskSpace>>;
}

/// The bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process can still take.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
}

/// Room in a file without a name.
pub(super) struct FilePreallocation(File);

impl FilePreallocation {
    /// None yet, on the device of `dir`.
    pub(super) fn in_dir(dir: &Path) -> io::Result<Self> {
        unnamed_file::open(dir, OFlags::empty()).map(Self)
    }
}

impl Preallocation for FilePreallocation {
    fn resize(&self, bytes: u64) -> io::Result<()> {
        let taken = self.0.metadata()?.len();
        if bytes <= taken {
            return self.0.set_len(bytes);
        }
        let reserved = allocate(&self.0, taken, bytes - taken);
        if reserved.is_err() {
            // Releases the part that was allocated before the failure.
            self.0.set_len(taken)?;
        }
        reserved
    }

    fn space(&self) -> io::Result<Option<DiskSpace>> {
        space_of(&self.0)
    }
}

/// The bytes of the file system of a file; `None` if it does not count its blocks.
fn space_of(file: &File) -> io::Result<Option<DiskSpace>> {
    let facts = rustix::fs::fstatvfs(file)?;
    Ok((facts.f_blocks > 0).then(|| DiskSpace {
        free_bytes: facts.f_bavail.saturating_mul(facts.f_frsize),
        total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
    }))
}

/// Allocates `len_bytes` of a file from `offset` on, where it ends.
pub(super) fn allocate(file: &File, offset: u64, len_bytes: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    use rustix::io::Errno;
    if len_bytes == 0 {
        return Ok(());
    }
    // A reservation that fails half-way fills the disk for all processes until it is undone; so ask
    // first. A file system that does not count its blocks cannot be asked.
    if let Some(DiskSpace { free_bytes, .. }) = space_of(file)?
        && len_bytes > free_bytes
    {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("{len_bytes} bytes are wanted and {free_bytes} are free"),
        ));
    }
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len_bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // Not every file system can; writing the zeros reserves as well.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn room_is_taken_and_given_up_without_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let room = FilePreallocation::in_dir(dir.path()).unwrap();
        for bytes in [1 << 20, 3 << 20, 64 << 10, 0, 1 << 20] {
            room.resize(bytes).unwrap();
            // In units of 512 bytes.
            assert!(room.0.metadata().unwrap().blocks() * 512 >= bytes);
            assert_eq!(room.0.metadata().unwrap().len(), bytes);
        }
        let error = room.resize(1 << 60).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(room.0.metadata().unwrap().len(), 1 << 20);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
