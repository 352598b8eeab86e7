//! A hash of rows that does not depend on their order.

use namiki_platform::Stamp;
use namiki_platform::hash::hash_of;

use crate::table::raw_table::TableId;

/// One hash of 64 bits begins with each.
const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

/// The sum of the hashes of rows, which is the same in whatever order they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateHash(u128);

impl StateHash {
    pub(super) fn add_table(&mut self, table: TableId, name: &str, fixed_keys: bool) {
        self.add(&[
            &table.0.to_le_bytes(),
            name.as_bytes(),
            &[fixed_keys.into()],
        ]);
    }

    pub(super) fn add_row(&mut self, table: TableId, key: &[u8], value: &[u8], stamp: Stamp) {
        self.add(&[&table.0.to_le_bytes(), &stamp.0.to_le_bytes(), key, value]);
    }

    fn add(&mut self, parts: &[&[u8]]) {
        // The hash of each part depends on its length.
        let [high, low] = SEEDS.map(|seed| {
            let hash = |hash, part: &&[u8]| hash_of(hash, part);
            parts.iter().fold(seed, hash)
        });
        let both = u128::from(high) << 64 | u128::from(low);
        self.0 = self.0.wrapping_add(both);
    }

    pub(super) fn finish(self) -> u128 {
        self.0
    }
}
