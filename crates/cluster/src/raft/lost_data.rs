//! What a node notes of data that it has lost. `repair.rs` gets it back.

use crate::entry::PayloadRef;

/// Largest number of payloads in one fetch request.
pub(crate) const FETCH_MAX: usize = 1024;
/// Largest number of their bytes, unless a single one has more.
pub(super) const FETCH_BYTES: usize = 4 << 20;
/// Ticks between two requests for the same payloads.
pub(super) const FETCH_TICKS: u32 = 2;

/// What is lost.
pub(super) struct LostData {
    pub(super) missing: Vec<PayloadRef>,
    pub(super) tables_lost: bool,
    /// Ticks since data is lost, or since some of it came.
    pub(super) ticks: usize,
    /// Number of missing payloads then.
    pub(super) missing_then: usize,
    /// Requests for images.
    pub(super) asked: usize,
}

impl LostData {
    pub(super) fn new(missing: Vec<PayloadRef>, tables_lost: bool) -> Self {
        Self {
            missing,
            tables_lost,
            ticks: 0,
            missing_then: 0,
            asked: 0,
        }
    }
}
