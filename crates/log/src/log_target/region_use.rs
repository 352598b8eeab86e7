//! The fill level of a shared device's regions.

/// The fill level of a region of a shared device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionUse {
    /// The bytes of frames that are kept in it.
    pub kept_bytes: u64,
    /// Number of bytes that it has room for.
    pub bytes: u64,
}
