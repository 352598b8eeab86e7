//! The payload index: name → generation, log file, offset.
//!
//! A name does not determine a place: payloads of one worker may arrive in any order, from several
//! leaders, and repeatedly. The index is rebuilt from the log at every opening. It takes little
//! more than 16 bytes for a payload, because a leader numbers what a worker seals: chunks of 64
//! slots each, in the order of (term, number).
//!
//! # Invariants
//! - X1. A payload is in the index from before its append returns. Its position is there before the flush returns that
//!   makes it durable.
//! - X2. A slot's position is that of a payload with the slot's length and digest.

use std::collections::BTreeMap;

use namiki_log::{FramePosition, GroupResource};
use namiki_platform::Generation;
use parking_lot::Mutex;
use std::sync::Arc;

use crate::entry::{PayloadName, PayloadRef};

/// Header of a payload's record: term and number.
pub(super) const PAYLOAD_HEADER_BYTES: usize = 16;

/// Slots in a chunk.
const CHUNK: u64 = 64;
/// The file of a slot that holds nothing.
const NOTHING: u32 = 0;
/// The file of a slot while its payload is in a buffer.
const BUFFERED: u32 = u32::MAX;

/// A payload, with the number of its file in the list, from 1.
#[derive(Clone, Copy, Default)]
struct Slot {
    file: u32,
    offset: u32,
    length: u32,
    digest: u32,
}

/// A payload's place on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadPlace {
    pub(super) generation: Generation,
    pub(super) file_number: u64,
    pub(super) offset: u32,
}

/// The payloads of one worker.
#[derive(Default)]
struct WorkerPayloads {
    chunks: BTreeMap<(u64, u64), Box<[Slot; CHUNK as usize]>>,
    /// Generations and log files, in the order in which they came.
    files: Vec<(Generation, u64)>,
}

impl WorkerPayloads {
    fn get(&self, name: PayloadName) -> Option<Slot> {
        let chunk = self.chunks.get(&(name.term, name.number / CHUNK))?;
        let slot = chunk[(name.number % CHUNK) as usize];
        (slot.file != NOTHING).then_some(slot)
    }

    fn slot(&mut self, name: PayloadName) -> &mut Slot {
        let empty = || Box::new([Slot::default(); CHUNK as usize]);
        let key = (name.term, name.number / CHUNK);
        let chunk = self.chunks.entry(key).or_insert_with(empty);
        &mut chunk[(name.number % CHUNK) as usize]
    }

    /// The number of a frame's file. Frames come in the order of their files.
    fn file(&mut self, position: &FramePosition) -> u32 {
        let file = (position.generation, position.file_number);
        if self.files.last() != Some(&file) {
            self.files.push(file);
        }
        // A directory with 2^32 log files of a worker is beyond any disk.
        self.files.len() as u32
    }
}

/// The payloads of all workers.
pub(super) struct PayloadIndex {
    workers: Box<[Mutex<WorkerPayloads>]>,
}

