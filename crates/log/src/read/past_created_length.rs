//! The bytes of a log file past the length with which it was created: only zeros are valid there.

use namiki_platform::disk::{AlignedBuf, BUFFER_ALIGN_BYTES};

use super::ReadError;
use super::file_window::STRIDE_BYTES;
use super::stream_files::Extent;

/// Nothing but zeros may follow what the manifest says is the log file: it was made with that
/// length.
///
/// # Errors
/// [`ReadError::Damaged`].
pub(super) fn nothing_after(extent: &Extent) -> Result<(), ReadError> {
    let failed = |source| ReadError::device(&extent.path, source);
    let mut at = extent.end;
    if extent.file.len_bytes() <= at {
        return Ok(());
    }
    let mut buf = AlignedBuf::zeroed(STRIDE_BYTES as usize);
    // Direct reads want whole pages.
    let page = BUFFER_ALIGN_BYTES as u64;
    while let Some(data) = extent.file.next_data(at).map_err(failed)? {
        let from = at.max(data / page * page);
        let got = extent.file.read_at(from, &mut buf).map_err(failed)?;
        if let Some(byte) = buf[..got].iter().position(|byte| *byte != 0) {
            let what = "it was shorter when it was made";
            return Err(ReadError::damaged(&extent.path, from + byte as u64, what));
        }
        if got == 0 {
            break;
        }
        at = (from + got as u64).next_multiple_of(page);
    }
    Ok(())
}
