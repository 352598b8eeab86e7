//! The payload index: name → generation, log file, offset.
//!
//! A name does not determine a place: payloads of one worker may arrive in any order, from several
//! leaders, and repeatedly. The index is rebuilt from the log at every opening. It takes little
//! more than 24 bytes for a payload, because a leader numbers what a worker seals: chunks of 64
//! slots each, in the order of (term, number).
//!
//! A truncation at entry S, of term T, drops names: those of entries through S, and those of terms
//! below T, which no entry above S has. A payload of term T without an entry stays: its leader may
//! have sealed it and not proposed it yet. But numbers of a worker are proposed in their order: if an
//! entry above S has number n, those below n are in entries through S, also if they came here without
//! their entries, as an image was installed. A file that has no payload left in the index is not needed.
//!
//! # Invariants
//! - P1. A payload is in the index from before its append returns. Its position is there before the flush returns that
//!   makes it durable.
//! - P2. A slot's position is that of a payload with the slot's length and digest.
//! - P3. A name belongs to one entry for ever: a leader proposes a payload once, and an index and a
//!   term determine the entry.
//! - P4. A file's count of payloads is that of the slots with its number.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_log::{FramePosition, GroupResource};
use namiki_platform::Generation;
use parking_lot::Mutex;

use super::log_suffix::LogPosition;
use crate::entry::{PayloadName, PayloadRef};
use crate::fault_injection::{Fault, FaultInjection};

/// Header of a payload's record: term and number.
pub(super) const PAYLOAD_HEADER_BYTES: usize = 16;

/// Slots in a chunk.
const CHUNK: u64 = 64;
/// The file of a slot that holds nothing.
const NOTHING: u32 = 0;
/// The file of a slot while its payload is in a buffer.
const BUFFERED: u32 = u32::MAX;

/// Chunks that a truncation looks at under one lock.
const CHUNKS_AT_ONCE: usize = 64;

/// A payload, with the number of its file in the list, from 1.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Index of its entry; 0 if it is not known.
    entry: u64,
    file: u32,
    offset: u32,
    length: u32,
    digest: u32,
}

impl Slot {
    fn is_empty(&self) -> bool {
        self.file == NOTHING && self.entry == 0
    }

    /// Its file, if it has a place.
    fn placed_in(&self) -> Option<u32> {
        (self.file != NOTHING && self.file != BUFFERED).then_some(self.file)
    }
}

/// A payload's place on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadPlace {
    pub(super) generation: Generation,
    pub(super) file_number: u64,
    pub(super) offset: u32,
}

/// A log file with payloads.
#[derive(Clone, Copy)]
struct PayloadFile {
    generation: Generation,
    number: u64,
    /// Number of its payloads that are in the index.
    payloads: u32,
}

type Chunk = [Slot; CHUNK as usize];

/// The payloads of one worker.
#[derive(Default)]
struct WorkerPayloads {
    chunks: BTreeMap<(u64, u64), Box<Chunk>>,
    /// The log files, in the order in which they came.
    files: VecDeque<PayloadFile>,
    /// Number of files that were forgotten.
    forgotten: u32,
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
        let (generation, number) = (position.generation, position.file_number);
        let is_last = |it: &PayloadFile| (it.generation, it.number) == (generation, number);
        if !self.files.back().is_some_and(is_last) {
            self.files.push_back(PayloadFile {
                generation,
                number,
                payloads: 0,
            });
        }
        // A node with 2^32 log files of a worker is beyond any disk.
        self.forgotten + self.files.len() as u32
    }

    fn of_number(&mut self, file: u32) -> Option<&mut PayloadFile> {
        let at = file.checked_sub(self.forgotten + 1)?;
        self.files.get_mut(at as usize)
    }

    /// Counts payloads that leave their files.
    fn leave(&mut self, files: impl IntoIterator<Item = u32>) {
        for file in files {
            if let Some(file) = self.of_number(file) {
                file.payloads -= 1;
            }
        }
    }

    /// Forgets the first files as far as nothing is in them; the last one may be written.
    fn forget_files(&mut self) {
        while self.files.len() > 1
            && let Some(first) = self.files.front()
            && first.payloads == 0
        {
            self.files.pop_front();
            self.forgotten += 1;
        }
    }
}

/// The names that a truncation drops.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    snapshot: LogPosition,
    /// Payloads of the snapshot's term through this number were in an earlier snapshot.
    through: u64,
    by_age: bool,
}

