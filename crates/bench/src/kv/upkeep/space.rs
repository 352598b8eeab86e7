//! The space of a store after many updates.

use super::killed_writer::{Batches, first_wrong};
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
            batch.apply(&mut tags);
            interrupt::check()?;
        }
        drop(handle);
        let bytes = file_bytes(self.dir)?;
        let found = store.contents(args.records)?;
        if let Some(key) = first_wrong(&tags, &found) {
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
