//! The space of a node's log, which it tells the leader (`flow_control.rs`).

/// What to do about a log that nears its limit.
pub(crate) const LOG_REMEDY: &str = "images of the tables truncate the log: look for WARN \"cannot write an image\" and images_failed_total; \
     without it, raise log_bytes_max on every node and restart them one by one";

/// The space of a node's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSpace {
    /// Bytes by which payloads may grow, without those in reserve; 0: the node has no space.
    pub usable_bytes: u64,
    /// It is less than an eighth of its limit.
    pub is_low: bool,
}

impl LogSpace {
    /// No space.
    pub(crate) const NONE: Self = Self {
        usable_bytes: 0,
        is_low: true,
    };
    /// The node has not told it.
    pub(crate) const UNKNOWN: Self = Self {
        usable_bytes: u64::MAX,
        is_low: false,
    };
}
