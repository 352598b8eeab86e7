//! Many threads on few words.

use std::sync::Barrier;
use std::thread;

use crossbeam_epoch as epoch;

use super::*;

#[test]
fn a_change_needs_every_word_as_expected() {
    let guard = &epoch::pin();
    let words: [AtomicU64; 4] = std::array::from_fn(|i| AtomicU64::new(i as u64));
    let all = |values: [u64; 4]| {
        let change = Change::new(&words[2], values[2], 12).and(&words[0], values[0], 10);
        change
            .and(&words[3], values[3], 13)
            .and(&words[1], values[1], 11)
            .commit(guard)
    };
    let now = || [0, 1, 2, 3].map(|i: usize| read(&words[i], guard));
    for wrong in 0..4 {
        let mut values = [0, 1, 2, 3];
        values[wrong] = 9;
        assert!(!all(values));
        assert_eq!(now(), [0, 1, 2, 3]);
    }
    assert!(all([0, 1, 2, 3]));
    assert_eq!(now(), [10, 11, 12, 13]);
    assert_eq!(swap(&words[0], 9, 20, guard), Err(10));
    assert_eq!(swap(&words[0], 10, 20, guard), Ok(()));
    // All bits but the highest are the caller's.
    let most = MARK - 1;
    assert!(Change::new(&words[0], 20, most).commit(guard));
    assert_eq!(read(&words[0], guard), most);
    assert_eq!(swap(&words[0], most, 0, guard), Ok(()));
}

/// Threads move units from word to word, some with a third word that is only compared, and back:
/// values recur, which exposes late helpers (ABA).
#[test]
fn nothing_is_lost_or_made_between_words() {
    const WORDS: usize = 4;
    const THREADS: usize = 4;
    let words: [AtomicU64; WORDS] = std::array::from_fn(|_| AtomicU64::new(2));
    let still = AtomicU64::new(5);
    let start = Barrier::new(THREADS);
    let moved: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (words, still, start) = (&words, &still, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut moved = 0;
                    for step in 0..20_000 {
                        let guard = &epoch::pin();
                        let from = (step + thread) % WORDS;
                        let to = (from + 1 + step / 7 % (WORDS - 1)) % WORDS;
                        let [one, other] = [from, to].map(|i| read(&words[i], guard));
                        if one == 0 || other > 4 {
                            continue;
                        }
                        let change = Change::new(&words[from], one, one - 1);
                        let change = change.and(&words[to], other, other + 1);
                        moved += usize::from(if step % 3 == 0 {
                            change.and(still, 5, 5).commit(guard)
                        } else {
                            change.commit(guard)
                        });
                    }
                    moved
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0))
            .sum()
    });
    let guard = &epoch::pin();
    let sum: u64 = words.iter().map(|word| read(word, guard)).sum();
    assert_eq!((sum, read(&still, guard)), (2 * WORDS as u64, 5));
    assert!(moved > 1_000, "only {moved} changes succeeded");
}
