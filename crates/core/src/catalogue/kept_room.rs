//! A little room in the directory of a database, kept for its manifest: `ROOM`, a file that nothing reads.
//!
//! On a disk without a free byte no file can be replaced, and so no database could be opened, and no table dropped, which
//! would make room. There, the file goes first, and is made again once the old manifest is gone. A crash between the two
//! leaves a database without it, as a copy of one may be; the next opening makes it where there is room.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::{Disk, is_full};

/// The least that is kept: a manifest, and the directories of a few more streams.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// The unit in which file systems count.
const BLOCK_BYTES: u64 = 4096;

/// The name of the file.
pub(crate) const NAME: &str = "ROOM";

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Makes sure that there is room for a manifest of `len_bytes`, if there is room for the room.
pub(crate) fn keep(disk: &dyn Disk, dir: &Path, len_bytes: u64) {
    let bytes = (2 * len_bytes)
        .next_multiple_of(ROOM_BYTES_MIN)
        .max(ROOM_BYTES_MIN);
    let path = path(dir);
    match disk.open(&path) {
        Ok(file) if file.len_bytes() >= len_bytes => return,
        Ok(_) => drop(disk.remove(&path)),
        Err(_) => {}
    }
    // As much as there is, where that is not so much. Without it, all else goes on.
    let least = len_bytes.next_multiple_of(BLOCK_BYTES);
    let mut sizes = (least..=bytes).rev().step_by(BLOCK_BYTES as usize);
    if sizes.any(|bytes| disk.create(&path, bytes).is_ok()) {
        let _ = disk.sync_dir(dir);
    }
}

/// Does this, and once more without the room that is kept if the disk is full.
///
/// # Errors
/// Those of `body`.
pub(crate) fn with<T>(
    disk: &dyn Disk,
    dir: &Path,
    mut body: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match body() {
        Err(error) if is_full(&error) && give_up(disk, dir) => body(),
        done => done,
    }
}

/// Gives the room up. Returns whether there was any.
pub(crate) fn give_up(disk: &dyn Disk, dir: &Path) -> bool {
    let removed = disk.remove(&path(dir));
    removed.and_then(|()| disk.sync_dir(dir)).is_ok()
}
