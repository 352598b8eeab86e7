//! Verification: every acknowledged payment exists, and the money adds up.

use std::ops::ControlFlow;

use namiki::{Database, Direction, Table, Value};
use namiki_terminal::interrupt;

use super::ledger::{INITIAL_BALANCE, Ledger};
use crate::failure::Failure;

/// Rows that one transaction reads.
const ROWS_PER_SCAN: usize = 100_000;

/// The result of comparing a database with the acknowledged payments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of accounts.
    pub(super) accounts: u64,
    /// The sum of all balances.
    pub(super) total: i128,
    /// Acknowledged ids that are missing.
    pub(super) missing: Vec<u64>,
    /// Number of payments that exist and were not acknowledged.
    pub(super) unacknowledged: u64,
    /// Number of accounts with a balance that differs from the sum of their payments.
    pub(super) wrong_balances: u64,
}

impl Found {
    pub(super) fn is_sound(&self, accounts: u64, total: i128) -> bool {
        self.accounts == accounts
            && self.total == total
            && self.missing.is_empty()
            && self.wrong_balances == 0
    }
}

/// Compares a database with the ids of the acknowledged payments.
pub(super) fn compare(
    db: &Database,
    accounts: u64,
    mut acknowledged: Vec<u64>,
) -> Result<Found, Failure> {
    acknowledged.sort_unstable();
    acknowledged.dedup();
    let ledger = Ledger::open(db)?;
    let mut found = Found::default();

    let mut expected = vec![INITIAL_BALANCE; accounts as usize];
    let mut next_acknowledged = 0;
    each_row(db, &ledger.payments, |id, payment| {
        while let Some(&due) = acknowledged.get(next_acknowledged)
            && due < id
        {
            found.missing.push(due);
            next_acknowledged += 1;
        }
        if acknowledged.get(next_acknowledged) == Some(&id) {
            next_acknowledged += 1;
        } else {
            found.unacknowledged += 1;
        }
        for (account, amount) in [
            (payment.from, -payment.amount),
            (payment.to, payment.amount),
        ] {
            match expected.get_mut(account as usize) {
                Some(balance) => *balance += amount,
                None => found.wrong_balances += 1,
            }
        }
    })?;
    found.missing.extend(&acknowledged[next_acknowledged..]);

    each_row(db, &ledger.accounts, |account, balance| {
        found.accounts += 1;
        found.total += i128::from(balance);
        let right = expected.get(account as usize) == Some(&balance);
        found.wrong_balances += u64::from(!right);
    })?;
    Ok(found)
}

/// Calls `visit` for every row of a table, in the order of the keys, in batches. No other
/// transaction runs, so each batch may be its own transaction; a single one would have to remember
/// every row that it has read.
fn each_row<V: Value>(
    db: &Database,
    table: &Table<u64, V>,
    mut visit: impl FnMut(u64, V::Owned),
) -> Result<(), Failure> {
    let mut from = 0;
    loop {
        interrupt::check()?;
        let mut rows = Vec::with_capacity(ROWS_PER_SCAN);
        db.transact(|tx| {
            rows.clear();
            tx.scan_with(table, from.., Direction::Forward, |key, value| {
                rows.push((key, value));
                if rows.len() < ROWS_PER_SCAN {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        })?;
        let last = rows.last().map(|(key, _)| *key);
        let full = rows.len() == ROWS_PER_SCAN;
        for (key, value) in rows {
            visit(key, value);
        }
        match last {
            Some(last) if full && last < u64::MAX => from = last + 1,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Payment;
    use super::*;

    fn database(dir: &std::path::Path) -> (Database, Ledger) {
        let db = Database::open(dir).unwrap();
        let ledger = Ledger::open(&db).unwrap();
        db.transact(|tx| {
            for account in 0..3 {
                tx.put(&ledger.accounts, &account, &INITIAL_BALANCE)?;
            }
            Ok(())
        })
        .unwrap();
        for (id, from, to) in [(10, 0, 1), (11, 1, 2), (12, 2, 0)] {
            let payment = Payment {
                from,
                to,
                amount: 5 + id as i64,
            };
            db.transact(|tx| ledger.pay(tx, id, &payment)).unwrap();
        }
        (db, ledger)
    }

    const TOTAL: i128 = 3 * INITIAL_BALANCE as i128;

    #[test]
    fn an_intact_ledger_is_found_intact() {
        let dir = tempfile::tempdir().unwrap();
        let (db, _) = database(dir.path());
        let found = compare(&db, 3, vec![12, 10, 10]).unwrap();
        assert!(found.is_sound(3, TOTAL), "{found:?}");
        assert_eq!(found.unacknowledged, 1);
    }

    #[test]
    fn lost_and_half_payments_and_lost_money_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (db, ledger) = database(dir.path());
        let found = compare(&db, 3, vec![9, 10, 11, 12, 13]).unwrap();
        assert_eq!(found.missing, [9, 13]);
        assert!(!found.is_sound(3, TOTAL));

        // Half of payment 11 is gone: the money exists, but in the wrong accounts.
        db.transact(|tx| {
            tx.update(&ledger.accounts, &1, |balance| balance + 16)?;
            tx.update(&ledger.accounts, &0, |balance| balance - 16)
        })
        .unwrap();
        let found = compare(&db, 3, vec![]).unwrap();
        assert_eq!((found.total, found.wrong_balances), (TOTAL, 2));
        assert!(!found.is_sound(3, TOTAL));

        db.transact(|tx| tx.delete(&ledger.accounts, &2)).unwrap();
        let found = compare(&db, 3, vec![]).unwrap();
        assert_eq!(found.accounts, 2);
        assert!(!found.is_sound(3, TOTAL));
    }
}