impl PayloadIndex {
    pub(super) fn new(workers: u16) -> Self {
        Self {
            workers: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// The payload of this name, and its place if it has one.
    pub(super) fn get(&self, name: PayloadName) -> Option<(PayloadRef, Option<PayloadPlace>)> {
        let worker = self.workers.get(usize::from(name.worker))?.lock();
        let slot = worker.get(name)?;
        let payload = PayloadRef {
            name,
            length: slot.length,
            digest: slot.digest,
        };
        let place = (slot.file != BUFFERED).then(|| {
            let (generation, file_number) = worker.files[slot.file as usize - 1];
            PayloadPlace {
                generation,
                file_number,
                offset: slot.offset,
            }
        });
        Some((payload, place))
    }

    /// Records a payload that is in a buffer. Another of its name is forgotten.
    pub(super) fn buffer(&self, payload: &PayloadRef) {
        let mut worker = self.workers[usize::from(payload.name.worker)].lock();
        *worker.slot(payload.name) = Slot {
            file: BUFFERED,
            offset: 0,
            length: payload.length,
            digest: payload.digest,
        };
    }

    /// Records the place of a frame with exactly these payloads on the disk.
    pub(super) fn place(&self, payloads: &[PayloadRef], position: &FramePosition) {
        let Some(first) = payloads.first() else {
            return;
        };
        let mut worker = self.workers[usize::from(first.name.worker)].lock();
        let file = worker.file(position);
        let lengths = payloads
            .iter()
            .map(|payload| PAYLOAD_HEADER_BYTES + payload.length as usize);
        for (payload, offset) in payloads.iter().zip(position.payload_offsets(lengths)) {
            let slot = worker.slot(payload.name);
            // X2: another of its name may be in a buffer by now.
            if (slot.length, slot.digest) == (payload.length, payload.digest) {
                slot.file = file;
                // Log files are shorter than 4 GiB.
                slot.offset = (offset + PAYLOAD_HEADER_BYTES as u64) as u32;
            }
        }
    }
}

/// The payloads of the frame that is being filled or written.
#[derive(Default)]
pub(super) struct BufferedPayloads {
    index: Option<Arc<PayloadIndex>>,
    payloads: Vec<PayloadRef>,
}

impl BufferedPayloads {
    /// Adds a payload that is appended, under the stream's lock.
    pub(super) fn push(&mut self, index: &Arc<PayloadIndex>, payload: PayloadRef) {
        index.buffer(&payload);
        self.payloads.push(payload);
        self.index.get_or_insert_with(|| Arc::clone(index));
    }
}

impl GroupResource for BufferedPayloads {
    fn written(&mut self, position: FramePosition) {
        if let Some(index) = &self.index {
            index.place(&self.payloads, &position);
        }
    }

    fn release(&mut self) {
        self.payloads.clear();
    }

    fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::WorkerId;

    use super::*;

    fn payload(term: u64, number: u64, bytes: &[u8]) -> PayloadRef {
        let worker = 1;
        let name = PayloadName {
            term,
            worker,
            number,
        };
        PayloadRef::of(name, bytes)
    }

    fn position(file_number: u64, offset: u64) -> FramePosition {
        FramePosition {
            generation: Generation(3),
            worker: WorkerId(2),
            file_number,
            offset,
            length: 0,
        }
    }

    #[test]
    fn payloads_are_found_by_name_in_any_order() {
        let index = PayloadIndex::new(2);
        let numbers = [1, 2, 64, 63, 1 << 50, u64::MAX, 7];
        let payloads = numbers.map(|number| payload(number % 3, number, b"1234"));
        for payload in &payloads {
            assert_eq!(index.get(payload.name), None);
            index.buffer(payload);
            assert_eq!(index.get(payload.name), Some((*payload, None)));
        }
        index.place(&payloads[..4], &position(1, 512));
        index.place(&payloads[4..], &position(2, 1024));
        for (at, payload) in payloads.iter().enumerate() {
            let (found, place) = index.get(payload.name).unwrap();
            let (file_number, first, nth) = if at < 4 {
                (1, 512, at)
            } else {
                (2, 1024, at - 4)
            };
            let offset = first + 72 + nth * (24 + 20) + 40;
            assert_eq!(found, *payload);
            let expected = PayloadPlace {
                generation: Generation(3),
                file_number,
                offset: offset as u32,
            };
            assert_eq!(place, Some(expected));
        }
        let other = PayloadName {
            worker: 0,
            ..payloads[0].name
        };
        assert_eq!(index.get(other), None);
        assert_eq!(index.get(PayloadName { worker: 9, ..other }), None);
    }

    #[test]
    fn a_replaced_payload_keeps_no_older_position() {
        let index = PayloadIndex::new(2);
        let (old, new) = (payload(1, 1, b"old"), payload(1, 1, b"new"));
        index.buffer(&old);
        index.buffer(&new);
        index.place(&[old], &position(1, 512));
        assert_eq!(index.get(new.name), Some((new, None)));
        index.place(&[new], &position(1, 1024));
        assert!(
            index
                .get(new.name)
                .is_some_and(|(_, place)| place.is_some())
        );
    }
}
