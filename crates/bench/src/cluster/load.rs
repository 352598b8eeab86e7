//! Creates the accounts, and reads them at the end.

use namiki_client::protocol::{Command, Outcome, Write};
use namiki_client::{AsyncClient, AsyncSession};

use super::witness::{Findings, Witness};
use super::workload::{OPENING_BALANCE, Plan, key_of};
use crate::error::BenchError;

/// Number of rows in a command, and of commands in a group.
const ROWS: u64 = 1000;
const COMMANDS: u64 = 20;
/// Number of rows in a read, and bytes of their values.
const READ_ROWS: u64 = 20_000;
const READ_BYTES: u64 = 4 << 20;

/// Writes the accounts of a plan. For a plan without accounts, deletes its rows.
pub(super) async fn load(session: &mut AsyncSession, plan: &Plan) -> Result<(), BenchError> {
    let accounts = plan.accounts();
    let rows = if accounts == 0 { plan.pairs } else { accounts };
    let value = (accounts > 0).then(|| OPENING_BALANCE.to_le_bytes().to_vec());
    let command = |first: u64| {
        let rows = first..rows.min(first + ROWS);
        let rows = rows.map(|row| (plan.table, key_of(row), value.clone()));
        Command::Write(Box::new(Write {
            conditions: Vec::new(),
            rows: rows.collect(),
        }))
    };
    let mut groups = Vec::new();
    for first in (0..rows).step_by((ROWS * COMMANDS) as usize) {
        let commands = (first..rows.min(first + ROWS * COMMANDS)).step_by(ROWS as usize);
        groups.push(session.submit(commands.map(command).collect()).await?);
    }
    for group in groups {
        let outcomes = session.wait(group).await?;
        if outcomes.iter().any(|outcome| *outcome != Outcome::Done) {
            return Err(BenchError::Check(
                "the accounts cannot be opened".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Reads every row from the leader and compares it.
pub(super) async fn verify(
    client: &mut AsyncClient,
    plan: &Plan,
    witness: &Witness,
) -> Result<Findings, BenchError> {
    let mut findings = Findings::default();
    let rows = witness.rows();
    let at_once = READ_ROWS.min(READ_BYTES / plan.row_bytes as u64).max(1);
    for first in (0..rows).step_by(at_once as usize) {
        let these = first..rows.min(first + at_once);
        let keys = these.clone().map(|row| (plan.table, key_of(row)));
        let found = client.read(keys.collect()).await?;
        for (row, value) in these.zip(&found.values) {
            witness.compare(row, value.as_deref(), &mut findings);
        }
    }
    Ok(findings)
}
