//! How full the regions of a shared device are.

/// How full a region of a shared device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionUse {
    /// The bytes of frames that are kept in it.
    pub kept_bytes: u64,
    /// How many it has room for.
    pub bytes: u64,
}
