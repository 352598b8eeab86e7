//! The interface to the machine: disks, time, randomness, processors, locks and atomics, counters,
//! identifiers, and helpers for the command lines of the programs.

pub mod bytes;
pub mod checked_text;
pub mod clock;
pub mod disk;
pub mod error_sentence;
mod fork_check;
mod linux_only;
mod memory;
#[cfg(loom)]
pub mod model_checker;
mod newtypes;
pub mod per_worker_counters;
mod processor;
mod random;
pub mod sync;

pub use error_sentence::ErrorSentence;
pub use fork_check::ProcessToken;
pub use memory::available_memory::{available_memory_bytes, machine_available_bytes};
pub use memory::counting_allocator;
pub use memory::huge_pages::advise_huge_pages;
pub use memory::memory_mapping::Mapping;
pub use memory::prefetch::prefetch;
pub use newtypes::{Epoch, Generation, Lsn, Stamp, WorkerId};
pub use processor::{cpu_affinity, machine, threads};
pub use random::{hash, seeded_random, zipf};
