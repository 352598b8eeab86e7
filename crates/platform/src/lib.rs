//! What Namiki asks of the machine: disks, time, randomness, processors, counters, identifiers; and
//! what its programs ask of a command line.

pub mod arguments;
pub mod bytes;
pub mod clock;
pub mod counters;
pub mod disk;
pub mod hash;
mod huge_pages;
mod ids;
pub mod live_bytes;
mod mapping;
#[cfg(loom)]
pub mod model;
pub mod pin;
mod prefetch;
pub mod probe;
mod process;
pub mod random;
pub mod threads;
pub mod zipf;

pub use huge_pages::advise_huge_pages;
pub use ids::{Epoch, Generation, Lsn, Stamp, WorkerId};
pub use mapping::Mapping;
pub use prefetch::prefetch;
pub use process::ProcessToken;
