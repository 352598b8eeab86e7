//! Reading a stretch of a file that begins and ends anywhere: direct reads want whole pages.

use std::io;
use std::ops::Range;

use super::{AlignedBuf, BUFFER_ALIGN_BYTES, DiskFile};

/// A stretch of a file, in the pages that it lies in.
pub struct UnalignedRead {
    pages: AlignedBuf,
    range: Range<usize>,
}

impl UnalignedRead {
    /// The bytes that were asked for; fewer only at the end of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.pages[self.range.clone()]
    }
}

impl AsRef<[u8]> for UnalignedRead {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Reads `len` bytes at `offset`.
///
/// # Errors
/// The error of the device.
pub fn read_unaligned(file: &dyn DiskFile, offset: u64, len: usize) -> io::Result<UnalignedRead> {
    let before = (offset % BUFFER_ALIGN_BYTES as u64) as usize;
    let mut pages = AlignedBuf::zeroed((before + len).next_multiple_of(BUFFER_ALIGN_BYTES));
    let got = file.read_at(offset - before as u64, &mut pages)?;
    let range = before.min(got)..(before + len).min(got);
    Ok(UnalignedRead { pages, range })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, SimDisk};

    #[test]
    fn any_stretch_of_a_file_is_read() {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/f"), 9 * 1024).unwrap();
        let mut bytes = AlignedBuf::zeroed(9 * 1024);
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at % 251) as u8;
        }
        file.write_durable(0, &bytes).unwrap();
        for offset in [0, 1, 4095, 4096, 5000, 9215, 9216, 20_000] {
            for len in [0, 1, 511, 4096, 8193] {
                let read = read_unaligned(&*file, offset, len).unwrap();
                let from = (offset as usize).min(bytes.len());
                let to = (offset as usize + len).min(bytes.len());
                assert!(read.bytes() == &bytes[from..to], "{offset} {len}");
            }
        }
    }
}
