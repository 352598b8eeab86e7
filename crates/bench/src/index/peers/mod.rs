//! Well-maintained indexes from the registry, measured as ours are, for comparison in the same run.
//!
//! Each executes the same operations through its own interface. An index is left out, with the
//! reason, if it does not support an operation, or only by several steps between which other
//! threads would observe an intermediate state.

mod btreemap;
mod congee;
mod scc;
mod skiplist;

use std::borrow::Borrow;
use std::fmt::Debug;
use std::ops::Bound;

pub(super) use self::btreemap::LockedBTreeMap;
pub(super) use self::congee::CongeeTree;
pub(super) use self::scc::SccTree;
pub(super) use self::skiplist::SkipList;

/// A key as these indexes store it.
pub(super) trait StoredKey:
    Ord + Clone + Debug + Send + Sync + Borrow<Self::Sought> + 'static
{
    /// The type that keys are compared with.
    type Sought: Ord + ?Sized;

    /// The key to look for; `number` is its storage if it is not borrowed.
    fn sought<'a>(bytes: &'a [u8], number: &'a mut u64) -> &'a Self::Sought;

    /// The start of a range, as [`sought`](Self::sought).
    #[inline]
    fn bound<'a>(start: Option<&'a [u8]>, number: &'a mut u64) -> Bound<&'a Self::Sought> {
        match start {
            Some(start) => Bound::Included(Self::sought(start, number)),
            None => Bound::Unbounded,
        }
    }

    /// The key to store.
    fn owned(bytes: &[u8]) -> Self;

    /// The key's bytes; `buffer` is their storage if they are not borrowed.
    fn bytes<'a>(&'a self, buffer: &'a mut [u8; 8]) -> &'a [u8];
}

/// Keys of eight bytes, as big-endian numbers.
impl StoredKey for u64 {
    type Sought = Self;

    #[inline]
    fn sought<'a>(bytes: &'a [u8], number: &'a mut u64) -> &'a u64 {
        *number = Self::owned(bytes);
        number
    }

    #[inline]
    fn owned(bytes: &[u8]) -> Self {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        Self::from_be_bytes(eight)
    }

    #[inline]
    fn bytes<'a>(&'a self, buffer: &'a mut [u8; 8]) -> &'a [u8] {
        *buffer = self.to_be_bytes();
        buffer
    }
}

/// Longer keys.
impl StoredKey for Box<[u8]> {
    type Sought = [u8];

    #[inline]
    fn sought<'a>(bytes: &'a [u8], _number: &'a mut u64) -> &'a [u8] {
        bytes
    }

    #[inline]
    fn owned(bytes: &[u8]) -> Self {
        bytes.into()
    }

    #[inline]
    fn bytes<'a>(&'a self, _buffer: &'a mut [u8; 8]) -> &'a [u8] {
        self
    }
}

/// The reason why none of them supports a batch of reads.
const NO_BATCHES: &str = "it looks up one key at a time";
