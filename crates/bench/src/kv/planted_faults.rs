//! Plants faults in a store, and checks that a run over it fails with the right message.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::run_one::{Open, Plan};
use super::store::{Committed, Handle, Promises, Setting, Store, counted_up, missing};
use super::workload::KvWorkload;
use crate::args::{Format, OutputArgs, Switch, TimedArgs};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;
use crate::txn::workload::{Choice, HotKeys};

/// A fault that happens at every hundredth call in which it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A write is not executed, but reports success.
    DropsWrite,
    /// A transaction loses its last write.
    TearsTransaction,
    /// A value is truncated.
    CutsValue,
    /// A read returns the value of another record.
    MixesReads,
    /// A read returns nothing.
    ForgetsReads,
    /// A scan skips a record.
    Skips,
    /// A scan ends early.
    EndsEarly,
    /// A reopened store has lost a write.
    LosesAcknowledged,
    /// A loaded store lacks a record.
    LoadsLess,
}

type Map = BTreeMap<u64, Payload>;

/// A correct store with one fault.
struct Faulty {
    map: Arc<Mutex<Map>>,
    fault: Fault,
    calls: AtomicU64,
}

impl Faulty {
    /// Whether the fault happens in this call.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed) % 100 == 99
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap()
    }
}

impl Store for Faulty {
    fn promises(&self) -> Promises {
        Promises {
            isolation: "a lock",
            durability: "none".to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        self.map().extend(setting.loaded(0..setting.records));
        if self.fault == Fault::LoadsLess {
            self.map().remove(&(setting.records - 1));
        }
        Ok(())
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(FaultyHandle(self)))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        if self.fault == Fault::LosesAcknowledged {
            let loaded = Payload { tag: 5, bytes: 20 };
            let mut map = self.map();
            let before = map.insert(5, loaded);
            assert_ne!(before, Some(loaded), "it was written");
        }
        Ok(())
    }
}

struct FaultyHandle<'a>(&'a Faulty);

impl FaultyHandle<'_> {
    /// Applies the writes of a transaction.
    fn put(&self, map: &mut Map, mut writes: Vec<(u64, Payload)>) {
        let store = self.0;
        if store.strikes(Fault::DropsWrite) {
            return;
        }
        if store.strikes(Fault::TearsTransaction) {
            writes.pop();
        }
        if store.strikes(Fault::CutsValue) {
            writes[0].1.bytes -= 1;
        }
        map.extend(writes);
    }
}

impl Handle for FaultyHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let writes = keys.iter().map(|key| (*key, payload)).collect();
        self.put(&mut self.0.map(), writes);
        Ok(Committed::AT_ONCE)
    }

    fn read(&mut self, keys: &[u64], values: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let map = self.0.map();
        for key in keys {
            values.push(*map.get(key).ok_or_else(|| missing(*key))?);
        }
        if self.0.strikes(Fault::MixesReads) {
            values[0].tag += 1;
        }
        if self.0.strikes(Fault::ForgetsReads) {
            values.pop();
        }
        Ok(Committed::AT_ONCE)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let mut map = self.0.map();
        let mut changed = Map::new();
        for key in keys {
            let before = changed.get(key).or(map.get(key));
            let before = *before.ok_or_else(|| missing(*key))?;
            changed.insert(*key, counted_up(before));
        }
        self.put(&mut map, changed.into_iter().collect());
        Ok(Committed::AT_ONCE)
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        let map = self.0.map();
        into.extend(
            map.range(first..)
                .take(count)
                .map(|(key, value)| (*key, *value)),
        );
        if self.0.strikes(Fault::Skips) {
            let last = into.len() - 1;
            into[0] = into[last];
        }
        if self.0.strikes(Fault::EndsEarly) {
            into.pop();
        }
        Ok(Committed::AT_ONCE)
    }
}

/// Runs a small workload on a store. Returns the number of committed transactions.
///
/// Blind writes use one thread. With two, a write lost by one would often be hidden by the last
/// write of the other. With one, the last write of all is lost, which is always detected.
pub(super) fn run_small(workload: KvWorkload, open: &Open<'_>) -> Result<u64, BenchError> {
    let timed = TimedArgs {
        seconds: None,
        ops: Some(2000),
        repeat: 1,
        warmup: Duration::ZERO,
        seed: 3,
        pin: Switch::Off,
        output: OutputArgs {
            format: Format::Json,
        },
    };
    let plan = Plan {
        workload,
        durable: true,
        threads: if workload.is_blind() { 1 } else { 2 },
        choice: Choice {
            records: 150,
            skew: 0.0,
            hot_keys: HotKeys::Scattered,
            seed: 3,
        },
        value_bytes: 20,
        verify_recovery: true,
        timed: &timed,
        watch: None,
    };
    let dir = tempfile::tempdir().unwrap();
    let measured = plan.run("small", dir.path(), open)?;
    Ok(measured.total.done)
}

/// Runs a store that has the fault.
fn run(fault: Fault, workload: KvWorkload) -> Result<u64, BenchError> {
    let map = Arc::new(Mutex::new(Map::new()));
    run_small(workload, &|_| {
        Ok(Box::new(Faulty {
            map: map.clone(),
            fault,
            calls: AtomicU64::new(0),
        }))
    })
}

#[test]
fn a_store_without_faults_passes() {
    for workload in [
        KvWorkload::U1,
        KvWorkload::U10,
        KvWorkload::U5r5,
        KvWorkload::R10,
        KvWorkload::Scan100,
    ] {
        assert_eq!(run(Fault::Nothing, workload).unwrap(), 2000, "{workload:?}");
    }
}

#[test]
fn every_fault_fails_the_run_by_what_is_wrong() {
    for (fault, workload, word) in [
        (Fault::DropsWrite, KvWorkload::U1, "no thread's last write"),
        (Fault::DropsWrite, KvWorkload::U10, "no thread's last write"),
        (Fault::DropsWrite, KvWorkload::U5r5, "should be"),
        (
            Fault::TearsTransaction,
            KvWorkload::U10,
            "no thread's last write",
        ),
        (Fault::TearsTransaction, KvWorkload::U5r5, "should be"),
        (Fault::CutsValue, KvWorkload::U1, "bytes"),
        (Fault::MixesReads, KvWorkload::R10, "was read as"),
        (Fault::ForgetsReads, KvWorkload::R10, "9 of 10"),
        (Fault::Skips, KvWorkload::Scan100, "a scan found"),
        (Fault::EndsEarly, KvWorkload::Scan100, "a scan from"),
        (Fault::LosesAcknowledged, KvWorkload::U10, "opened again"),
        (Fault::LoadsLess, KvWorkload::R10, "is missing"),
    ] {
        let Err(error) = run(fault, workload) else {
            panic!("{workload:?}: {fault:?} was not found");
        };
        assert!(matches!(error, BenchError::Check(_)), "{fault:?}: {error}");
        assert!(error.to_string().contains(word), "{fault:?}: {error}");
    }
}