impl Dropped {
    fn has(&self, term: u64, number: u64, slot: &Slot) -> bool {
        let is_in_snapshot = (1..=self.snapshot.index).contains(&slot.entry);
        let has_no_entry = slot.entry == 0 && (self.by_age || number <= self.through);
        term < self.snapshot.term || term == self.snapshot.term && (is_in_snapshot || has_no_entry)
    }
}

/// The payloads of all workers.
pub(super) struct PayloadIndex {
    workers: Box<[Mutex<WorkerPayloads>]>,
    planted: FaultInjection,
}

impl PayloadIndex {
    pub(super) fn new(workers: u16, planted: FaultInjection) -> Self {
        Self {
            workers: (0..workers).map(|_| Mutex::default()).collect(),
            planted,
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
            let at = (slot.file - worker.forgotten) as usize - 1;
            let PayloadFile {
                generation, number, ..
            } = worker.files[at];
            PayloadPlace {
                generation,
                file_number: number,
                offset: slot.offset,
            }
        });
        Some((payload, place))
    }

    /// The entry of this index has this payload, which may be here or not.
    pub(super) fn note_entry(&self, name: PayloadName, index: u64) {
        if let Some(worker) = self.workers.get(usize::from(name.worker)) {
            worker.lock().slot(name).entry = index;
        }
    }

    /// Of each worker, the last payload of the snapshot's term that is in the snapshot, and that has
    /// none before it that is not, as far as the index tells. `before` has those of an earlier snapshot of
    /// that term.
    pub(super) fn payloads_through(&self, snapshot: LogPosition, before: &[u64]) -> Vec<u64> {
        let mut found = Vec::with_capacity(self.workers.len());
        for worker in 0..self.workers.len() {
            let before = before.get(worker).copied().unwrap_or(0);
            let dropped = self.dropped(snapshot, before);
            let (mut last, mut first_kept) = (before, u64::MAX);
            // The first one with an entry above the snapshot.
            let mut first_above = u64::MAX;
            self.each_chunk(worker, snapshot.term, |_, (term, chunk_number), chunk| {
                for (number, slot) in (chunk_number * CHUNK..).zip(chunk.iter()) {
                    if term < snapshot.term || slot.is_empty() {
                        continue;
                    }
                    if dropped.has(term, number, slot) {
                        last = last.max(number);
                    } else {
                        first_kept = first_kept.min(number);
                    }
                    if slot.entry > snapshot.index {
                        first_above = first_above.min(number);
                    }
                }
            });
            let through = last.min(first_kept.saturating_sub(1));
            found.push(match first_above {
                u64::MAX => through,
                // Numbers are proposed in their order.
                number => through.max(number.saturating_sub(1)),
            });
        }
        found
    }

    /// Drops the names that are not needed behind a durable snapshot. `through` has, of each
    /// worker, the last payload of the snapshot's term in an earlier snapshot.
    pub(super) fn truncate(&self, snapshot: LogPosition, through: &[u64]) {
        for worker in 0..self.workers.len() {
            let dropped = self.dropped(snapshot, through.get(worker).copied().unwrap_or(0));
            let mut gone = Vec::new();
            self.each_chunk(
                worker,
                snapshot.term,
                |files, (term, chunk_number), chunk| {
                    for (number, slot) in (chunk_number * CHUNK..).zip(chunk.iter_mut()) {
                        // A payload in a buffer goes at a later truncation.
                        if slot.file != BUFFERED && dropped.has(term, number, slot) {
                            files.extend(slot.placed_in());
                            *slot = Slot::default();
                        }
                    }
                    if chunk.iter().all(Slot::is_empty) {
                        gone.push((term, chunk_number));
                    }
                },
            );
            let mut worker = self.workers[worker].lock();
            for key in gone {
                let chunk = worker.chunks.get(&key);
                if chunk.is_some_and(|chunk| chunk.iter().all(Slot::is_empty)) {
                    worker.chunks.remove(&key);
                }
            }
        }
    }

    fn dropped(&self, snapshot: LogPosition, through: u64) -> Dropped {
        Dropped {
            snapshot,
            through,
            by_age: self.planted.has(Fault::RecycleByAge),
        }
    }

    /// Calls this for each chunk of a worker, of terms through this one: with a list for the files
    /// of slots that it empties. The lock is released now and then.
    fn each_chunk(
        &self,
        worker: usize,
        last_term: u64,
        mut each: impl FnMut(&mut Vec<u32>, (u64, u64), &mut Chunk),
    ) {
        let mut from = Bound::Unbounded;
        loop {
            let mut worker = self.workers[worker].lock();
            let mut files = Vec::new();
            let (mut last, mut count) = (None, 0);
            let to = Bound::Included((last_term, u64::MAX));
            for (key, chunk) in worker.chunks.range_mut((from, to)).take(CHUNKS_AT_ONCE) {
                each(&mut files, *key, chunk);
                (last, count) = (Some(*key), count + 1);
            }
            worker.leave(files);
            match last {
                Some(key) if count == CHUNKS_AT_ONCE => from = Bound::Excluded(key),
                _ => return,
            }
        }
    }

    /// The first log file of a generation that has payloads of each worker's stream that are in the
    /// index; `None` if none has.
    pub(super) fn first_files(&self, generation: Generation) -> impl Iterator<Item = Option<u64>> {
        self.workers.iter().map(move |worker| {
            let mut worker = worker.lock();
            worker.forget_files();
            let mut files = worker.files.iter();
            let first = files.find(|it| it.generation == generation && it.payloads > 0);
            first.map(|it| it.number)
        })
    }

    /// Records a payload that is in a buffer. Another of its name is forgotten.
    pub(super) fn buffer(&self, payload: &PayloadRef) {
        let mut worker = self.workers[usize::from(payload.name.worker)].lock();
        let slot = worker.slot(payload.name);
        let before = slot.placed_in();
        *slot = Slot {
            entry: slot.entry,
            file: BUFFERED,
            offset: 0,
            length: payload.length,
            digest: payload.digest,
        };
        worker.leave(before);
    }

    /// Forgets the place of a payload, which then is not here. What is known of its entry stays.
    pub(super) fn forget_place(&self, payload: &PayloadRef) {
        let Some(worker) = self.workers.get(usize::from(payload.name.worker)) else {
            return;
        };
        let mut worker = worker.lock();
        let slot = worker.slot(payload.name);
        let placed_in = slot.placed_in();
        if placed_in.is_some() && (slot.length, slot.digest) == (payload.length, payload.digest) {
            let entry = slot.entry;
            *slot = Slot {
                entry,
                ..Slot::default()
            };
            worker.leave(placed_in);
        }
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
            // P2: another of its name may be in a buffer by now.
            if slot.file == BUFFERED
                && (slot.length, slot.digest) == (payload.length, payload.digest)
            {
                slot.file = file;
                // Log files are shorter than 4 GiB.
                slot.offset = (offset + PAYLOAD_HEADER_BYTES as u64) as u32;
                if let Some(file) = worker.of_number(file) {
                    file.payloads += 1;
                }
            }
        }
    }
}

