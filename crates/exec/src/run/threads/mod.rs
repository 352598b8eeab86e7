//! Threads: how many a query gets, where they wait for each other, and how they exchange work.

mod admission;
mod barrier;
mod channels;
mod thread_pool;

pub(crate) use admission::{Admission, QueryPermit};
pub(crate) use barrier::Barrier;
pub(crate) use channels::{Channels, Handoff, Message, channels};
pub(crate) use thread_pool::ThreadPool;
