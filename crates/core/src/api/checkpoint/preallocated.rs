//! Room on the disk for the next checkpoint, taken ahead: a checkpoint frees log, and must not fail for lack of room while
//! the log takes what is left.
//!
//! How much that will be is an estimate: all of the image is written again, and a quarter of the log since it is new rows.
//! While a checkpoint writes, it gives up as much room as it is about to write; if the log could not grow beside without
//! taking that, it does not grow meanwhile. What was given up is taken back at its end, before the log grows again, however
//! it ended. Where there is less room than wanted at other times, half of what is left is taken, and the log has the other half.

use std::path::Path;

use namiki_platform::disk::{Disk, Preallocation, is_full};
use parking_lot::Mutex;

/// Room is taken in units of so many bytes.
const UNIT_BYTES: u64 = 32 << 20;
/// Room is given up at least so many bytes before it is written to, beside what a run holds back: a piece of rows, what the
/// writer of a segment holds back of it, its index and the image's list.
const AHEAD_BYTES: u64 = 4 << 20;

/// The room that is taken.
pub(super) struct PreallocatedBytes {
    room: Option<Box<dyn Preallocation>>,
    unit_bytes: u64,
    /// Room is given up so many bytes before it is written to.
    ahead_bytes: u64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    taken_bytes: u64,
    /// There was less than was wanted.
    is_short: bool,
}

/// What a checkpoint is expected to write: the bytes of the image's files, and of the log since.
pub(super) fn expected_bytes(image_file_bytes: u64, log_bytes_since: u64) -> u64 {
    match (image_file_bytes, log_bytes_since) {
        (_, 0) => 0,
        (0, since) => since,
        (image, since) => image.saturating_add(since / 4),
    }
}

impl PreallocatedBytes {
    /// None yet, on the device of `dir`. A disk that cannot take any has none. Checkpoints are taken each `log_bytes` of log,
    /// and hold up to `held_bytes` back before they write them.
    pub(super) fn new(disk: &dyn Disk, dir: &Path, log_bytes: u64, held_bytes: u64) -> Self {
        let takes_any = log_bytes < u64::MAX;
        // A small one for small logs, for tests.
        let unit_bytes = UNIT_BYTES.min(log_bytes / 4).max(1);
        Self {
            room: takes_any
                .then(|| disk.preallocation(dir).ok())
                .flatten()
                .flatten(),
            unit_bytes,
            ahead_bytes: unit_bytes.max(AHEAD_BYTES.saturating_add(held_bytes)),
            state: Mutex::default(),
        }
    }

    /// Takes room for so many bytes, if there is more wanted than is taken.
    pub(super) fn take(&self, wanted_bytes: u64) {
        let Some(room) = &self.room else { return };
        let mut state = self.state.lock();
        let bytes = wanted_bytes.next_multiple_of(self.unit_bytes);
        // Less than a unit is not worth its while.
        if wanted_bytes < self.unit_bytes || bytes <= state.taken_bytes {
            return;
        }
        match room.resize(bytes) {
            Ok(()) => {
                *state = State {
                    taken_bytes: bytes,
                    is_short: false,
                }
            }
            Err(error) if is_full(&error) => {
                // The share of the log is not taken at the next call.
                if !std::mem::replace(&mut state.is_short, true) {
                    state.taken_bytes = self.take_half(&**room, state.taken_bytes, bytes);
                }
            }
            Err(_) => {}
        }
    }

    /// Takes so many bytes again, of which some were given up, or as much of that as there is.
    pub(super) fn take_back(&self, bytes: u64) {
        let Some(room) = &self.room else { return };
        let mut state = self.state.lock();
        let mut more = bytes.saturating_sub(state.taken_bytes);
        while more >= self.unit_bytes {
            let taken_bytes = state.taken_bytes + more;
            if taken_bytes <= bytes && room.resize(taken_bytes).is_ok() {
                state.taken_bytes = taken_bytes;
            }
            more /= 2;
        }
    }

