//! The sizes of a hash table.

/// Sizes of a table. May differ at every start; nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashConfig {
    /// An empty table has `2^first_bits` buckets. At most 20.
    pub first_bits: u32,
    /// Load factor: the table grows when it has more keys than this for every four of its buckets,
    /// and shrinks when it has less than half of this. A bucket's own line has room for three.
    pub keys_per_four_buckets: u32,
    /// There are `2^stripe_bits` stripes. At most 20.
    pub stripe_bits: u32,
    /// Number of key changes that a thread counts before it checks whether the table has to grow or
    /// shrink.
    pub batch: u32,
}

impl Default for HashConfig {
    fn default() -> Self {
        Self {
            first_bits: 2,
            keys_per_four_buckets: 7,
            stripe_bits: 14,
            batch: 8,
        }
    }
}

impl HashConfig {
    /// The smallest possible table, so that it grows and shrinks all the time.
    #[must_use]
    pub const fn tiny() -> Self {
        Self {
            first_bits: 0,
            keys_per_four_buckets: 8,
            stripe_bits: 2,
            batch: 1,
        }
    }

    pub(super) fn checked(self) -> Self {
        Self {
            first_bits: self.first_bits.min(20),
            keys_per_four_buckets: self.keys_per_four_buckets.max(1),
            stripe_bits: self.stripe_bits.min(20),
            batch: self.batch.clamp(1, 1 << 10),
        }
    }
}
