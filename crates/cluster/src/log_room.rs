//! The room of a node's log, which it tells the leader (`room.rs`).

/// What to do about a log that nears its limit.
pub(crate) const LOG_REMEDY: &str = "images of the tables truncate the log: look for WARN \"cannot write an image\" and images_failed_total; \
     without it, raise log_bytes_max on every node and restart them one by one";

/// The room of a node's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room {
    /// Bytes by which payloads may grow before the node has no room; 0: it has none.
    pub bytes: u64,
    /// It is less than an eighth of its limit.
    pub is_low: bool,
}

impl Room {
    /// No room.
    pub(crate) const NONE: Self = Self {
        bytes: 0,
        is_low: true,
    };
    /// The node has not told it.
    pub(crate) const UNKNOWN: Self = Self {
        bytes: u64::MAX,
        is_low: false,
    };
}
