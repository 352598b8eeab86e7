//! Spreading keys over tables.

/// Folds the bytes, eight at a time, into one number by multiplications of double width. All bits
/// of it are as good.
#[must_use]
pub fn hash_of(seed: u64, key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        (product as u64 ^ (product >> 64) as u64).wrapping_mul(MULTIPLIER)
    };
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = fold(seed, key.len() as u64);
    for word in words {
        hash = fold(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    // Once more, or keys that follow each other would share their low bits.
    hash = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded_random::Random;

    #[test]
    fn hashes_of_keys_that_follow_each_other_are_spread() {
        let mut random = Random::seeded(6);
        for seed in [0, 1, 2, u64::MAX]
            .into_iter()
            .chain((0..20).map(|_| random.next_u64()))
        {
            let (mut shards, mut slots) = ([0_u32; 256], [0_u32; 4096]);
            for number in 0..1_u64 << 16 {
                let hash = hash_of(seed, &number.to_be_bytes());
                shards[(hash >> 56) as usize % 256] += 1;
                slots[hash as usize % 4096] += 1;
            }
            // 256 and 16 are to be expected.
            assert!(shards.iter().all(|it| (150..400).contains(it)), "{seed:#x}");
            assert!(slots.iter().all(|it| *it < 60), "{seed:#x}");
        }
    }
}
