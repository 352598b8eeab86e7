//! What a reader that skips damage notes of it.

use super::ReadError;

/// Damage that a reader has skipped in a stream of one generation.
#[derive(Debug)]
pub struct SkippedDamage {
    /// The first place, and what is wrong there.
    pub first: ReadError,
    /// Frames that are known to be lost: none if only the header of a file is damaged.
    pub frames: u64,
}

/// What a reader notes while it skips damage.
#[derive(Debug, Default)]
pub(super) struct DamageNotes {
    pub(super) first: Option<ReadError>,
    pub(super) frames: u64,
    /// The device could not read where the reader looked last.
    pub(super) is_unreadable: bool,
}

impl DamageNotes {
    pub(super) fn note(&mut self, error: ReadError) {
        self.first.get_or_insert(error);
    }
}