    /// Takes some room beside what is taken, so that as much is left. Returns what is taken then.
    fn take_half(&self, room: &dyn Preallocation, taken: u64, wanted: u64) -> u64 {
        let mut more = (wanted - taken) / 2;
        while more >= self.unit_bytes {
            if room.resize(taken + 2 * more).is_ok() {
                return match room.resize(taken + more) {
                    Ok(()) => taken + more,
                    Err(_) => taken + 2 * more,
                };
            }
            more /= 2;
        }
        taken
    }

    /// Whether so many bytes are free beside what is taken.
    pub(super) fn is_free_beside(&self, bytes: u64) -> bool {
        let Some(room) = &self.room else { return true };
        let state = self.state.lock();
        let is_free = room.resize(state.taken_bytes.saturating_add(bytes)).is_ok();
        // If it cannot be given up again, it is taken longer than it need be, and no more.
        let _ = room.resize(state.taken_bytes);
        is_free
    }

    /// Keeps no more than so many bytes, less those that are about to be written.
    pub(super) fn give_up_to(&self, bytes: u64) {
        let Some(room) = &self.room else { return };
        let mut state = self.state.lock();
        let left = bytes.saturating_sub(self.ahead_bytes);
        let left = left - left % self.unit_bytes;
        if left < state.taken_bytes && room.resize(left).is_ok() {
            *state = State {
                taken_bytes: left,
                is_short: false,
            };
        }
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.state.lock().taken_bytes
    }

    /// Whether there was less room than was wanted when it was wanted last.
    pub(super) fn is_short(&self) -> bool {
        self.state.lock().is_short
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    #[test]
    fn room_grows_in_units_and_is_given_up_ahead() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        disk.set_capacity(Some(1000));
        let room = small_units(&disk, dir);
        for (wanted, taken, is_short) in [
            (0, 0, false),
            (99, 0, false),
            (101, 200, false),
            (150, 200, false),
            (930, 1000, false),
        ] {
            room.take(wanted);
            assert_eq!((room.taken_bytes(), room.is_short()), (taken, is_short));
        }
        room.give_up_to(1000);
        assert_eq!(room.taken_bytes(), 900);
        disk.create(&dir.join("a"), 100).unwrap();
        room.give_up_to(650);
        assert_eq!(room.taken_bytes(), 500);
        assert!(room.is_free_beside(400) && !room.is_free_beside(401));
        room.give_up_to(20);
        assert_eq!(room.taken_bytes(), 0);
        // Half of what is left, once.
        room.take(1600);
        assert_eq!((room.taken_bytes(), room.is_short()), (400, true));
        room.take(1700);
        assert_eq!((room.taken_bytes(), room.is_short()), (400, true));
        room.take(800);
        assert_eq!((room.taken_bytes(), room.is_short()), (800, false));
        // Where no checkpoints are taken, no room is.
        let none = PreallocatedBytes::new(&disk, dir, u64::MAX, 0);
        none.take(1 << 30);
        assert_eq!((none.taken_bytes(), none.is_short()), (0, false));
    }

    /// In units of 100 bytes, and given up no sooner than that.
    fn small_units(disk: &SimDisk, dir: &Path) -> PreallocatedBytes {
        PreallocatedBytes {
            ahead_bytes: 100,
            ..PreallocatedBytes::new(disk, dir, 400, 0)
        }
    }

    #[test]
    fn what_was_given_up_is_taken_back_whole() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        disk.set_capacity(Some(1050));
        let room = small_units(&disk, dir);
        room.take(1000);
        room.give_up_to(500);
        assert_eq!(room.taken_bytes(), 400);
        room.take_back(1000);
        assert_eq!(room.taken_bytes(), 1000);
        // As much as there is, but for less than two units.
        room.give_up_to(100);
        disk.create(&dir.join("a"), 330).unwrap();
        room.take_back(1000);
        assert!((621..=720).contains(&room.taken_bytes()));
        // No more than was asked for.
        room.take_back(300);
        assert!(room.taken_bytes() > 300);
    }

    #[test]
    fn nothing_is_expected_of_an_idle_database() {
        assert_eq!(expected_bytes(1000, 0), 0);
        assert_eq!(expected_bytes(0, 80), 80);
        assert_eq!(expected_bytes(1000, 80), 1020);
    }
}
