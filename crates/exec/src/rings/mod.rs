//! Rings, through which threads hand work to each other, one for every ordered pair of threads; and
//! a flag per thread that says whether it sleeps.
//!
//! ```text
//!            to 0      to 1      to 2
//!  from 0     –       ring      ring        each ring: one producer, one consumer, no lock,
//!  from 1    ring      –        ring        and no cache line that a third thread writes
//!  from 2    ring     ring       –
//! ```
//!
//! Paper: oode §2 (management structures, one for each pair of a sending and a receiving thread)

mod sleep;
mod spsc;

#[cfg(all(test, loom))]
mod loom_model;

pub(crate) use sleep::SleepFlag;
pub(crate) use spsc::{Receiver, Sender, ring};
