//! What can go wrong when an index is asked for something.

/// Why an index refused an operation. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The key is longer than any index takes.
    #[error("key of {len} bytes is longer than the limit of {max} bytes")]
    KeyTooLong {
        /// Length of the key given.
        len: usize,
        /// Longest key accepted.
        max: usize,
    },
    /// The index holds keys of one length only.
    #[error("key of {got} bytes given to an index of {expected}-byte keys")]
    KeyLength {
        /// The length all keys of this index have.
        expected: usize,
        /// Length of the key given.
        got: usize,
    },
    /// The index needs some bits of the payload for itself.
    #[error("payload {payload:#x} uses bits that this index reserves ({reserved:#x})")]
    PayloadReserved {
        /// The payload given.
        payload: u64,
        /// The bits that must be zero.
        reserved: u64,
    },
    /// A bulk load was given keys out of order, or one twice.
    #[error("bulk load: key number {position} is not greater than the one before it")]
    NotSorted {
        /// Which item, counted from zero.
        position: usize,
    },
    /// The index keeps its keys in no order, so that there are no ranges to be scanned.
    #[error("the index keeps no order; it cannot be scanned")]
    Unordered,
    /// A bulk load needs an empty index and this one has, or had meanwhile, content.
    #[error("bulk load into an index that is not empty")]
    NotEmpty,
    /// An insert or a bulk load needs more nodes than the index can number. Nothing was inserted; what is there
    /// can be read, changed and deleted.
    #[error("the index has used all of its page numbers")]
    OutOfPages,
}
