//! Threads: how many a query gets, where they wait for each other, and how they exchange work.

mod admission;
mod barrier;
mod peers;
mod ring_ends;
mod thread_pool;
mod worker_channels;

pub(crate) use admission::{Admission, QueryPermit};
pub(crate) use barrier::Barrier;
pub(crate) use peers::Peers;
pub(crate) use ring_ends::RingEnds;
pub(crate) use thread_pool::ThreadPool;
pub(crate) use worker_channels::WorkerChannels;
