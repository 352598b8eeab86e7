//! What a transaction does, on the keys that its workload drew.
//!
//! Paper: tictoc-pwal §4 (U-1, U-10, R-10, U-5/R-5)

use namiki::{Error, Transaction};

use super::payload::Payload;
use super::workload::{Records, UPDATES};

/// The largest amount of a payment.
const AMOUNT_MAX: u64 = 100;

/// What one transaction works on.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) records: &'a Records,
    /// The keys of the transaction.
    pub(crate) keys: &'a [u32],
    /// What a blind update writes; no two transactions have the same.
    pub(crate) tag: u64,
}

/// What a transaction has read, in the order of its keys.
pub(crate) type Values = Vec<Option<Payload>>;

/// The body of a transaction. One implementation for each shape of workload, so that the loop
/// around it is compiled for it.
pub(crate) trait Body: Copy {
    /// Does it all, or says that it is not to be done. `values` is for what it reads.
    fn run(self, tx: &mut Transaction, job: Job<'_>, values: &mut Values)
    -> Result<Outcome, Error>;
}

/// What a transaction that may commit has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what its workload says.
    Done,
    /// A payment that would have overdrawn: nothing is changed.
    Refused,
}

/// U-n.
#[derive(Clone, Copy)]
pub(crate) struct Updates {
    pub(crate) value_bytes: u16,
}

impl Body for Updates {
    #[inline]
    fn run(
        self,
        tx: &mut Transaction,
        job: Job<'_>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let payload = Payload {
            tag: job.tag,
            bytes: self.value_bytes,
        };
        for key in job.keys {
            tx.put(job.records, &u64::from(*key), &payload)?;
        }
        Ok(Outcome::Done)
    }
}

/// R-n.
#[derive(Clone, Copy)]
pub(crate) struct Reads;

impl Body for Reads {
    #[inline]
    fn run(
        self,
        tx: &mut Transaction,
        job: Job<'_>,
        values: &mut Values,
    ) -> Result<Outcome, Error> {
        read_all(tx, job, values)?;
        Ok(Outcome::Done)
    }
}

/// U-n/R-n: counts each record up, so that a lost update shows in the sum.
#[derive(Clone, Copy)]
pub(crate) struct ReadUpdates;

impl Body for ReadUpdates {
    #[inline]
    fn run(
        self,
        tx: &mut Transaction,
        job: Job<'_>,
        values: &mut Values,
    ) -> Result<Outcome, Error> {
        read_all(tx, job, values)?;
        for (i, key) in job.keys.iter().enumerate() {
            // A key that was drawn twice is counted on from the transaction's own write.
            let last = job.keys[..i].iter().rposition(|earlier| earlier == key);
            if let Some(mut payload) = values[last.unwrap_or(i)] {
                payload.tag = payload.tag.wrapping_add(1);
                values[i] = Some(payload);
                tx.put(job.records, &u64::from(*key), &payload)?;
            }
        }
        Ok(Outcome::Done)
    }
}

/// YCSB.
#[derive(Clone, Copy)]
pub(crate) struct YcsbOperation {
    pub(crate) value_bytes: u16,
}

impl Body for YcsbOperation {
    #[inline]
    fn run(
        self,
        tx: &mut Transaction,
        job: Job<'_>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let key = job.keys[0];
        if key & UPDATES == 0 {
            read(tx, job.records, u64::from(key))?;
            return Ok(Outcome::Done);
        }
        let payload = Payload {
            tag: job.tag,
            bytes: self.value_bytes,
        };
        tx.put(job.records, &u64::from(key & !UPDATES), &payload)?;
        Ok(Outcome::Done)
    }
}

/// A payment.
#[derive(Clone, Copy)]
pub(crate) struct Payments;

impl Body for Payments {
    #[inline]
    fn run(
        self,
        tx: &mut Transaction,
        job: Job<'_>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let (from, to) = (u64::from(job.keys[0]), u64::from(job.keys[1]));
        let amount = amount(job.tag, job.keys[0]);
        let mut payer = read(tx, job.records, from)?;
        if payer.tag < amount {
            return Ok(Outcome::Refused);
        }
        let mut payee = read(tx, job.records, to)?;
        payer.tag -= amount;
        payee.tag = payee.tag.wrapping_add(amount);
        tx.put(job.records, &from, &payer)?;
        tx.put(job.records, &to, &payee)?;
        Ok(Outcome::Done)
    }
}

/// How much the payment of this tag takes from its first account.
#[inline]
pub(crate) fn amount(tag: u64, from: u32) -> u64 {
    1 + tag.wrapping_add(u64::from(from)) % AMOUNT_MAX
}

#[inline]
fn read(tx: &mut Transaction, records: &Records, key: u64) -> Result<Payload, Error> {
    match tx.get(records, &key)? {
        Some(payload) => Ok(payload),
        None => missing(tx, key),
    }
}

/// Reads all keys of a transaction, which it knows from the start.
#[inline]
fn read_all(tx: &mut Transaction, job: Job<'_>, values: &mut Values) -> Result<(), Error> {
    let keys = job.keys.iter().map(|key| u64::from(*key));
    tx.get_many(job.records, keys.clone(), values)?;
    for (key, value) in keys.zip(&*values) {
        if value.is_none() {
            return missing(tx, key);
        }
    }
    Ok(())
}

#[cold]
fn missing<T>(tx: &mut Transaction, key: u64) -> Result<T, Error> {
    tx.abort(format!("record {key} is missing"))
}
