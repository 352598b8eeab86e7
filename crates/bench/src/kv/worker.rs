//! One thread of a run.

use std::time::Instant;

use namiki_platform::clock::now_ns;

use super::long_run::Watch;
use super::store::{Committed, Handle};
use super::workload::{KvWorkload, SCAN_RECORDS};
use crate::args::Length;
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages};
use crate::txn::record_payload::Payload;
use crate::txn::thread_commits::Done;
use crate::txn::workload::tag;
use crate::worker_threads::share;

/// A thread and its state.
pub(crate) struct Worker<'a> {
    pub(crate) handle: Box<dyn Handle + Send + 'a>,
    pub(crate) workload: KvWorkload,
    pub(crate) threads: usize,
    pub(crate) records: u64,
    pub(crate) value_bytes: u16,
    /// The sampling interval: one in this many transactions is timed.
    pub(crate) sample_every: u32,
    /// The transactions of all stages so far.
    pub(crate) done: Done,
    /// Buffers of the transactions.
    pub(crate) memory: Memory,
    /// The observer of a long run.
    pub(crate) watch: Option<&'a Watch<'a>>,
}

/// Buffers that the transactions reuse.
#[derive(Default)]
pub(crate) struct Memory {
    keys: Vec<u64>,
    values: Vec<Payload>,
    scanned: Vec<(u64, Payload)>,
}

impl Worker<'_> {
    /// Runs transactions until told to stop or the stage is complete.
    pub(crate) fn stage(
        &mut self,
        length: Length,
        stages: &Stages,
    ) -> Result<StageResult, BenchError> {
        let end = match length {
            Length::Time(_) => u64::MAX,
            Length::Operations(total) => share(total, self.done.thread, self.threads),
        };
        let (mut committed, mut aborted_before) = (0, 0);
        let mut latencies = Latencies::new();
        let mut until_sample = 1;
        let began = Instant::now();
        while committed < end && !stages.must_stop() {
            until_sample -= 1;
            let start = (until_sample == 0).then(now_ns);
            aborted_before += self.transaction()?.aborted;
            self.done.commit();
            committed += 1;
            let latency_ns = start.map(|start| now_ns() - start);
            if let Some(ns) = latency_ns {
                latencies.add_ns(ns);
                until_sample = self.sample_every;
            }
            if let Some(watch) = self.watch {
                watch.committed(self.done.thread, latency_ns);
            }
        }
        Ok(StageResult {
            began,
            ended: Instant::now(),
            done: committed,
            aborted: aborted_before,
            latencies,
        })
    }

    fn transaction(&mut self) -> Result<Committed, BenchError> {
        let number = self.done.next_number();
        let memory = &mut self.memory;
        memory.keys.clear();
        let keys = self
            .done
            .ring
            .keys(number)
            .iter()
            .map(|key| u64::from(*key));
        memory.keys.extend(keys);
        match self.workload {
            KvWorkload::U1 | KvWorkload::U10 => {
                let payload = Payload {
                    tag: tag(self.done.thread, number),
                    bytes: self.value_bytes,
                };
                self.handle.update(&memory.keys, payload)
            }
            KvWorkload::U5r5 => self.handle.read_update(&memory.keys),
            KvWorkload::R10 => {
                memory.values.clear();
                let ended = self.handle.read(&memory.keys, &mut memory.values)?;
                self.check_read()?;
                Ok(ended)
            }
            KvWorkload::Scan100 => {
                memory.scanned.clear();
                let first = memory.keys[0];
                let scanned = &mut memory.scanned;
                let ended = self.handle.scan(first, SCAN_RECORDS, scanned)?;
                self.check_scan(first)?;
                Ok(ended)
            }
        }
    }

    /// All threads read and none writes: each record holds its number.
    fn check_read(&self) -> Result<(), BenchError> {
        let Memory { keys, values, .. } = &self.memory;
        if values.len() != keys.len() {
            let (found, asked) = (values.len(), keys.len());
            return failed(format!("{found} of {asked} records were read"));
        }
        let mut read = keys.iter().zip(values);
        match read.find(|(key, payload)| **payload != self.loaded(**key)) {
            None => Ok(()),
            Some((key, payload)) => failed(format!("record {key} was read as {payload:?}")),
        }
    }

    fn check_scan(&self, first: u64) -> Result<(), BenchError> {
        let scanned = &self.memory.scanned;
        let due = (self.records - first).min(SCAN_RECORDS as u64);
        if scanned.len() as u64 != due {
            let found = scanned.len();
            return failed(format!(
                "a scan from {first} found {found} records of {due}"
            ));
        }
        let mut records = (first..).zip(scanned);
        match records.find(|(key, record)| **record != (*key, self.loaded(*key))) {
            None => Ok(()),
            Some((key, record)) => failed(format!("a scan found {record:?} for record {key}")),
        }
    }

    fn loaded(&self, key: u64) -> Payload {
        Payload {
            tag: key,
            bytes: self.value_bytes,
        }
    }
}

fn failed<T>(what: String) -> Result<T, BenchError> {
    Err(BenchError::Check(what))
}
