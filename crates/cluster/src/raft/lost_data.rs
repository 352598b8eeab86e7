//! What a node notes of data that it has lost. `repair.rs` gets it back.

use crate::entry::PayloadRef;

/// Largest number of payloads in one fetch request.
pub(crate) const FETCH_MAX: usize = 1024;
/// Largest number of their bytes, unless a single one has more.
pub(super) const FETCH_BYTES: usize = 4 << 20;
/// Ticks between two requests for the same payloads.
pub(super) const FETCH_TICKS: u32 = 2;

/// Election timeouts for which a node waits for the payload of an entry that it is to append, before it asks for an image.
pub(super) const HELD_TIMEOUTS: usize = 8;

/// How much of the log a node lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Payloads of entries that it has.
    pub(super) missing: usize,
    /// The first entry that it does not take, as it has not got the payload.
    pub(super) held_from: Option<u64>,
}

/// What is lost.
pub(super) struct LostData {
    pub(super) missing: Vec<PayloadRef>,
    pub(super) tables_lost: bool,
    /// Ticks since data is lost, or since some of it came.
    pub(super) ticks: usize,
    /// What was lost then.
    pub(super) then: Lacking,
    /// Requests for images.
    pub(super) asked: usize,
}

impl LostData {
    pub(super) fn new(missing: Vec<PayloadRef>, tables_lost: bool) -> Self {
        Self {
            missing,
            tables_lost,
            ticks: 0,
            then: Lacking::default(),
            asked: 0,
        }
    }
}
