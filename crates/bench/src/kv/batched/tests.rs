//! The batching writer over a store in memory, with planted failures.

use std::collections::BTreeMap;
use std::sync::Mutex;

use namiki::ValueBytes;

use super::*;
use crate::kv::one_writer::{WriteTx, execute};
use crate::kv::planted_faults::run_small;
use crate::kv::store::{decoded, missing};
use crate::kv::workload::KvWorkload;

/// The failure of a group with this number, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Never,
    /// The commit reports an error.
    Commit(usize),
    /// The thread panics.
    Panics(usize),
    /// From this group on, the last transaction of each is lost, and success is reported.
    LosesLast(usize),
}

/// A store in memory with one write transaction at a time.
struct InMemory {
    committed: Arc<Mutex<Map>>,
    /// The sizes of the groups that were attempted.
    groups: Mutex<Vec<usize>>,
    fails: Fails,
}

type Map = BTreeMap<u64, Payload>;

impl InMemory {
    fn new(fails: Fails) -> Self {
        Self {
            committed: Arc::default(),
            groups: Mutex::default(),
            fails,
        }
    }

    fn commit(&self, group: &[Write<'_>]) -> Result<(), GroupError> {
        let number = {
            let mut groups = self.groups.lock().unwrap();
            groups.push(group.len());
            groups.len() - 1
        };
        if self.fails == Fails::Panics(number) {
            panic!("planted");
        }
        let kept = match self.fails {
            Fails::LosesLast(at) if at <= number => &group[..group.len() - 1],
            _ => group,
        };
        let mut committed = self.committed.lock().unwrap();
        let mut tx = InMemoryTx(committed.clone());
        execute(&mut tx, kept, &mut ValueBytes::new())?;
        if self.fails == Fails::Commit(number) {
            return Err(BenchError::Check("planted".to_owned()).into());
        }
        *committed = tx.0;
        Ok(())
    }
}

struct InMemoryTx(Map);

impl WriteTx for InMemoryTx {
    fn required(&self, key: u64) -> Result<Payload, BenchError> {
        self.0.get(&key).copied().ok_or_else(|| missing(key))
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), BenchError> {
        self.0.insert(key, decoded(key, value)?);
        Ok(())
    }
}

impl Store for InMemory {
    fn promises(&self) -> Promises {
        Promises {
            isolation: "serializable: one writer",
            durability: "none".to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let mut committed = self.committed.lock().unwrap();
        committed.extend(setting.loaded(0..setting.records));
        Ok(())
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(InMemoryHandle(self)))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

impl OneWriter for InMemory {
    const BATCHED_NAME: &'static str = "in-memory-batched";

    fn group_writer(&self) -> Result<Box<dyn GroupWriter + Send + '_>, BenchError> {
        Ok(Box::new(InMemoryHandle(self)))
    }
}

struct InMemoryHandle<'a>(&'a InMemory);

impl GroupWriter for InMemoryHandle<'_> {
    fn write(&mut self, group: &[Write<'_>]) -> Result<(), GroupError> {
        self.0.commit(group)
    }

    fn read_records(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<(), BenchError> {
        let committed = self.0.committed.lock().unwrap();
        for key in keys {
            values.push(*committed.get(key).ok_or_else(|| missing(*key))?);
        }
        Ok(())
    }

    fn scan_records(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<(), BenchError> {
        let committed = self.0.committed.lock().unwrap();
        let records = committed.range(first..).take(count);
        into.extend(records.map(|(key, payload)| (*key, *payload)));
        Ok(())
    }
}

fn payload(tag: u64) -> Payload {
    Payload { tag, bytes: 20 }
}

/// Sends these transactions, keys with their value or `None` to count up, before the thread begins.
/// Returns their outcomes.
fn served(store: &InMemory, transactions: &[(&[u64], Option<u64>)]) -> Vec<Result<(), BenchError>> {
    let (requests, received) = channel();
    let answers: Vec<Receiver<Reply>> = transactions
        .iter()
        .map(|(keys, tag)| {
            let (reply, replies) = channel();
            let request = Request {
                keys: keys.to_vec(),
                put: tag.map(payload),
                reply: Some(reply),
            };
            requests.send(request).unwrap();
            replies
        })
        .collect();
    drop(requests);
    let mut writer = store.group_writer().unwrap();
    serve(
        "in-memory-batched",
        &mut *writer,
        &received,
        &AtomicUsize::new(0),
    );
    let answers = answers.iter().map(|replies| {
        let answer = replies.recv().unwrap();
        assert!(replies.recv().is_err(), "answered twice");
        answer.outcome
    });
    answers.collect()
}

#[test]
fn transactions_that_wait_share_one_commit() {
    let store = InMemory::new(Fails::Never);
    let outcomes = served(
        &store,
        &[
            (&[1, 2], Some(7)),
            (&[2], None),
            (&[2], None),
            (&[3], Some(9)),
        ],
    );
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(*store.groups.lock().unwrap(), [4]);
    let due = [(1, payload(7)), (2, payload(9)), (3, payload(9))];
    assert_eq!(*store.committed.lock().unwrap(), Map::from(due));
}

#[test]
fn a_group_has_a_limit() {
    let store = InMemory::new(Fails::Never);
    let transactions = vec![(&[1][..], Some(7)); GROUP_MAX + 3];
    let outcomes = served(&store, &transactions);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(*store.groups.lock().unwrap(), [GROUP_MAX, 3]);
}

/// The group was rolled back, and the other transactions are executed once, not twice.
#[test]
fn a_transaction_that_fails_fails_alone() {
    let store = InMemory::new(Fails::Never);
    let outcomes = served(
        &store,
        &[
            (&[1], Some(7)),
            (&[1], None),
            (&[5], None),
            (&[1], None),
            (&[1, 6], None),
        ],
    );
    let failed: Vec<usize> = (0..5).filter(|at| outcomes[*at].is_err()).collect();
    assert_eq!(failed, [2, 4], "{outcomes:?}");
    for (at, key) in [(2, 5), (4, 6)] {
        let error = outcomes[at].as_ref().unwrap_err().to_string();
        assert!(
            error.contains(&format!("record {key} is missing")),
            "{error}"
        );
    }
    assert_eq!(*store.groups.lock().unwrap(), [5, 4, 3]);
    assert_eq!(
        *store.committed.lock().unwrap(),
        Map::from([(1, payload(9))])
    );
}

#[test]
fn a_failed_commit_fails_its_whole_group() {
    let store = InMemory::new(Fails::Commit(0));
    let outcomes = served(&store, &[(&[1], Some(7)), (&[2], Some(8))]);
    for outcome in &outcomes {
        let error = outcome.as_ref().unwrap_err().with_causes();
        assert!(
            error.contains("in-memory-batched") && error.contains("planted"),
            "{error}"
        );
    }
    assert!(store.committed.lock().unwrap().is_empty());
    let outcomes = served(&store, &[(&[1], Some(9))]);
    assert!(outcomes[0].is_ok());
    assert_eq!(
        *store.committed.lock().unwrap(),
        Map::from([(1, payload(9))])
    );
}

#[test]
fn concurrent_callers_are_answered_after_their_commit() {
    const CALLERS: u64 = 8;
    const EACH: u64 = 200;
    let store = Batched::start(InMemory::new(Fails::Never)).unwrap();
    store.handle().unwrap().update(&[0], payload(0)).unwrap();
    std::thread::scope(|scope| {
        for caller in 1..=CALLERS {
            let store = &*store;
            scope.spawn(move || {
                let mut handle = store.handle().unwrap();
                let mut found = Vec::new();
                for number in 0..EACH {
                    handle.update(&[caller], payload(number)).unwrap();
                    handle.read_update(&[0]).unwrap();
                    found.clear();
                    handle.read(&[caller, 0], &mut found).unwrap();
                    assert_eq!(found[0], payload(number), "its own write");
                    assert!(found[1].tag > number, "its own increments");
                }
            });
        }
    });
    let found = store.contents(CALLERS + 1).unwrap();
    assert_eq!(found[0], Some(payload(CALLERS * EACH)));
    store.close().unwrap();
}

#[test]
fn callers_get_an_error_when_the_thread_has_panicked() {
    let store = Batched::start(InMemory::new(Fails::Panics(1))).unwrap();
    let mut handle = store.handle().unwrap();
    handle.update(&[1], payload(1)).unwrap();
    for _ in 0..2 {
        let error = handle.update(&[1], payload(2)).unwrap_err();
        assert!(matches!(error, BenchError::Panicked), "{error}");
    }
    drop(handle);
    assert!(matches!(store.close(), Err(BenchError::Panicked)));
}

#[test]
fn a_run_behind_the_writer_is_checked() {
    for workload in [KvWorkload::U1, KvWorkload::U10, KvWorkload::U5r5] {
        let run = |fails| {
            let committed = Arc::new(Mutex::new(Map::new()));
            run_small(workload, &|_| {
                let store = InMemory::new(fails);
                Batched::start(InMemory {
                    committed: committed.clone(),
                    ..store
                })
            })
        };
        assert_eq!(run(Fails::Never).unwrap(), 2000);
        let error = run(Fails::LosesLast(10)).unwrap_err();
        assert!(matches!(error, BenchError::Check(_)), "{error}");
    }
}
