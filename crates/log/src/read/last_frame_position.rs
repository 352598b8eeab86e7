//! The last frame of a stream: its place on the disk.

/// The position of a stream's last frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The log file; 0 in a shared device.
    pub(crate) file_number: u64,
    /// In a region, counted on through all laps of its ring.
    pub(crate) offset: u64,
    /// Its length, padding included.
    pub(crate) bytes: u64,
    /// The unit in which it was written, which the device's of today need not be.
    pub(crate) block_bytes: u64,
}
