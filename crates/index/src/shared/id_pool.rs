//! Pool of small numbers: take, release, reuse.

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU32, AtomicU64};

use crate::shared::segmented_array::SegmentedArray;

const NONE: u32 = u32::MAX;

/// A supply of numbers below [`IdPool::COUNT`], shared by any number of threads without a lock.
pub struct IdPool {
    /// The first number never used.
    fresh: AtomicU32,
    /// Stack of free numbers: count of changes in the upper half (so that a slow pop cannot mistake
    /// a returned number for an unmoved one), top of the stack in the lower.
    free: AtomicU64,
    /// The link of each free number to the next one on the stack.
    next: SegmentedArray<AtomicU32>,
}

impl IdPool {
    /// Total of the numbers.
    pub const COUNT: u32 = SegmentedArray::<AtomicU32>::LEN_MAX;

    pub fn new() -> Self {
        Self {
            fresh: AtomicU32::new(0),
            free: AtomicU64::new(u64::from(NONE)),
            next: SegmentedArray::new(),
        }
    }

    /// Takes all numbers that were never used.
    pub fn use_up(&self) {
        self.fresh.store(Self::COUNT, Ordering::Relaxed);
    }

    /// Takes a number, or `None` if all are in use. Happens after everything its last user did
    /// before returning it.
    pub fn take(&self) -> Option<u32> {
        let mut top = self.free.load(Ordering::Acquire);
        while top as u32 != NONE {
            let number = top as u32;
            let next = self.next.get(number)?.load(Ordering::Relaxed);
            let popped = ((top >> 32) + 1) << 32 | u64::from(next);
            // `Acquire` pairs with the `AcqRel` of the `give_back` that pushed the number.
            match self
                .free
                .compare_exchange_weak(top, popped, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(number),
                Err(now) => top = now,
            }
        }
        let mut number = self.fresh.load(Ordering::Relaxed);
        loop {
            if number >= Self::COUNT {
                return None;
            }
            match self.fresh.compare_exchange_weak(
                number,
                number + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(now) => number = now,
            }
        }
    }

    /// Whether a number can be taken now.
    #[inline]
    pub fn are_left(&self) -> bool {
        self.free.load(Ordering::Relaxed) as u32 != NONE
            || self.fresh.load(Ordering::Relaxed) < Self::COUNT
    }

    /// Returns a number that was taken and is no longer used.
    pub fn give_back(&self, number: u32) {
        self.next.reach(number, || AtomicU32::new(NONE));
        let Some(next) = self.next.get(number) else {
            return;
        };
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            next.store(top as u32, Ordering::Relaxed);
            let pushed = ((top >> 32) + 1) << 32 | u64::from(number);
            match self
                .free
                .compare_exchange_weak(top, pushed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// All numbers that were ever taken; some of them may be free now.
    pub fn ever(&self) -> std::ops::Range<u32> {
        0..self.fresh.load(Ordering::Acquire)
    }

    /// Bytes that the supply takes.
    pub fn bytes(&self) -> usize {
        self.next.bytes()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::thread;

    #[test]
    fn a_number_has_one_user_at_a_time() {
        let numbers = IdPool::new();
        let in_use = Mutex::new(BTreeSet::new());
        let in_use_now = || {
            in_use
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        };
        thread::scope(|scope| {
            for thread in 0..4 {
                let (numbers, in_use_now) = (&numbers, &in_use_now);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for step in 0..20_000 {
                        if mine.is_empty() || (step * 7 + thread) % 5 < 2 {
                            let number = numbers.take().unwrap_or_else(|| panic!("used up"));
                            assert!(in_use_now().insert(number), "{number} taken twice");
                            mine.push(number);
                        } else if let Some(number) = mine.pop() {
                            assert!(in_use_now().remove(&number));
                            numbers.give_back(number);
                        }
                    }
                });
            }
        });
        let ever = numbers.ever().len();
        assert!(ever < 80_000 / 5, "{ever} numbers for few users");
    }

    #[test]
    fn numbers_are_left_if_one_can_be_taken() {
        let numbers = IdPool::new();
        assert!(numbers.are_left());
        assert_eq!(numbers.take(), Some(0));
        numbers.use_up();
        assert!(!numbers.are_left());
        assert_eq!(numbers.take(), None);
        numbers.give_back(0);
        assert!(numbers.are_left());
        assert_eq!(numbers.take(), Some(0));
        assert!(!numbers.are_left());
    }
}
