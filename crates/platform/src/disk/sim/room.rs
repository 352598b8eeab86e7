//! Room on a simulated disk that is taken ahead. A crash gives it up, as it does files without a name.

use std::io;

use super::SimDisk;
use crate::disk::Room;

/// Room of a [`SimDisk`], none at first.
pub(super) struct SimRoom {
    disk: SimDisk,
    bytes: parking_lot::Mutex<u64>,
}

impl SimRoom {
    pub(super) fn new(disk: &SimDisk) -> Self {
        Self {
            disk: disk.clone(),
            bytes: parking_lot::Mutex::new(0),
        }
    }
}

impl Room for SimRoom {
    fn resize(&self, bytes: u64) -> io::Result<()> {
        let mut taken = self.bytes.lock();
        let mut state = self.disk.0.state.lock();
        if bytes > *taken {
            state.require_room(bytes - *taken)?;
        }
        state.room_bytes = state.room_bytes - *taken + bytes;
        *taken = bytes;
        Ok(())
    }
}

impl Drop for SimRoom {
    fn drop(&mut self) {
        self.disk.0.state.lock().room_bytes -= *self.bytes.lock();
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
        let room = disk.room(dir).unwrap().unwrap();
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
