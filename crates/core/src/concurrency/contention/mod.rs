//! Contention management: the constants of all waits, admission control, exclusive commit priority
//! for transactions that starve, and the retry state of a transaction.

pub(crate) mod admission;
pub(crate) mod policy;
pub(crate) mod priority;
pub(crate) mod retry_state;
pub(crate) mod task_timer;
pub(crate) mod wait_age;
pub(crate) mod wait_list;
