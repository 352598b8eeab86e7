//! A node's durable storage, on a simulated disk.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod common;
mod crashes;
mod faults;
mod model;
mod raft_damage;
mod read_ahead;
mod refusals;
mod threads;
mod truncation;
