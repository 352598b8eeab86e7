//! Namiki as an embedding program uses it: `transact` from many threads.
//!
//! The records of several known keys are looked up as a batch (`get_many`, `update_many`). Commits
//! that are logged but need not be durable return tickets that are not awaited.

use std::num::NonZeroU16;
use std::ops::ControlFlow;

use namiki::{
    Builder, Database, Direction, Error, IndexKind, Logging, ProtocolSpec, RecordFormat, Session,
    Transaction,
};

use super::store::{Committed, Handle, Promises, Setting, Store, counted_up, missing};
use crate::error::BenchError;
use crate::interrupt;
use crate::key_encoding::{CORE_BYTES, KeyLayout, KeySpace, Keys};
use crate::txn::load::Load;
use crate::txn::record_payload::Payload;
use crate::txn::workload::{Records, Workload};

/// The configuration. All other settings have their defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamikiSetting {
    pub(crate) spec: ProtocolSpec,
    pub(crate) index: IndexKind,
    /// `None`: the engine's default.
    pub(crate) streams: Option<NonZeroU16>,
}

/// A database with one table.
pub(crate) struct NamikiStore {
    db: Database,
    records: Records<u64>,
    spec: ProtocolSpec,
    durable: bool,
}

impl NamikiStore {
    /// Opens the database, or creates it.
    pub(crate) fn open(
        setting: &Setting<'_>,
        namiki: NamikiSetting,
    ) -> Result<Box<dyn Store>, BenchError> {
        let NamikiSetting { spec, index, .. } = namiki;
        let mut builder: Builder = Database::builder().spec(spec).index(index);
        if let Some(streams) = namiki.streams {
            builder = builder.streams(streams);
        }
        let db = builder.interrupt(interrupt::flag()).open(setting.dir)?;
        let records = db.table_with_room("records", usize::from(setting.value_bytes))?;
        Ok(Box::new(Self {
            db,
            records,
            spec,
            durable: setting.durable,
        }))
    }

    fn logs(&self) -> bool {
        self.spec.logging != Logging::None
    }
}

impl Store for NamikiStore {
    fn promises(&self) -> Promises {
        let durability = match (self.durable, self.logs()) {
            (true, _) => "log write per commit or group, O_DIRECT|O_DSYNC or fdatasync",
            (false, true) => "tickets, not waited for",
            (false, false) => "no log",
        };
        Promises {
            isolation: if self.spec.concurrency.is_strict() {
                "strictly serializable"
            } else {
                "serializable"
            },
            durability: durability.to_owned(),
        }
    }

    fn load(&self, setting: &Setting<'_>) -> Result<(), BenchError> {
        let load = Load {
            workload: Workload::Update(1),
            keys: Keys {
                count: setting.records,
                bytes: CORE_BYTES,
                space: KeySpace::Dense,
                layout: KeyLayout::RandomHead,
            },
            value_bytes: setting.value_bytes,
            record_format: RecordFormat::Compact,
        };
        load.run(&self.db, &self.records, true)?;
        Ok(())
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        let ahead = if !self.durable && self.logs() {
            Some(self.db.session()?)
        } else {
            None
        };
        Ok(Box::new(NamikiHandle {
            store: self,
            ahead,
            values: Vec::new(),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.db.close()?;
        Ok(())
    }
}

struct NamikiHandle<'a> {
    store: &'a NamikiStore,
    /// The session for transactions that are not awaited.
    ahead: Option<Session>,
    values: Vec<Option<Payload>>,
}

/// Runs a transaction until it commits.
fn transact<T>(
    db: &Database,
    ahead: &mut Option<Session>,
    mut body: impl FnMut(&mut Transaction) -> Result<T, Error>,
) -> Result<(T, Committed), BenchError> {
    let mut attempts = 0;
    let counted = |tx: &mut Transaction| {
        attempts += 1;
        body(tx)
    };
    let value = match ahead {
        Some(session) => session.transact_async(counted)?.0,
        None => db.transact(counted)?,
    };
    let aborted = attempts - 1;
    Ok((value, Committed { aborted }))
}

impl Handle for NamikiHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        let NamikiStore { db, records, .. } = self.store;
        let ((), ended) = transact(db, &mut self.ahead, |tx| {
            keys.iter()
                .try_for_each(|key| tx.put(records, key, &payload))
        })?;
        Ok(ended)
    }

    fn read(&mut self, keys: &[u64], into: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        let NamikiStore { db, records, .. } = self.store;
        let values = &mut self.values;
        let ((), ended) = transact(db, &mut self.ahead, |tx| {
            tx.get_many(records, keys.iter(), values)
        })?;
        for (key, value) in keys.iter().zip(&*values) {
            into.push(value.ok_or_else(|| missing(*key))?);
        }
        Ok(ended)
    }

    fn read_update(&mut self, keys: &[u64]) -> Result<Committed, BenchError> {
        let NamikiStore { db, records, .. } = self.store;
        let (updated, ended) = transact(db, &mut self.ahead, |tx| {
            tx.update_many(records, keys.iter(), |_, payload| counted_up(payload))
        })?;
        if updated == keys.len() {
            Ok(ended)
        } else {
            Err(BenchError::Check("a record is missing".to_owned()))
        }
    }

    fn scan(
        &mut self,
        first: u64,
        count: usize,
        into: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        let NamikiStore { db, records, .. } = self.store;
        // Keys are adjacent.
        let range = first..first.saturating_add(count as u64);
        let before = into.len();
        let ((), ended) = transact(db, &mut self.ahead, |tx| {
            into.truncate(before);
            tx.scan_with(records, range.clone(), Direction::Forward, |key, value| {
                into.push((key, value));
                ControlFlow::Continue(())
            })
        })?;
        Ok(ended)
    }

    fn sum_all(&mut self) -> Result<(u64, u64), BenchError> {
        let NamikiStore { db, records, .. } = self.store;
        let (mut count, mut sum) = (0, 0_u64);
        db.read(|view| {
            (count, sum) = (0, 0);
            for row in view.range(records, ..) {
                let (_, payload) = row?;
                count += 1;
                sum = sum.wrapping_add(payload.tag);
            }
            Ok(())
        })?;
        Ok((count, sum))
    }
}
