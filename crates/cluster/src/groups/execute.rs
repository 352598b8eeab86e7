//! Execution of commands.
//!
//! A command locks its rows without waiting, reads them, and writes. A refused command changes
//! nothing and releases its locks at once: the rows that it has read were committed, or are its own
//! group's, so its execution takes effect at that moment.
//!
//! Paper: raft-pwal §2.1, Algorithm 1; §3.2, Algorithm 2

use namiki::TableId;
use namiki::replica::{GroupTransaction, LockError, Slot, WriteError};
use namiki_client::protocol::{Command, Outcome, Write};

/// A row is locked by another group: the command has changed nothing, and holds no lock of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// Executes a command in a group.
pub(crate) fn execute(
    group: &mut GroupTransaction,
    command: &Command,
) -> Result<Outcome, Conflict> {
    group.begin_command();
    let executed = match command {
        Command::Transfer {
            table,
            from,
            to,
            amount,
        } => transfer(group, TableId(*table), *from, *to, *amount),
        Command::Write(write) => conditional_write(group, write),
    };
    match executed {
        Ok(()) => Ok(Outcome::Done),
        Err(refusal) => {
            group.undo_command();
            match refusal {
                Refusal::Outcome(outcome) => Ok(outcome),
                Refusal::Conflict => Err(Conflict),
            }
        }
    }
}

enum Refusal {
    Outcome(Outcome),
    Conflict,
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Conflict => Self::Conflict,
            LockError::NoSuchTable(_) => Self::Outcome(Outcome::NoSuchTable),
            _ => Self::Outcome(Outcome::Invalid),
        }
    }
}

impl From<WriteError> for Refusal {
    fn from(_: WriteError) -> Self {
        Self::Outcome(Outcome::Invalid)
    }
}

fn transfer(
    group: &mut GroupTransaction,
    table: TableId,
    from: u64,
    to: u64,
    amount: u64,
) -> Result<(), Refusal> {
    if from == to {
        return Err(Refusal::Outcome(Outcome::Invalid));
    }
    let no_account = Refusal::Outcome(Outcome::NoSuchAccount);
    let Some(debited) = group.lock_existing(table, &from.to_be_bytes())? else {
        return Err(no_account);
    };
    let Some(credited) = group.lock_existing(table, &to.to_be_bytes())? else {
        return Err(no_account);
    };
    let debit = balance(group, debited)?;
    let credit = balance(group, credited)?;
    let (Some(debit), Some(credit)) = (debit.checked_sub(amount), credit.checked_add(amount))
    else {
        return Err(Refusal::Outcome(if debit < amount {
            Outcome::InsufficientBalance
        } else {
            Outcome::BalanceTooLarge
        }));
    };
    group.write(debited, Some(&debit.to_le_bytes()))?;
    group.write(credited, Some(&credit.to_le_bytes()))?;
    Ok(())
}

fn balance(group: &GroupTransaction, account: Slot) -> Result<u64, Refusal> {
    let value = group.value(account);
    let value = value.ok_or(Refusal::Outcome(Outcome::NoSuchAccount))?;
    let bytes = <[u8; 8]>::try_from(value).map_err(|_| Refusal::Outcome(Outcome::Invalid))?;
    Ok(u64::from_le_bytes(bytes))
}

fn conditional_write(group: &mut GroupTransaction, write: &Write) -> Result<(), Refusal> {
    for condition in &write.conditions {
        let slot = group.lock(TableId(condition.table), &condition.key)?;
        if group.value(slot) != condition.value.as_deref() {
            return Err(Refusal::Outcome(Outcome::ConditionFailed));
        }
    }
    for (table, key, value) in &write.rows {
        let slot = group.lock(TableId(*table), key)?;
        group.write(slot, value.as_deref())?;
    }
    Ok(())
}
