//! Concurrency control: locks, the three protocols, and what is done under contention.

pub(crate) mod cc;
pub(crate) mod contention;
pub(crate) mod lock;
