//! Disks: what each promises, and that the simulated and the slow ones do what they are told.

mod append;
mod async_reads;
mod disk_contract;
mod sim_disk;
mod sim_reads;
mod slow_disk;
