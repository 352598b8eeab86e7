//! Replay of the log into the tables, for each kind of log.

pub(super) mod apply;
pub(super) mod aries;
pub(super) mod kept_keys;
pub(super) mod log_winners;
pub(super) mod merge;
pub(super) mod parallel_replay;
pub(super) mod replay_context;
pub(super) mod replay_hash_table;
pub(super) mod winners;
