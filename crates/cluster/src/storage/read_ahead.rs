//! Readahead: one disk read fetches many payloads that are read in the order in which they were
//! written.
//!
//! A node that replays its log, or serves one that catches up, reads payload after payload of each
//! worker. Payloads are short if clients send one command at a time, and a direct read of a page
//! costs as much as one of a hundred pages. So a sequential reader reads a stretch of the log file
//! at once, and finds the next payloads in it.
//!
//! The bytes behind a durable payload may not be written yet when they are read. A part of a
//! stretch is returned only if it matches the digest of the requested payload; otherwise that
//! payload is read by itself.

use bytes::Bytes;
use namiki_platform::Generation;

use super::payload_index::PayloadPlace;

/// Bytes that are read at once.
const STRETCH_BYTES: usize = 512 << 10;
/// Payloads from this length on are returned without a copy.
pub(super) const COPY_BYTES_MAX: usize = 4096;
/// A reader counts as sequential if it skips no more than this: headers, and the padding of a
/// frame's last page.
const SKIP_BYTES_MAX: u64 = 64 << 10;

/// The readahead of one reader, for each worker's payloads.
#[derive(Debug, Default)]
pub struct ReadAhead {
    workers: Vec<Stretch>,
}

/// The bytes of a log file that were read last.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    file_number: Option<(Generation, u64)>,
    /// Position of the first byte in the log file.
    from: u64,
    bytes: Bytes,
    /// End of the payload that was returned last.
    position: u64,
}

impl ReadAhead {
    pub(super) fn of_worker(&mut self, worker: u16) -> &mut Stretch {
        let worker = usize::from(worker);
        if self.workers.len() <= worker {
            self.workers.resize_with(worker + 1, Stretch::default);
        }
        &mut self.workers[worker]
    }
}

impl Stretch {
    /// Number of bytes to read for a payload at this place.
    pub(super) fn bytes_to_read(&self, place: PayloadPlace, length: usize) -> usize {
        let offset = u64::from(place.offset);
        let goes_on = self.file_number == Some((place.generation, place.file_number))
            && (self.position..=self.position + SKIP_BYTES_MAX).contains(&offset);
        if goes_on {
            length.max(STRETCH_BYTES)
        } else {
            length
        }
    }

    /// The bytes at a place, if they were read.
    pub(super) fn get(&mut self, place: PayloadPlace, length: usize) -> Option<Bytes> {
        if self.file_number != Some((place.generation, place.file_number)) {
            return None;
        }
        let from = u64::from(place.offset).checked_sub(self.from)? as usize;
        let to = from.checked_add(length)?;
        let bytes = match self.bytes.get(from..to)? {
            // A slice would keep the whole stretch alive.
            short if length < COPY_BYTES_MAX => Bytes::copy_from_slice(short),
            _ => self.bytes.slice(from..to),
        };
        self.position = u64::from(place.offset) + length as u64;
        Some(bytes)
    }

    /// Stores the bytes that were read from this place on.
    pub(super) fn put(&mut self, place: PayloadPlace, bytes: Bytes) {
        *self = Self {
            file_number: Some((place.generation, place.file_number)),
            from: place.offset.into(),
            bytes,
            position: place.offset.into(),
        };
    }
}
