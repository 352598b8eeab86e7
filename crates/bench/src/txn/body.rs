//! The operations of a transaction, on the keys that its workload drew.
//!
//! Paper: tictoc-pwal §4 (U-1, U-10, R-10, U-5/R-5); pwal §6.3.1 (READ 5 & UPDATE 5)

use namiki::{Error, Transaction};

use super::precomputed_keys::Drawn;
use super::record_payload::Payload;
use super::workload::{Records, UPDATES, record_of};

/// The largest amount of a payment.
const AMOUNT_MAX: u64 = 100;

/// The input of one transaction.
pub(crate) struct Job<'a, D: Drawn> {
    pub(crate) records: &'a Records<D::Key>,
    /// The keys of the transaction, as numbers of records.
    pub(crate) keys: &'a [u32],
    /// The position of the first key in the ring.
    pub(crate) first: usize,
    /// The same keys, encoded for the table.
    pub(crate) drawn: &'a D,
    /// The tag that blind updates write; unique to each transaction.
    pub(crate) tag: u64,
}

impl<D: Drawn> Clone for Job<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Drawn> Copy for Job<'_, D> {}

impl<'a, D: Drawn> Job<'a, D> {
    /// The encoded key at a position of the transaction; it belongs to record `number`.
    #[inline]
    fn key(self, at: usize, number: u32) -> D::One<'a> {
        self.drawn.key(number, self.first + at)
    }

    /// Splits the job: one with the first keys, and one with the others.
    #[inline]
    fn split_at(self, keys: usize) -> (Self, Self) {
        let (one, other) = self.keys.split_at(keys);
        let first = self.first + keys;
        (
            Self { keys: one, ..self },
            Self {
                keys: other,
                first,
                ..self
            },
        )
    }
}

/// The values read by a transaction, in the order of its keys.
pub(crate) type Values = Vec<Option<Payload>>;

/// The body of a transaction. There is one implementation for each shape of workload, so that the
/// surrounding loop is specialised for it.
pub(crate) trait Body: Copy {
    /// Runs all operations, or refuses the transaction. `values` receives the values read.
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        values: &mut Values,
    ) -> Result<Outcome, Error>;
}

/// The outcome of a transaction that may commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All operations were done.
    Done,
    /// A refused payment, which would have overdrawn; nothing is changed.
    Refused,
}

/// U-n.
#[derive(Clone, Copy)]
pub(crate) struct Updates {
    pub(crate) value_bytes: u16,
}

impl Body for Updates {
    #[inline]
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        put_all(tx, job, self.value_bytes)?;
        Ok(Outcome::Done)
    }
}

/// R-n.
#[derive(Clone, Copy)]
pub(crate) struct Reads;

impl Body for Reads {
    #[inline]
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        values: &mut Values,
    ) -> Result<Outcome, Error> {
        read_all(tx, job, values)?;
        Ok(Outcome::Done)
    }
}

/// U-n/R-n: increments each record, so that a lost update shows in the sum.
#[derive(Clone, Copy)]
pub(crate) struct ReadUpdates;

impl Body for ReadUpdates {
    #[inline]
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let numbers = job.keys.iter().enumerate();
        let keys = numbers.map(|(at, number)| job.key(at, *number));
        let updated = tx.update_many(job.records, keys, |_, mut payload| {
            payload.tag = payload.tag.wrapping_add(1);
            payload
        })?;
        if updated != job.keys.len() {
            return tx.abort("a record is missing");
        }
        Ok(Outcome::Done)
    }
}

/// READ n & UPDATE n.
#[derive(Clone, Copy)]
pub(crate) struct ReadsThenUpdates {
    /// n.
    pub(crate) reads: u8,
    pub(crate) value_bytes: u16,
}

impl Body for ReadsThenUpdates {
    #[inline]
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        values: &mut Values,
    ) -> Result<Outcome, Error> {
        let (reads, updates) = job.split_at(self.reads.into());
        read_all(tx, reads, values)?;
        put_all(tx, updates, self.value_bytes)?;
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
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let key = job.keys[0];
        if key & UPDATES == 0 {
            read(tx, job, 0, key)?;
            return Ok(Outcome::Done);
        }
        let payload = Payload {
            tag: job.tag,
            bytes: self.value_bytes,
        };
        let key = job.key(0, record_of(key));
        tx.put(job.records, &key, &payload)?;
        Ok(Outcome::Done)
    }
}

/// A payment.
#[derive(Clone, Copy)]
pub(crate) struct Payments;

impl Body for Payments {
    #[inline]
    fn run<D: Drawn>(
        self,
        tx: &mut Transaction,
        job: Job<'_, D>,
        _values: &mut Values,
    ) -> Result<Outcome, Error> {
        let (from, to) = (job.keys[0], job.keys[1]);
        let amount = amount(job.tag, from);
        let mut payer = read(tx, job, 0, from)?;
        if payer.tag < amount {
            return Ok(Outcome::Refused);
        }
        let mut payee = read(tx, job, 1, to)?;
        payer.tag -= amount;
        payee.tag = payee.tag.wrapping_add(amount);
        tx.put(job.records, &job.key(0, from), &payer)?;
        tx.put(job.records, &job.key(1, to), &payee)?;
        Ok(Outcome::Done)
    }
}

/// The amount that the payment with this tag takes from its first account.
#[inline]
pub(crate) fn amount(tag: u64, from: u32) -> u64 {
    1 + tag.wrapping_add(u64::from(from)) % AMOUNT_MAX
}

/// Reads the record at a position of the transaction.
#[inline]
fn read<D: Drawn>(
    tx: &mut Transaction,
    job: Job<'_, D>,
    at: usize,
    number: u32,
) -> Result<Payload, Error> {
    match tx.get(job.records, &job.key(at, number))? {
        Some(payload) => Ok(payload),
        None => missing(tx, number),
    }
}

/// Reads all keys of a transaction as one batch; they are known from the start.
#[inline]
fn read_all<D: Drawn>(
    tx: &mut Transaction,
    job: Job<'_, D>,
    values: &mut Values,
) -> Result<(), Error> {
    let numbers = job.keys.iter().enumerate();
    let keys = numbers.map(|(at, number)| job.key(at, *number));
    tx.get_many(job.records, keys, values)?;
    for (number, value) in job.keys.iter().zip(&*values) {
        if value.is_none() {
            return missing(tx, *number);
        }
    }
    Ok(())
}

/// Blindly writes the tag of a transaction to all its keys, in their order.
#[inline]
fn put_all<D: Drawn>(tx: &mut Transaction, job: Job<'_, D>, value_bytes: u16) -> Result<(), Error> {
    let payload = Payload {
        tag: job.tag,
        bytes: value_bytes,
    };
    for (at, number) in job.keys.iter().enumerate() {
        tx.put(job.records, &job.key(at, *number), &payload)?;
    }
    Ok(())
}

#[cold]
fn missing<T>(tx: &mut Transaction, number: u32) -> Result<T, Error> {
    tx.abort(format!("record {number} is missing"))
}
