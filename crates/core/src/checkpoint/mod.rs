//! Checkpoints: the tables in memory are written to the disk as of one moment, and the log before
//! that moment is truncated.
//!
//! ```text
//!   a view at stamp S  ──►  the image of S, beside running transactions (image_writer.rs)
//!     one replacement of the manifest: it names the image, and where the log begins now
//!       the list of the image gets its lasting name; what only the image before had is removed
//!       log files with nothing above S are written again, generations before are removed
//! ```
//! A crash at any point leaves one image or the other, with the log that belongs to it: what the manifest no longer names,
//! the next opening removes. A checkpoint that fails leaves the database as it was, running.
//!
//! One thread does so when the log has become long (`trigger.rs`); any other may ask for one. Backups are taken while no
//! checkpoint runs (`image_lock.rs`); one that follows the database is brought up to date before log is freed.

pub(crate) mod announce_image;
mod checkpoint_room;
pub(crate) mod checkpointer;
pub(crate) mod horizon_stats;
mod image_lock;
mod make_room;
#[cfg(test)]
mod recycled_log_tests;
pub(crate) mod rows_of_view;
pub(crate) mod settings_and_reports;
pub(crate) mod take_checkpoint;
mod trigger;
