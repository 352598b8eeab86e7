//! A process that updates records until it is killed, and the expected values afterwards.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use namiki_platform::seeded_random::Random;

use super::{BATCH, open};
use crate::error::BenchError;
use crate::kv::store::Setting;
use crate::kv::stores::StoreName;
use crate::txn::record_payload::Payload;

/// The store and records to update.
#[derive(Args, Debug)]
pub(crate) struct KilledWriterArgs {
    #[arg(long, value_enum)]
    store: StoreName,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    records: u64,
    #[arg(long)]
    value_bytes: u16,
    #[arg(long)]
    seed: u64,
}

/// The transactions, in order.
pub(super) struct Batches {
    random: Random,
    records: u64,
    number: u64,
}

/// A transaction: it puts its tag to these records.
pub(super) struct Batch {
    pub(super) tag: u64,
    pub(super) keys: Vec<u64>,
}

impl Batch {
    /// Applies the transaction to the records' tags.
    pub(super) fn apply(&self, tags: &mut [u64]) {
        for key in &self.keys {
            tags[*key as usize] = self.tag;
        }
    }
}

/// The first record that does not hold its tag.
pub(super) fn first_wrong(tags: &[u64], found: &[Option<Payload>]) -> Option<u64> {
    let mut records = (0..).zip(tags.iter().zip(found));
    let wrong = records.find(|(_, (tag, found))| found.is_none_or(|found| found.tag != **tag));
    wrong.map(|(key, _)| key)
}

impl Batches {
    pub(super) fn new(seed: u64, records: u64) -> Self {
        Self {
            random: Random::seeded(seed),
            records,
            number: 0,
        }
    }
}

impl Iterator for Batches {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        self.number += 1;
        let keys = (0..BATCH).map(|_| self.random.below(self.records));
        Some(Batch {
            keys: keys.collect(),
            // Distinct from the loaded tags.
            tag: u64::MAX / 2 + self.number,
        })
    }
}

/// Opens a loaded store, and updates it until the process is killed. Writes one byte for each
/// durable transaction.
pub(crate) fn write_until_killed(args: &KilledWriterArgs) -> Result<(), BenchError> {
    let setting = Setting {
        dir: &args.dir,
        durable: true,
        records: args.records,
        value_bytes: args.value_bytes,
    };
    let store = open(args.store, &setting)?;
    let mut handle = store.handle()?;
    let mut out = std::io::stdout();
    for batch in Batches::new(args.seed, args.records) {
        let payload = Payload {
            tag: batch.tag,
            bytes: args.value_bytes,
        };
        handle.update(&batch.keys, payload)?;
        out.write_all(b".").map_err(BenchError::Output)?;
        out.flush().map_err(BenchError::Output)?;
    }
    Ok(())
}
