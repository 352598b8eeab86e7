//! **Emulation**: an array of slow drives in front of a fast disk, for experiments that need a
//! paper's hardware.
//!
//! A drive serves one read at a time and takes a fixed time for each. Which one serves a read, its
//! offset says: page number modulo number of drives. So reads of one drive wait for each other, and
//! reads of different drives overlap, whichever threads and queues they come from. The bytes come
//! from the disk below, whose own time is hidden as long as it is shorter.
//!
//! A read takes that time whatever its length, as a drive's does that moves its arm. Writes, and
//! small files that are read as a whole, are not slowed down.
//!
//! A drive has no thread. It is only the time until which it is busy.
//!
//! Paper: oode §3 (192 drives, pages of 4 KiB evenly over all of them)

mod drives;
mod file;
mod queue;

use std::io;
use std::path::Path;
use std::sync::Arc;

use self::drives::Drives;
use self::file::SlowFile;
use self::queue::SlowReads;
use super::{Disk, DiskFile, DiskLayer, FramePool, ReadQueue};

pub use self::drives::SlowDrives;

/// A disk whose reads are served by emulated slow drives. Its clones share the drives.
#[derive(Clone, Debug)]
pub struct SlowDisk {
    disk: Arc<dyn Disk>,
    drives: Arc<Drives>,
}

impl SlowDisk {
    /// Such drives in front of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, drives: SlowDrives) -> Self {
        Self {
            disk,
            drives: Arc::new(Drives::new(drives)),
        }
    }

    /// The configuration of the drives.
    #[must_use]
    pub fn drives(&self) -> SlowDrives {
        self.drives.kind()
    }
}

impl DiskLayer for SlowDisk {
    fn inner(&self) -> &dyn Disk {
        &*self.disk
    }

    fn layer_file(&self, file: Arc<dyn DiskFile>, _: &Path) -> Arc<dyn DiskFile> {
        Arc::new(SlowFile {
            file,
            drives: Arc::clone(&self.drives),
        })
    }

    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        let below = self.disk.reads(depth, pool)?;
        Ok(Box::new(SlowReads::new(
            below,
            depth,
            Arc::clone(&self.drives),
        )))
    }
}
