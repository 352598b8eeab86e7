//! The rings under a model checker: every interleaving of two threads, up to a bound on
//! preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki-exec --lib --release model
//! ```

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use namiki_platform::model_checker::explore;

use super::{SleepFlag, ring};

/// Three items pass a ring of two slots: each is taken once, in order, whole.
#[test]
fn items_pass_whole_and_in_order() {
    explore(3, || {
        let (mut sender, mut receiver) = ring::<Box<u32>>(2);
        let producer = thread::spawn(move || {
            for number in 0..3 {
                let mut item = Box::new(number);
                while let Err(back) = sender.push(item) {
                    item = back;
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < 3 {
            match receiver.pop() {
                Some(item) => {
                    assert_eq!(*item, next);
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
        producer.join().unwrap();
        assert!(receiver.pop().is_none());
    });
}

/// Items that one end leaves in the ring are dropped with the other.
#[test]
fn items_left_behind_are_dropped_once() {
    explore(3, || {
        let item = Arc::new(());
        let (mut sender, mut receiver) = ring::<Arc<()>>(2);
        let given = Arc::clone(&item);
        let producer = thread::spawn(move || {
            let _ = sender.push(Arc::clone(&given));
            let _ = sender.push(given);
        });
        let _ = receiver.pop();
        drop(receiver);
        producer.join().unwrap();
        assert_eq!(Arc::strong_count(&item), 1);
    });
}

/// The thread that sleeps may not have begun when it is given work.
#[test]
fn work_given_to_a_thread_that_begins_wakes_it() {
    explore(3, || {
        let (mut sender, receiver) = ring::<u32>(2);
        let flag = Arc::new(SleepFlag::new());
        let sleeper = thread::spawn({
            let flag = Arc::clone(&flag);
            move || {
                let receiver = RefCell::new(receiver);
                loop {
                    if let Some(item) = receiver.borrow_mut().pop() {
                        break item;
                    }
                    flag.sleep_unless(Duration::MAX, || !receiver.borrow_mut().is_empty());
                }
            }
        });
        sender.push(7).unwrap();
        flag.wake();
        assert_eq!(sleeper.join().unwrap(), 7);
    });
}

/// In a model a thread sleeps for ever if it is not woken, and loom reports that as a deadlock.
#[test]
fn work_given_to_a_sleeping_thread_wakes_it() {
    explore(3, || {
        let (mut sender, receiver) = ring::<u32>(2);
        let flag = Arc::new(SleepFlag::new());
        let giver = thread::spawn({
            let flag = Arc::clone(&flag);
            move || {
                sender.push(7).unwrap();
                flag.wake();
            }
        });
        let receiver = RefCell::new(receiver);
        let item = loop {
            if let Some(item) = receiver.borrow_mut().pop() {
                break item;
            }
            flag.sleep_unless(Duration::MAX, || !receiver.borrow_mut().is_empty());
        };
        assert_eq!(item, 7);
        giver.join().unwrap();
    });
}
