//! Streams of a log: appended, flushed, crashed, damaged, read back and merged.

mod append_and_read_back;
mod async_flush;
mod awaiting_tasks;
mod close_and_poison;
mod common;
mod crashes;
mod dropping_generations;
mod epoch_certification_failures;
mod failures;
mod frame_positions;
mod group_commit;
mod merging;
mod oversize_frames;
mod preparing_segments;
mod reading_damaged_logs;
mod recycling;
mod rings;
mod torn_tails;
