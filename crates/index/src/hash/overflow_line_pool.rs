//! Lines for the keys that do not fit into their home line.
//!
//! Each of a few pools hands out line numbers under a lock of its own, held for a few instructions; one
//! insert in five or so needs a line. A pool frees its memory when all its lines have been returned.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::line::Line;
use super::line_memory::Lines;

const POOLS: usize = 8;
/// Lines with which a pool begins: a page.
const FIRST_BITS: u32 = 6;

/// The numbers of a pool's lines.
#[derive(Default)]
struct Supply {
    /// The first number that was never handed out.
    fresh: u64,
    free: Vec<u64>,
}

struct Pool {
    supply: Mutex<Supply>,
    lines: Lines,
}

impl Pool {
    fn supply(&self) -> MutexGuard<'_, Supply> {
        self.supply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pools. A line's number tells its pool by the lowest bits.
///
/// A pool is made when its first line is taken. A line's number is published after that, so a
/// thread that has read the number finds the pool.
pub(super) struct Overflow([OnceLock<Box<Pool>>; POOLS]);

impl Overflow {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }

    /// The pool of a line that was taken.
    #[inline]
    fn pool(&self, line: u64) -> &Pool {
        match self.0[line as usize % POOLS].get() {
            Some(pool) => pool,
            None => unreachable!("a line is used when it is there"),
        }
    }

    /// Takes a line for a bucket, with arbitrary contents; `None`: out of memory. The bucket's
    /// place chooses the pool.
    pub(super) fn take(&self, place: u64) -> Option<u64> {
        let chosen = place % POOLS as u64;
        let pool = self.0[chosen as usize].get_or_init(|| {
            Box::new(Pool {
                supply: Mutex::default(),
                lines: Lines::new(FIRST_BITS),
            })
        });
        let mut supply = pool.supply();
        let line = match supply.free.pop() {
            Some(line) => line,
            None => {
                if !pool.lines.reach(supply.fresh) {
                    return None;
                }
                pool.lines.hold(supply.fresh);
                supply.fresh += 1;
                supply.fresh - 1
            }
        };
        Some(line * POOLS as u64 + chosen)
    }

    /// Returns a line that no bucket refers to.
    pub(super) fn give_back(&self, line: u64) {
        let pool = self.pool(line);
        let mut supply = pool.supply();
        supply.free.push(line / POOLS as u64);
        if supply.free.len() as u64 == supply.fresh {
            // The lock is kept, so that no thread writes to a line that is about to become zero.
            let mut first = 0;
            while first < supply.fresh {
                pool.lines.discard(first);
                first = (2 * first).max(1 << FIRST_BITS);
            }
            *supply = Supply::default();
        }
    }

    #[inline]
    pub(super) fn line(&self, line: u64) -> &Line {
        self.pool(line).lines.line(line / POOLS as u64)
    }

    pub(super) fn bytes(&self) -> usize {
        let of_pool =
            |pool: &Pool| pool.lines.bytes() + pool.supply().free.capacity() * size_of::<u64>();
        let pools = self.0.iter().filter_map(OnceLock::get);
        pools.map(|pool| of_pool(pool)).sum()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn lines_have_one_user_each_and_their_memory_comes_back() {
        let overflow = Overflow::new();
        for _ in 0..2 {
            let mut taken = BTreeSet::new();
            for place in 0..5_000 {
                let line = overflow.take(place % 100).unwrap();
                assert!(taken.insert(line), "{line} has two users");
                overflow.line(line).set(0, line, place);
            }
            assert!(overflow.bytes() >= 5_000 * 64);
            for line in taken {
                assert_eq!(overflow.line(line).word(0), line);
                overflow.give_back(line);
            }
            assert_eq!(overflow.bytes(), 0);
        }
    }
}
