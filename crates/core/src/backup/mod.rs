//! Backups: a backup is a directory with a complete database, copied from another one.
//!
//! ```text
//!   source: a manifest with a log that ends at a stamp S        destination: empty, or the backup before
//!     segments and runs that it does not have      ──►            image/   each verified and durable
//!     the image list                               ──►            image/   under its first name
//!     frames that it does not have, up to S        ──►            wal/     each verified and durable
//!     lists and segments that only the backup before names get their first names back
//!     the manifest that names all of this          ──►            MANIFEST, replaced: the backup is this one now
//!     lasting names; what no backup has that is kept is removed
//! ```
//! Earlier backups can be kept in addition to the last one, and share its files:
//! `retention.rs`.
//!
//! A crash, an error or an interruption before the replacement leaves the backup before as it was, and what was copied already
//! is not copied again. S is a boundary between epochs at which a view could be opened: everything up to it is durable and
//! nothing up to it depends on anything above. Commits above it that share frames with others are copied, and do not count
//! (`GenerationInfo::last_stamp`). See docs/decisions/0049-a-backup-is-a-database-that-ends-at-a-stamp.md.

pub(crate) mod copy;
pub(crate) mod error;
pub(crate) mod followed_backup;
pub(crate) mod live_backup;
pub(crate) mod options_and_reports;
mod points;
pub(crate) mod retention;
#[cfg(test)]
mod tests;
