//! A scan of all records in one consistent state, with concurrent writers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;

use super::{Outcome, UpkeepRun};
use crate::error::BenchError;
use crate::interrupt;
use crate::kv::store::Store;
use crate::txn::record_payload::Payload;

/// Interval between checks whether the time is over.
const LOOK: Duration = Duration::from_millis(20);

impl UpkeepRun<'_> {
    pub(super) fn scan(&self) -> Result<(Outcome, String), BenchError> {
        let store = self.loaded(true)?;
        let durability = store.promises().durability;
        let (tps_alone, _) = self.beside_writers(&*store, |seconds| {
            let began = Instant::now();
            while began.elapsed() < seconds && !interrupt::asked() {
                std::thread::sleep(LOOK);
            }
            Ok(())
        })?;
        let (tps, mut scans) = self.beside_writers(&*store, |seconds| {
            let mut handle = store.handle()?;
            let began = Instant::now();
            let mut scans = Vec::new();
            while scans.is_empty() || began.elapsed() < seconds {
                let scan_began = Instant::now();
                let (rows, _) = handle.sum_all()?;
                scans.push(scan_began.elapsed().as_secs_f64());
                if rows != self.args.records {
                    let why = format!("a scan found {rows} of {} records", self.args.records);
                    return Err(BenchError::Check(why));
                }
                interrupt::check()?;
            }
            Ok(scans)
        })?;
        store.close()?;
        scans.sort_by(f64::total_cmp);
        let outcome = Outcome {
            scan_seconds: Some(scans[scans.len() / 2]),
            tps: Some(tps),
            tps_alone: Some(tps_alone),
            ..Outcome::default()
        };
        Ok((outcome, durability))
    }

    /// Calls `work`, with the duration, while the writers run. Returns the writers' transactions
    /// per second, too.
    fn beside_writers<T>(
        &self,
        store: &dyn Store,
        work: impl FnOnce(Duration) -> Result<T, BenchError>,
    ) -> Result<(f64, T), BenchError> {
        let (stop, committed) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.args.threads.get())
                .map(|number| {
                    let (stop, committed) = (&stop, &committed);
                    scope.spawn(move || self.write(store, number, stop, committed))
                })
                .collect();
            let began = Instant::now();
            let done = work(self.args.seconds);
            let tps = committed.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.join().map_err(|_| BenchError::Panicked)??;
            }
            Ok((tps, done?))
        })
    }

    fn write(
        &self,
        store: &dyn Store,
        number: u16,
        stop: &AtomicBool,
        committed: &AtomicU64,
    ) -> Result<(), BenchError> {
        let args = self.args;
        let mut random = Random::stream(args.seed, number.into());
        let mut handle = store.handle()?;
        while !stop.load(Ordering::Relaxed) {
            let payload = Payload {
                tag: random.next_u64(),
                bytes: args.value_bytes,
            };
            handle.update(&[random.below(args.records)], payload)?;
            committed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
