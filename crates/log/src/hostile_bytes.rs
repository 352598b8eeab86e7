//! For tests with hostile bytes outside of this crate: files of a log that were changed get the right checksums, so that what
//! is behind the checksum is reached.

use namiki_platform::disk::SECTOR_BYTES;

use crate::format::frame::{self, Salt};
use crate::format::{region, segment};

/// Gives everything in a file that begins as a segment's header, the head of a region or a frame the checksum of what it
/// holds now. `segment` is the number of the file, 0 for a shared device.
pub fn mend_checksums(identity: u128, segment: u64, file: &mut [u8]) {
    segment::mend_checksum(file);
    for at in (0..file.len()).step_by(SECTOR_BYTES) {
        region::mend_checksum(&mut file[at..]);
        frame::mend_checksum(&mut file[at..], Salt::of(identity).at(segment, at as u64));
    }
}
