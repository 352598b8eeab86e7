//! One run of one store: opened, loaded, measured, checked, and reopened on request.

use std::path::Path;

use namiki_platform::clock::process_cpu_ns;
use namiki_platform::machine::resident_bytes;

use super::long_run::Watch;
use super::store::{Promises, Setting, Store};
use super::verify::Expected;
use super::worker::{Memory, Worker};
use super::workload::KvWorkload;
use crate::args::TimedArgs;
use crate::error::BenchError;
use crate::interrupt;
use crate::run_stages::{Total, staged};
use crate::txn::thread_commits::Done;
use crate::txn::workload::{Choice, Ring, ring_transactions};

/// Sampling interval in memory, where reading the clock for each transaction would cost too much.
const SAMPLE_EVERY_IN_MEMORY: u32 = 13;

/// The parameters of a run, for any store.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) workload: KvWorkload,
    pub(crate) durable: bool,
    pub(crate) threads: u16,
    pub(crate) choice: Choice,
    pub(crate) value_bytes: u16,
    pub(crate) verify_recovery: bool,
    pub(crate) timed: &'a TimedArgs,
    /// The observer of a long run.
    pub(crate) watch: Option<&'a Watch<'a>>,
}

/// The measured results.
pub(crate) struct Measured {
    pub(crate) total: Total,
    pub(crate) promises: Promises,
    pub(crate) rss_bytes: u64,
    pub(crate) cpu_ns: u64,
}

/// A function that opens a store.
pub(crate) type Open<'a> = dyn Fn(&Setting<'_>) -> Result<Box<dyn Store>, BenchError> + 'a;

impl Plan<'_> {
    /// Runs in `dir`, which must be empty. `name` is for messages.
    pub(crate) fn run(
        &self,
        name: &str,
        dir: &Path,
        open: &Open<'_>,
    ) -> Result<Measured, BenchError> {
        let setting = Setting {
            dir,
            durable: self.durable,
            records: self.choice.records,
            value_bytes: self.value_bytes,
        };
        let store = open(&setting)?;
        if setting.records >= 1_000_000 {
            eprintln!("{name}: {} records are loaded", setting.records);
        }
        store.load(&setting)?;
        interrupt::check()?;
        let (measured, threads) = match self.watch {
            Some(watch) => watch.beside(dir, || self.measure(name, &*store))?,
            None => self.measure(name, &*store)?,
        };
        let expected = Expected {
            workload: self.workload,
            value_bytes: self.value_bytes,
            threads: &threads,
            forgets: store.forgets(),
        };
        let found = store.contents(setting.records)?;
        expected.check(&found)?;
        store.close()?;
        if self.verify_recovery && !interrupt::asked() {
            let store = open(&setting)?;
            expected.check_again(&found, &store.contents(setting.records)?)?;
            store.close()?;
        }
        Ok(measured)
    }

    /// Runs the threads through the warm-up and the timed stage. Returns the results, and each
    /// thread's transactions.
    fn measure(&self, name: &str, store: &dyn Store) -> Result<(Measured, Vec<Done>), BenchError> {
        let run = staged(
            usize::from(self.threads),
            self.timed,
            &format!("{name} {}", self.workload.name()),
            |thread| self.worker(store, thread),
            Worker::stage,
            || {
                if let Some(watch) = self.watch {
                    watch.mark()?;
                }
                let cpu_ns = process_cpu_ns().map_err(BenchError::system("ask for CPU time"))?;
                let rss_bytes = resident_bytes().map_err(BenchError::system("ask for memory"))?;
                Ok((cpu_ns, rss_bytes))
            },
        )?;
        let measured = Measured {
            total: run.total,
            promises: store.promises(),
            rss_bytes: run.after.1,
            cpu_ns: run.after.0 - run.before.0,
        };
        let threads = run.workers.into_iter().map(|worker| worker.done);
        Ok((measured, threads.collect()))
    }

    fn worker<'a>(&'a self, store: &'a dyn Store, thread: usize) -> Result<Worker<'a>, BenchError> {
        interrupt::check()?;
        let drawn = self.workload.drawn();
        let threads = usize::from(self.threads);
        let transactions = ring_transactions(drawn, threads, self.timed.ops);
        let ring = Ring::new(drawn, self.choice, thread, transactions);
        let waits = self.durable && self.workload.writes();
        Ok(Worker {
            handle: store.handle()?,
            workload: self.workload,
            threads,
            records: self.choice.records,
            value_bytes: self.value_bytes,
            sample_every: if waits { 1 } else { SAMPLE_EVERY_IN_MEMORY },
            done: Done::new(drawn, thread, ring, 0),
            memory: Memory::default(),
            watch: self.watch,
        })
    }
}
