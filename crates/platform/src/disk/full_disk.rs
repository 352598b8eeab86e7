//! The errors that mean that a disk is full.

use std::io;

/// Whether this error says that there is no room: on the device, or in the user's share of it.
/// Nothing is wrong with what is there then, and the same may succeed later.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
