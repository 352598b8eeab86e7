//! Concurrency control: locks, the three protocols, and contention management.

pub(crate) mod cc;
pub(crate) mod contention;
pub(crate) mod lock;
