//! Reading: after a crash, after damage, frame by frame, and over all streams.

mod crash_recovery;
mod frame_positions;
mod golden_scripts;
mod merging;
mod reading_damaged_logs;
mod torn_tails;
