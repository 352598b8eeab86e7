//! Writing: appends, groups and flushes, prepared files, and failing disks.

mod append_and_read_back;
mod async_flush;
mod awaiting_tasks;
mod close_and_poison;
mod epoch_certification;
mod failures;
mod group_commit;
mod log_file_preallocation;
mod oversize_frames;
