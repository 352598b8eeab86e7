//! HyperLogLog: counts different values in fixed memory.
//!
//! Each value's hash chooses one of 2,048 registers, which keeps the most leading zeros that it
//! met: many zeros are rare, so they indicate many different values. The standard error is 2.3 %.

use namiki_platform::hash::hash_of;

const REGISTER_BITS: u32 = 11;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct DistinctCounter {
    registers: Box<[u8; REGISTERS]>,
}

impl DistinctCounter {
    pub(super) fn new() -> Self {
        Self {
            registers: Box::new([0; REGISTERS]),
        }
    }

    /// Counts a value, unless it was there before.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let hash = hash_of(0x5bd1_e995, bytes);
        let register = &mut self.registers[hash as usize % REGISTERS];
        let zeros = (hash >> REGISTER_BITS | 1 << (64 - REGISTER_BITS)).trailing_zeros() as u8 + 1;
        *register = (*register).max(zeros);
    }

    /// Estimated number of different values.
    pub(super) fn count(&self) -> u64 {
        let registers = REGISTERS as f64;
        let sum: f64 = self
            .registers
            .iter()
            .map(|zeros| 0.5_f64.powi(i32::from(*zeros)))
            .sum();
        let estimate = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.registers.iter().filter(|zeros| **zeros == 0).count();
        if estimate <= 2.5 * registers && empty > 0 {
            // Few values leave registers empty, which tells more.
            return (registers * (registers / empty as f64).ln()).round() as u64;
        }
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_within_a_few_percent() {
        for count in [0, 1, 5, 25, 1_000, 10_000, 300_000_u64] {
            let mut counter = DistinctCounter::new();
            for _ in 0..2 {
                for number in 0..count {
                    counter.add(&(number * 7919).to_le_bytes());
                }
            }
            let error = counter.count().abs_diff(count) as f64;
            assert!(
                error <= (count as f64 * 0.07).max(1.0),
                "{count}: {}",
                counter.count()
            );
        }
    }
}