/// The payloads of the frame that is being filled or written.
#[derive(Default)]
pub(super) struct BufferedPayloads {
    index: Option<Arc<PayloadIndex>>,
    payloads: Vec<PayloadRef>,
    /// In stream 0: gets the number of the file that a base record is in.
    base: Option<Arc<AtomicU64>>,
}

impl BufferedPayloads {
    /// Adds a payload that is appended, under the stream's lock.
    pub(super) fn push(&mut self, index: &Arc<PayloadIndex>, payload: PayloadRef) {
        index.buffer(&payload);
        self.payloads.push(payload);
        self.index.get_or_insert_with(|| Arc::clone(index));
    }

    /// Adds a base record, under the lock of stream 0. `file_number` is set when it is durable.
    pub(super) fn push_base(&mut self, file_number: Arc<AtomicU64>) {
        self.base = Some(file_number);
    }
}

impl GroupResource for BufferedPayloads {
    fn written(&mut self, position: FramePosition) {
        if let Some(index) = &self.index {
            index.place(&self.payloads, &position);
        }
        if let Some(file_number) = &self.base {
            // Release pairs with the loads in `base.rs`.
            file_number.store(position.file_number, Ordering::Release);
        }
    }

    fn release(&mut self) {
        self.payloads.clear();
        self.base = None;
    }

    fn is_empty(&self) -> bool {
        self.payloads.is_empty() && self.base.is_none()
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
        let index = PayloadIndex::new(2, FaultInjection::default());
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
        let index = PayloadIndex::new(2, FaultInjection::default());
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
