//! Page reads of a thread: one read for all tasks that wait for a page, submitted in batches.

mod page_reads;
mod pending_reads;
mod window;
mod window_reads;

pub(crate) use pending_reads::{PendingReads, ReadId};
pub(crate) use window::Window;
