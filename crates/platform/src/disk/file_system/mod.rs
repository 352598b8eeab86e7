//! Disks that are files of the operating system, and what they share.

pub(super) mod direct;
pub(super) mod file_backed;
pub(super) mod nvm_emulation;
pub(super) mod profile;
pub(super) mod synced;
pub(super) mod uring;
