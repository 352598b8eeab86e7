//! Concurrent transactions: serializable, free of deadlocks, and free of starvation.

mod anomalies;
mod catalogue_in_views;
mod group_commit_deadlocks;
mod opposite_key_orders;
mod scripted_transactions;
mod serializability;
mod ten_keys;
mod torn_reads;
mod two_phase_locking;
mod views;
