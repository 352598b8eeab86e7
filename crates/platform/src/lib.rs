//! What Namiki asks of the machine: disks, time, randomness, processors, counters, identifiers; and
//! what its programs ask of a command line.

pub mod arguments;
pub mod bytes;
pub mod clock;
pub mod counters;
pub mod disk;
pub mod hash;
mod huge_pages;
pub mod live_bytes;
pub mod machine;
mod memory_mapping;
#[cfg(loom)]
pub mod model_checker;
mod newtypes;
pub mod pin;
mod prefetch;
mod process_token;
pub mod random;
pub mod threads;
pub mod zipf;

pub use huge_pages::advise_huge_pages;
pub use memory_mapping::Mapping;
pub use newtypes::{Epoch, Generation, Lsn, Stamp, WorkerId};
pub use prefetch::prefetch;
pub use process_token::ProcessToken;
