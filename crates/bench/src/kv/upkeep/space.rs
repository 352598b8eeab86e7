//! How much room a store has after many updates.

use super::killed_writer::Batches;
use super::{BATCH, Outcome, UpkeepRun};
use crate::error::BenchError;
use crate::interrupt;
use crate::page_cache::file_bytes;
use crate::txn::record_payload::Payload;

impl UpkeepRun<'_> {
    pub(super) fn space(&self) -> Result<(Outcome, String), BenchError> {
        let args = self.args;
        let store = self.loaded(false)?;
        let durability = store.promises().durability;
        let mut tags: Vec<u64> = (0..args.records).collect();
        let mut handle = store.handle()?;
        let batches = args.updates.div_ceil(BATCH) as usize;
        for batch in Batches::new(args.seed, args.records).take(batches) {
            let payload = Payload {
                tag: batch.tag,
                bytes: args.value_bytes,
            };
            handle.update(&batch.keys, payload)?;
            for key in batch.keys {
                tags[key as usize] = batch.tag;
            }
            interrupt::check()?;
        }
        drop(handle);
        let bytes = file_bytes(self.dir)?;
        let found = store.contents(args.records)?;
        let mut both = (0..).zip(tags.iter().zip(&found));
        if let Some((key, _)) =
            both.find(|(_, (tag, found))| found.is_none_or(|found| found.tag != **tag))
        {
            let key: u64 = key;
            let why = format!("record {key} does not hold its last update");
            return Err(BenchError::Check(why));
        }
        store.close()?;
        let outcome = Outcome {
            file_bytes: Some(bytes),
            closed_bytes: Some(file_bytes(self.dir)?),
            ..Outcome::default()
        };
        Ok((outcome, durability))
    }
}
