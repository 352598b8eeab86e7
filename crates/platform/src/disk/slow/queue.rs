//! Asynchronous reads from slow drives: the disk below carries them out at once, and the queue
//! holds them back until their drives would have done so.
//!
//! ```text
//!  push ──▶ queue below          turn: drives say when each read is due ──▶ heap `due`
//!                                      the queue below completes it      ──▶ slot, or done if it is overdue
//!                                      its time comes                    ──▶ done, or overdue if it is not complete
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use super::drives::{Drives, sleep_until};
use crate::clock::now_ns;
use crate::disk::{Completion, DiskFile, Frames, ReadQueue};

/// A queue of reads of slow drives.
pub(super) struct SlowReads {
    below: Box<dyn ReadQueue>,
    drives: Arc<Drives>,
    /// By the tag that the queue below knows.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Pushed since the last turn, with their offsets.
    pushed: Vec<(u32, u64)>,
    /// When reads are due, and their slots.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Reads that are due and wait for the disk below.
    overdue: usize,
    in_flight: usize,
    depth: usize,
    /// Reused.
    arrived: Vec<Completion>,
    description: String,
}

/// A read in flight.
#[derive(Default)]
struct Slot {
    tag: u64,
    complete: Option<Completion>,
    overdue: bool,
}

impl SlowReads {
    pub(super) fn new(below: Box<dyn ReadQueue>, depth: usize, drives: Arc<Drives>) -> Self {
        let (kind, how) = (drives.kind(), below.describe());
        Self {
            description: format!(
                "EMULATED: {} slow drives of {:?} a read, in front of {how}",
                kind.units, kind.latency
            ),
            below,
            drives,
            slots: Vec::new(),
            free: Vec::new(),
            pushed: Vec::new(),
            due: BinaryHeap::new(),
            overdue: 0,
            in_flight: 0,
            depth: depth.max(1),
            arrived: Vec::new(),
        }
    }

    /// Gives out the read of a slot, with its caller's tag.
    fn give(&mut self, number: u32, mut completion: Completion, done: &mut Vec<Completion>) {
        completion.tag = self.slots[number as usize].tag;
        self.free.push(number);
        self.in_flight -= 1;
        done.push(completion);
    }

    /// Lets the disk below work, and takes what it has completed.
    fn turn_below(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let turned = self.below.turn(at_least, &mut arrived);
        for completion in arrived.drain(..) {
            let number = completion.tag as u32;
            let slot = &mut self.slots[number as usize];
            if slot.overdue {
                self.overdue -= 1;
                self.give(number, completion, done);
            } else {
                slot.complete = Some(completion);
            }
        }
        self.arrived = arrived;
        turned
    }

    /// Gives out all complete reads whose time has come.
    fn take_due(&mut self, done: &mut Vec<Completion>) {
        let now = now_ns();
        while let Some(Reverse((due_ns, number))) = self.due.peek().copied() {
            if due_ns > now {
                return;
            }
            self.due.pop();
            let slot = &mut self.slots[number as usize];
            match slot.complete.take() {
                Some(completion) => self.give(number, completion, done),
                None => {
                    slot.overdue = true;
                    self.overdue += 1;
                }
            }
        }
    }
}

impl ReadQueue for SlowReads {
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames> {
        // Reads that are complete and held back are in flight here, and no longer below.
        if self.in_flight == self.depth {
            return Err(frames);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let file = file.below().unwrap_or(file);
        if let Err(frames) = self.below.push(file, at, frames, number.into()) {
            self.free.push(number);
            return Err(frames);
        }
        self.slots[number as usize] = Slot {
            tag,
            ..Slot::default()
        };
        self.pushed.push((number, at));
        self.in_flight += 1;
        Ok(())
    }

    fn turn(&mut self, at_least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let end = done.len() + at_least.min(self.in_flight);
        for (number, at) in self.pushed.drain(..) {
            self.due.push(Reverse((self.drives.assign(at), number)));
        }
        loop {
            self.turn_below(0, done)?;
            self.take_due(done);
            if done.len() >= end {
                return Ok(());
            }
            match self.due.peek() {
                // A read of the disk below takes longer than its drive.
                _ if self.overdue > 0 => self.turn_below(1, done)?,
                Some(Reverse((due_ns, _))) => sleep_until(*due_ns),
                None => {}
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn describe(&self) -> &str {
        &self.description
    }
}
