//! Disk space in the directory of a database, reserved for its manifest: `ROOM`, a file that is
//! never read.
//!
//! On a full disk no file can be replaced: no database could be opened, and no table dropped, which
//! would free space. There, the file is removed first, and created again once the old manifest is
//! removed. A crash between the two leaves a database without it; a copy of a database may lack it,
//! too. The next opening creates it if the disk has room.

use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::disk::{Disk, is_full};

/// The least that is reserved: a manifest, and the directories of a few more streams.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// The unit in which file systems count.
const BLOCK_BYTES: u64 = 4096;

/// The name of the file.
pub(crate) const NAME: &str = "ROOM";

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Reserves room for a manifest of `len_bytes`, if the disk has it.
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
    // If the disk has less room, as much as it has. The reservation is optional.
    let least = len_bytes.next_multiple_of(BLOCK_BYTES);
    let mut sizes = (least..=bytes).rev().step_by(BLOCK_BYTES as usize);
    if sizes.any(|bytes| disk.create(&path, bytes).is_ok()) {
        let _ = disk.sync_dir(dir);
    }
}

/// Runs `body`, and once more without the reserved room if the disk is full.
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

/// Releases the room. Returns whether any was reserved.
pub(crate) fn give_up(disk: &dyn Disk, dir: &Path) -> bool {
    let removed = disk.remove(&path(dir));
    removed.and_then(|()| disk.sync_dir(dir)).is_ok()
}
