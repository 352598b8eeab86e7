//! A writer thread for each stream, and readers.

use std::sync::atomic::{AtomicU64, Ordering};

use namiki_cluster::storage::{NodeStore, RaftRecord, StoreError};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;

use crate::common::*;

const PAYLOADS: u64 = 300;

fn write_payloads(store: &NodeStore, worker: u16, flushed: &AtomicU64) {
    for number in 1..=PAYLOADS {
        append_payload(store, &payload(1, worker, number)).unwrap();
        if number % 3 == 0 {
            store.flush_payloads(worker).unwrap();
            flushed.store(number, Ordering::Release);
        }
    }
}

fn write_entries(store: &NodeStore) {
    for index in 1..=PAYLOADS {
        // Whether its payload has arrived already or not.
        let entry = group(index, 1, payload(1, (index % 2) as u16, index));
        store.append_raft(&[RaftRecord::Entry(entry)]).unwrap();
        if index % 5 == 0 {
            store.flush_raft().unwrap();
        }
    }
}

#[test]
fn threads_write_and_read_all_streams_at_the_same_time() {
    let sim = SimDisk::new().with_yields(7);
    create(&sim);
    let (store, _) = open(&sim);
    let flushed = [const { AtomicU64::new(0) }; WORKERS as usize];
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (store, flushed) = (&store, &flushed[usize::from(worker)]);
            scope.spawn(move || write_payloads(store, worker, flushed));
        }
        scope.spawn(|| write_entries(&store));
        scope.spawn(|| {
            while flushed
                .iter()
                .any(|it| it.load(Ordering::Acquire) < PAYLOADS)
            {
                for (worker, flushed) in (0..).zip(&flushed) {
                    let number = flushed.load(Ordering::Acquire);
                    if number > 0 {
                        let name = payload(1, worker, number).name;
                        assert_eq!(store.read_payload(name).unwrap(), bytes_of(name));
                    }
                    let next = payload(1, worker, number + 1);
                    match store.read_payload(next.name) {
                        Ok(read) => assert_eq!(read, bytes_of(next.name)),
                        Err(StoreError::NotDurable { .. } | StoreError::NoSuchPayload { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                std::thread::yield_now();
            }
        });
    });
    store.flush_raft().unwrap();
    drop(store);
    let image = sim.crash_image(sim.events(), Loss::All);
    let (store, found) = open(&image);
    assert_eq!(found.entries.len() as u64, PAYLOADS);
    for worker in 0..WORKERS {
        for number in 1..=PAYLOADS {
            let name = payload(1, worker, number).name;
            assert_eq!(store.read_payload(name).unwrap(), bytes_of(name));
        }
    }
}
