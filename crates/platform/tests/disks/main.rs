//! The contract of each disk, and the settings of the simulated and the slow ones.

mod append;
mod async_reads;
mod disk_contract;
mod sim_disk;
mod sim_reads;
mod slow_disk;
