//! What Namiki asks of the machine: disks, time, randomness, processors, counters, identifiers; and
//! what its programs ask of a command line.

mod available_memory;
pub mod bytes;
pub mod checked_text;
pub mod clock;
pub mod counting_allocator;
pub mod cpu_affinity;
pub mod disk;
pub mod error_sentence;
mod fork_check;
pub mod hash;
mod huge_pages;
mod linux_only;
pub mod machine;
mod memory_mapping;
#[cfg(loom)]
pub mod model_checker;
mod newtypes;
pub mod per_worker_counters;
mod prefetch;
pub mod seeded_random;
pub mod threads;
pub mod zipf;

pub use available_memory::{available_memory_bytes, machine_available_bytes};
pub use error_sentence::ErrorSentence;
pub use fork_check::ProcessToken;
pub use huge_pages::advise_huge_pages;
pub use memory_mapping::Mapping;
pub use newtypes::{Epoch, Generation, Lsn, Stamp, WorkerId};
pub use prefetch::prefetch;
