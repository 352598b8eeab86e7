//! A client of the workload `register`: it executes one operation after the other, and records
//! each.
//!
//! Some operations have a short timeout. The client never repeats an operation that timed out. It
//! continues under a new identity, as a restarted process would, and the outcome of the operation
//! remains unknown.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use namiki_client::protocol::Command;
use namiki_client::{AsyncClient, AsyncSession, ClientError};
use namiki_platform::seeded_random::Random;

use super::clients::{INTERVAL, RESOLVE_TIMEOUT, Shared};
use super::history::What;
use super::registers::{Beliefs, RegisterWrite, some_rows, value_of};
use super::workload::key_of;
use crate::error::BenchError;

/// The short timeout.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);
/// One operation in this many has the short timeout.
const SHORT_TIMEOUT_EVERY: u64 = 16;

/// A client of the workload `register`.
pub(super) struct RegisterClient {
    pub(super) number: u32,
    pub(super) client: AsyncClient,
    pub(super) session: AsyncSession,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) seed: u64,
    /// Fraction of the operations that only read.
    pub(super) reads: f64,
}

impl RegisterClient {
    /// Executes operations until the run is over.
    pub(super) async fn run(mut self) -> Result<(), BenchError> {
        let mut random = Random::stream(self.seed, u64::from(self.number));
        let mut beliefs = Beliefs::default();
        let pace = self.shared.borrow().pace.unwrap_or_default();
        let mut next = Instant::now() + pace.mul_f64(random.unit());
        while !self.shared.borrow().is_over {
            let now = Instant::now();
            if now < next {
                tokio::time::sleep_until(next.min(now + INTERVAL).into()).await;
                continue;
            }
            // A late operation does not make the next ones catch up.
            next = now + pace;
            let registers = self.shared.borrow().plan.pairs;
            if random.unit() < self.reads {
                let rows = some_rows(registers, &mut random);
                self.read(rows, &mut beliefs).await?;
            } else {
                self.write(registers, &mut beliefs, &mut random).await?;
            }
        }
        Ok(())
    }

    async fn read(&mut self, rows: Vec<u64>, beliefs: &mut Beliefs) -> Result<(), BenchError> {
        let what = read_rows(&mut self.client, &self.shared, self.number, rows).await?;
        if let What::Read { read, values, .. } = what {
            let seen = read.into_iter().zip(values);
            seen.for_each(|(row, value)| beliefs.learn(row, value));
        }
        Ok(())
    }

    async fn write(
        &mut self,
        registers: u64,
        beliefs: &mut Beliefs,
        random: &mut Random,
    ) -> Result<(), BenchError> {
        let batch = self.shared.borrow().plan.batch;
        let commands = 1 + random.below(u64::from(batch));
        let rows: Vec<Vec<u64>> = (0..commands)
            .map(|_| some_rows(registers, random))
            .collect();
        let mut unknown = beliefs.unknown(&rows.concat());
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            self.read(unknown, beliefs).await?;
        }
        let mut write = |rows: &Vec<u64>| {
            let number = self.shared.borrow().recorder.borrow_mut().next_number();
            beliefs.write(rows, number, random)
        };
        let writes: Vec<RegisterWrite> = rows.iter().map(&mut write).collect();
        let has_long_timeout = random.below(SHORT_TIMEOUT_EVERY) > 0;
        self.submit(writes, has_long_timeout, beliefs).await
    }

    async fn submit(
        &mut self,
        writes: Vec<RegisterWrite>,
        has_long_timeout: bool,
        beliefs: &mut Beliefs,
    ) -> Result<(), BenchError> {
        let table = self.shared.borrow().plan.table;
        let commands: Vec<Command> = writes.iter().map(|write| write.command(table)).collect();
        let start = Instant::now();
        let timeout = if has_long_timeout {
            RESOLVE_TIMEOUT
        } else {
            SHORT_TIMEOUT
        };
        let outcomes = match self.session.submit(commands.clone()).await {
            Ok(group) => self.session.wait_until(group, start + timeout).await,
            Err(error) => Err(error),
        };
        match outcomes {
            Ok(outcomes) => {
                beliefs.take(&writes, &outcomes);
                let mut shared = self.shared.borrow_mut();
                shared.acknowledged(&commands, &outcomes, start);
                let (submit, outcomes) = (writes, Some(outcomes));
                let what = What::Submit { submit, outcomes };
                let end = Some(Instant::now());
                let mut recorder = shared.recorder.borrow_mut();
                recorder.record(self.number, start, end, what);
                Ok(())
            }
            Err(ClientError::OutcomeUnknown { .. } | ClientError::Unavailable { .. }) => {
                writes.iter().for_each(|write| beliefs.forget(write));
                self.give_up(&commands, writes, start);
                self.session = self.client.open_session().await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records the commands with unknown outcomes.
    fn give_up(&self, commands: &[Command], submit: Vec<RegisterWrite>, start: Instant) {
        let mut shared = self.shared.borrow_mut();
        shared.witness.give_up(commands);
        let what = What::Submit {
            submit,
            outcomes: None,
        };
        let mut recorder = shared.recorder.borrow_mut();
        recorder.record(self.number, start, None, what);
    }
}

/// Reads rows, and records the values.
pub(super) async fn read_rows(
    client: &mut AsyncClient,
    shared: &RefCell<Shared>,
    number: u32,
    rows: Vec<u64>,
) -> Result<What, BenchError> {
    let table = shared.borrow().plan.table;
    let start = Instant::now();
    let keys = rows.iter().map(|row| (table, key_of(*row)));
    let found = client.read(keys.collect()).await?;
    let end = Instant::now();
    let values = found.values.iter();
    let values: Option<Vec<u64>> = values.map(|value| value_of(value.as_deref())).collect();
    let values = values.ok_or_else(|| BenchError::Check("a row holds no number".to_owned()))?;
    let what = What::Read {
        read: rows,
        values,
        lsn: found.lsn,
    };
    let shared = shared.borrow();
    let mut recorder = shared.recorder.borrow_mut();
    recorder.record(number, start, Some(end), what.clone());
    Ok(what)
}
