//! Room on a simulated disk that is taken ahead. A crash gives it up, as it does files without a
//! name.

use std::io;

use super::SimDisk;
use crate::disk::{DiskSpace, Preallocation};

/// Room of a [`SimDisk`], none at first.
pub(super) struct SimPreallocation {
    disk: SimDisk,
    bytes: parking_lot::Mutex<u64>,
}

impl SimPreallocation {
    pub(super) fn new(disk: &SimDisk) -> Self {
        Self {
            disk: disk.clone(),
            bytes: parking_lot::Mutex::new(0),
        }
    }
}

impl Preallocation for SimPreallocation {
    fn resize(&self, bytes: u64) -> io::Result<()> {
        let mut taken = self.bytes.lock();
        let mut state = self.disk.0.state.lock();
        if bytes > *taken {
            state.require_room(bytes - *taken)?;
        }
        state.preallocated_bytes = state.preallocated_bytes - *taken + bytes;
        *taken = bytes;
        Ok(())
    }

    fn space(&self) -> io::Result<Option<DiskSpace>> {
        let state = self.disk.0.state.lock();
        let used = state.live.used_bytes() + state.preallocated_bytes;
        Ok(state.capacity_bytes.map(|total_bytes| DiskSpace {
            free_bytes: total_bytes.saturating_sub(used),
            total_bytes,
        }))
    }
}

impl Drop for SimPreallocation {
    fn drop(&mut self) {
        self.disk.0.state.lock().preallocated_bytes -= *self.bytes.lock();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Disk;

    #[test]
    fn room_that_is_taken_is_nothing_elses() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        disk.set_capacity(Some(100 << 10));
        let room = disk.preallocation(dir).unwrap().unwrap();
        room.resize(80 << 10).unwrap();
        let error = disk.create(&dir.join("a"), 40 << 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = room.resize(120 << 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        room.resize(50 << 10).unwrap();
        disk.create(&dir.join("a"), 40 << 10).unwrap();
        drop(room);
        disk.create(&dir.join("b"), 60 << 10).unwrap();
    }
}
