//! Interleavings of changes that overlap. The code is that of production; only memory is not reclaimed.

use crossbeam_epoch as epoch;
use loom::sync::Arc;
use loom::thread;
use namiki_platform::model_checker::explore;

use super::*;

fn words<const N: usize>(values: [u64; N]) -> Arc<[AtomicU64; N]> {
    Arc::new(values.map(AtomicU64::new))
}

/// Two changes of the same words, given in opposite order: one succeeds, and both words have its
/// values.
#[test]
fn of_two_changes_of_the_same_words_one_succeeds() {
    explore(3, || {
        let words = words([0, 0]);
        let other = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                let guard = &epoch::pin();
                Change::new(&words[0], 0, 1)
                    .and(&words[1], 0, 1)
                    .commit(guard)
            }
        });
        let guard = &epoch::pin();
        let mine = Change::new(&words[1], 0, 2)
            .and(&words[0], 0, 2)
            .commit(guard);
        let others = other.join().unwrap();
        assert!(mine != others, "{mine} {others}");
        let expected = if mine { 2 } else { 1 };
        assert_eq!([0, 1].map(|i: usize| read(&words[i], guard)), [expected; 2]);
    });
}

/// Two changes overlap in one word, and a reader reads the words of one of them: if it sees the second
/// word changed, it sees the first changed afterwards.
#[test]
fn a_reader_sees_no_half_of_a_change() {
    explore(2, || {
        let words = words([0, 0, 0]);
        let change = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                let guard = &epoch::pin();
                Change::new(&words[0], 0, 1)
                    .and(&words[1], 0, 1)
                    .commit(guard)
            }
        });
        let overlapping = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                let guard = &epoch::pin();
                Change::new(&words[1], 0, 2)
                    .and(&words[2], 0, 2)
                    .commit(guard)
            }
        });
        let guard = &epoch::pin();
        let second = read(&words[1], guard);
        let first = read(&words[0], guard);
        let third = read(&words[2], guard);
        assert!(second != 1 || first == 1, "{first} {second}");
        assert!(second != 2 || third == 2, "{second} {third}");
        let [change, overlapping] = [change, overlapping].map(|thread| thread.join().unwrap());
        assert!(change != overlapping, "{change} {overlapping}");
        let now = [0, 1, 2].map(|i: usize| read(&words[i], guard));
        assert_eq!(now, if change { [1, 1, 0] } else { [0, 2, 2] });
    });
}

/// A slow helper must not repeat a change after its word has the old value again.
#[test]
fn a_late_helper_does_not_repeat_a_change() {
    explore(3, || {
        let words = words([0, 0]);
        let helper = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                let guard = &epoch::pin();
                read(&words[0], guard)
            }
        });
        let guard = &epoch::pin();
        assert!(
            Change::new(&words[0], 0, 1)
                .and(&words[1], 0, 1)
                .commit(guard)
        );
        assert!(swap(&words[1], 1, 0, guard).is_ok());
        let seen = helper.join().unwrap();
        assert!(seen <= 1);
        assert_eq!([0, 1].map(|i: usize| read(&words[i], guard)), [1, 0]);
    });
}
