//! What is done under contention: admission control, and exclusive commit priority for transactions that starve.

pub(crate) mod admission;
pub(crate) mod priority;
