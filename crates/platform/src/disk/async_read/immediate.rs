//! Reads of what is in memory anyway: carried out within `turn`, one after the other.

use std::io;
use std::sync::Arc;

use super::read_frames::read_frames;
use super::{Completion, Frames, ReadQueue};
use crate::disk::DiskFile;

/// A queue of reads that never wait for a device.
pub(in crate::disk) struct ImmediateReads {
    pushed: Vec<(Arc<dyn DiskFile>, u64, Frames, u64)>,
    depth: usize,
    description: &'static str,
}

impl ImmediateReads {
    /// A queue of `depth` reads, at least one.
    pub(in crate::disk) fn new(depth: usize, description: &'static str) -> Self {
        Self {
            pushed: Vec::new(),
            depth: depth.max(1),
            description,
        }
    }
}

impl ReadQueue for ImmediateReads {
    fn push(
        &mut self,
        file: &Arc<dyn DiskFile>,
        at: u64,
        frames: Frames,
        tag: u64,
    ) -> Result<(), Frames> {
        if self.pushed.len() == self.depth {
            return Err(frames);
        }
        self.pushed.push((Arc::clone(file), at, frames, tag));
        Ok(())
    }

    fn turn(&mut self, _: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        done.extend(self.pushed.drain(..).map(|(file, at, mut frames, tag)| {
            let result = read_frames(&*file, at, &mut frames);
            Completion {
                tag,
                frames,
                result,
            }
        }));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.pushed.len()
    }

    fn describe(&self) -> &str {
        self.description
    }
}
