//! Making certain what a reader found at the end of a stream.
//!
//! The last frame of a generation that was neither closed nor sealed may be readable and yet not
//! durable: its write was reported as failed, or its writer was killed before the device had
//! answered. It could vanish in a power cut after the generation was sealed with it, or after its
//! content was shown. So it is written once more, in its place, as it was read.
//!
//! Only the last frame is in doubt, because the one before was durable before it was begun.

use std::io;
use std::path::Path;
use std::sync::Arc;

use namiki_platform::WorkerId;
use namiki_platform::disk::{AlignedBuf, Disk};

use super::{ReadError, StreamEnd};
use crate::format::log_file::{file_name, stream_dir};
use crate::format::region::{Ring, region_base};
use crate::generation::GenerationInfo;
use crate::generation::layout_config::Placement;

/// Makes durable what was read up to `end`. To be called when recovery has read a stream of a
/// generation without a seal, before the seal is written and before anything of it is shown.
///
/// # Errors
/// [`ReadError::Device`]: the generation must not be sealed then.
pub fn harden_tail(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    info: &GenerationInfo,
    worker: WorkerId,
    end: &StreamEnd,
) -> Result<(), ReadError> {
    if info.seal.is_some() || end.frames == 0 {
        return Ok(());
    }
    let tail = end.tail;
    match &info.placement {
        Placement::Files { .. } => {
            let path = stream_dir(dir, worker).join(file_name(info.generation, tail.file_number));
            rewrite(&**disk, &path, tail.offset, tail.bytes)
        }
        Placement::Shared { path, region_bytes } => {
            let base = region_base(worker, *region_bytes).unwrap_or_default();
            let ring = Ring::of_region(base, *region_bytes, tail.block_bytes as usize);
            for (at, bytes) in ring.pieces(tail.offset, tail.bytes) {
                rewrite(&**disk, path, at, bytes)?;
            }
            // The head, in whichever of the two slots: either content of either slot will do.
            rewrite(&**disk, path, base, 2 * tail.block_bytes)
        }
    }
}

/// Number of bytes written at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Writes a stretch of a file as it is, piece by piece, and as much around it as makes whole
/// blocks. That is older and durable, or no frame; written again as it was read it is not changed,
/// however that ends.
fn rewrite(disk: &dyn Disk, path: &Path, offset: u64, bytes: u64) -> Result<(), ReadError> {
    let failed = |source| ReadError::device(path, source);
    let file = disk.open(path).map_err(failed)?;
    let block = file.block_bytes() as u64;
    let from = offset / block * block;
    let to = (offset + bytes).next_multiple_of(block);
    let mut buf = AlignedBuf::zeroed((to - from).min(PIECE_BYTES) as usize);
    for at in (from..to).step_by(PIECE_BYTES as usize) {
        let piece = &mut buf[..(to - at).min(PIECE_BYTES) as usize];
        let got = file.read_at(at, piece).map_err(failed)?;
        if got < piece.len() {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_durable(at, piece).map_err(failed)?;
    }
    Ok(())
}
