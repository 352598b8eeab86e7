//! Writing: appends, groups and flushes, prepared files, and failing disks.

mod append_and_read_back;
mod async_flush;
mod awaiting_tasks;
mod close_and_poison;
mod epoch_certification_failures;
mod failures;
mod group_commit;
mod oversize_frames;
mod preparing_log_files;
