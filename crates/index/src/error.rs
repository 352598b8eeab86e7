//! Errors of index operations.

/// The reason for which an index refused an operation. The index is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The key is longer than the limit of every index.
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
    /// The payload uses bits that the index reserves for itself.
    #[error("payload {payload:#x} uses bits that this index reserves ({reserved:#x})")]
    PayloadReserved {
        /// The payload given.
        payload: u64,
        /// The bits that must be zero.
        reserved: u64,
    },
    /// The keys of a bulk load are out of order, or one is repeated.
    #[error("bulk load: key number {position} is not greater than the one before it")]
    NotSorted {
        /// Position of the first such key, counted from zero.
        position: usize,
    },
    /// The index is unordered and cannot scan ranges.
    #[error("the index is unordered; it cannot be scanned")]
    Unordered,
    /// A bulk load needs an empty index; this one has content, or had some during the load.
    #[error("bulk load into an index that is not empty")]
    NotEmpty,
    /// An insert or a bulk load needs more nodes than the index can number. Nothing was inserted;
    /// existing keys can still be read, changed and deleted.
    #[error("the index has used all of its page numbers")]
    OutOfPages,
}
