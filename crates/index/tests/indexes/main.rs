//! The indexes of this crate under the contract suite, and the suite itself.
#![cfg(not(loom))]

mod art;
mod hash;
mod point_suite_catches_faults;
