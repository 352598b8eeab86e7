//! The rule by which clients share a limit: a dynamic threshold, as switches share buffers.

/// Whether a connection with `own` of `total` may have `more`: as much as is left of `limit` for all
/// afterwards.
pub(crate) fn is_share(own: usize, more: usize, total: usize, limit: usize) -> bool {
    own + more <= limit.saturating_sub(total + more)
}
