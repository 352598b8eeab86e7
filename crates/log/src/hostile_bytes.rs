//! For tests with hostile bytes outside of this crate: files of a log that were changed get the
//! right checksums, so that what is behind the checksum is reached.

use crate::format::frame::{self, Salt};
use crate::format::{BLOCK_BYTES_MIN, log_file, region};

/// Gives everything in a file that begins as a log file's header, the head of a region or a frame
/// the checksum of what it holds now. `file_number` is the number of the file, 0 for a shared
/// device.
pub fn mend_checksums(identity: u128, file_number: u64, file: &mut [u8]) {
    log_file::mend_checksum(file);
    for at in (0..file.len()).step_by(BLOCK_BYTES_MIN) {
        region::mend_checksum(&mut file[at..]);
        frame::mend_checksum(
            &mut file[at..],
            Salt::of(identity).at(file_number, at as u64),
        );
    }
}
