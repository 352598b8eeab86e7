//! Random numbers that are unique among openings.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// The standard library's hash keys come from the operating system's random numbers. A forked child
/// continues its parent's sequence: so the process and the clock go into it, too.
pub(crate) fn random_number() -> u64 {
    RandomState::new().hash_one((std::process::id(), SystemTime::now()))
}
