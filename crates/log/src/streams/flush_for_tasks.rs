//! Serving tasks: the flusher does for them what a thread that waits does for itself.
//!
//! A round looks at what every stream is wanted for (`stream/task_demand.rs`). Where tasks wait for
//! one stream, its batch is led; where they wait for several, the batches are submitted and then
//! completed, so that the device has all of them at once. Entries appended during a round belong to
//! the next one. After its group, a commit may need an LSN covered or an epoch certified, which is
//! then done at once, as by a thread.

use std::num::NonZeroU32;
use std::time::Instant;

use namiki_platform::sync::Ordering;
use namiki_platform::{Epoch, Lsn};

use crate::config::GroupResource;
use crate::streams::Streams;

impl<H: GroupResource> Streams<H> {
    /// Serves what tasks want now. Returns when to look again, unless it is called before: a group
    /// waits until then for more commits.
    pub(crate) fn serve_tasks(&self) -> Option<Instant> {
        if self.shared.poison.get().is_some() {
            return None;
        }
        let due = self.serve_streams();
        let mut wanted = 0;
        let mut home = 0;
        for (index, stream) in self.list.iter().enumerate() {
            let of_stream = stream.take_demand();
            if of_stream > wanted {
                (wanted, home) = (of_stream, index);
            }
        }
        let of_readers = &self.shared.demanded;
        if of_readers.load(Ordering::Relaxed) > 0 {
            wanted = wanted.max(of_readers.swap(0, Ordering::Acquire));
        }
        if wanted > 0 {
            self.acknowledge(wanted, home);
        }
        due
    }

    fn serve_streams(&self) -> Option<Instant> {
        let demanded = || self.list.iter().filter(|stream| stream.is_demanded());
        let is_allowed = self.shared.async_flush_min_commits != Some(NonZeroU32::MAX);
        let submits = is_allowed && demanded().count() > 1;
        let due = demanded().filter_map(|stream| stream.serve(submits)).min();
        demanded().for_each(|stream| stream.complete_demanded());
        due
    }

    /// Has everything acknowledged through this LSN or epoch. What goes wrong, tasks find out.
    fn acknowledge(&self, through: u64, home: usize) {
        if let Some(epochs) = &self.shared.epochs {
            let epoch = Epoch(through);
            if let Err(error) = self.certify(epochs, epoch, home)
                && error.is_refusal()
            {
                epochs.refuse(epoch, error);
            }
            return;
        }
        drop(self.cover(Lsn(through)));
        // A stream that seemed to lag, because an append had just begun, was not flushed for it.
        for stream in &self.list {
            stream.ack_waiters.announce();
            drop(stream.wake_on_drop());
        }
    }
}
