//! The delay until a store can be read after its process was killed.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::killed_writer::{Batches, first_wrong};
use super::{BATCH, Outcome, UpkeepRun};
use crate::error::BenchError;
use crate::interrupt;
use crate::kv::store::Store;
use crate::page_cache::drop_cached;
use crate::txn::record_payload::Payload;

impl UpkeepRun<'_> {
    pub(super) fn reopen(&self) -> Result<(Outcome, String), BenchError> {
        let store = self.loaded(true)?;
        let durability = store.promises().durability;
        store.close()?;
        let durable = self.write_and_kill()?;
        drop_cached(self.dir)?;
        let (cold_seconds, store) = self.first_read()?;
        let found = store.contents(self.args.records)?;
        let loaded = (0..self.args.records).collect();
        let tags = self.check(loaded, durable, &found)?;
        store.close()?;
        // Repeated with the written pages still in memory.
        let durable = self.write_and_kill()?;
        let (warm_seconds, store) = self.first_read()?;
        let found = store.contents(self.args.records)?;
        self.check(tags, durable, &found)?;
        store.close()?;
        let outcome = Outcome {
            cold_seconds: Some(cold_seconds),
            warm_seconds: Some(warm_seconds),
            ..Outcome::default()
        };
        Ok((outcome, durability))
    }

    /// Opens the store, and reads one record.
    fn first_read(&self) -> Result<(f64, Box<dyn Store>), BenchError> {
        let began = Instant::now();
        let store = self.open(true)?;
        let mut values = Vec::new();
        store
            .handle()?
            .read(&[self.args.records / 2], &mut values)?;
        Ok((began.elapsed().as_secs_f64(), store))
    }

    /// Runs a writing process until enough is durable, and kills it. Returns the number of
    /// transactions that it reported as durable.
    fn write_and_kill(&self) -> Result<u64, BenchError> {
        let args = self.args;
        let program = std::env::current_exe().map_err(BenchError::system("find this program"))?;
        let mut child = Command::new(program)
            .args(["compare", "killed-writer", "--store", self.store.name()])
            .args(["--records", &args.records.to_string()])
            .args(["--value-bytes", &args.value_bytes.to_string()])
            .args(["--seed", &args.seed.to_string()])
            .arg("--dir")
            .arg(self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::system("start a process"))?;
        let wanted = args.kill_after.div_ceil(BATCH);
        let mut durable = 0;
        let mut buffer = [0; 4096];
        let mut is_killed = false;
        if let Some(mut out) = child.stdout.take() {
            loop {
                let read = out.read(&mut buffer);
                let read = read.map_err(BenchError::system("read from a process"))?;
                durable += read as u64;
                if read == 0 {
                    break;
                }
                if (durable >= wanted || interrupt::asked()) && !is_killed {
                    child.kill().map_err(BenchError::system("kill a process"))?;
                    is_killed = true;
                }
            }
        }
        child
            .wait()
            .map_err(BenchError::system("wait for a process"))?;
        interrupt::check()?;
        if is_killed {
            Ok(durable)
        } else {
            Err(BenchError::Check(format!(
                "the process that was to be killed ended by itself after {durable} transactions"
            )))
        }
    }

    /// Compares the records with the result of `durable` transactions, or of one more. Returns the
    /// matching result.
    fn check(
        &self,
        mut tags: Vec<u64>,
        durable: u64,
        found: &[Option<Payload>],
    ) -> Result<Vec<u64>, BenchError> {
        let mut batches = Batches::new(self.args.seed, self.args.records);
        for batch in batches.by_ref().take(durable as usize) {
            batch.apply(&mut tags);
        }
        let Some(wrong) = first_wrong(&tags, found) else {
            return Ok(tags);
        };
        // The transaction in progress.
        if let Some(batch) = batches.next() {
            batch.apply(&mut tags);
        }
        match first_wrong(&tags, found) {
            None => Ok(tags),
            Some(_) => Err(BenchError::Check(format!(
                "record {wrong} holds {:?} after {durable} durable transactions and a kill",
                found[wrong as usize]
            ))),
        }
    }
}
