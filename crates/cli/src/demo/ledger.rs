//! The demo's two tables, and the one transaction that it runs.

use namiki::{Database, Error, Table, Transaction, Value, ValueBytes};

/// Initial balance of every account.
pub(super) const INITIAL_BALANCE: i64 = 1000;
/// Largest amount of one payment.
pub(super) const AMOUNT_MAX: u64 = 100;

/// A completed payment; its key is the payment's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payment {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) amount: i64,
}

const PAYMENT_BYTES: usize = 24;

impl Value for Payment {
    type Owned = Self;
    const NAME: &'static str = "payment";

    fn encode(&self, into: &mut ValueBytes) {
        into.extend_from_slice(&self.from.to_le_bytes());
        into.extend_from_slice(&self.to.to_le_bytes());
        into.extend_from_slice(&self.amount.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (from, rest) = bytes.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        Some(Self {
            from: u64::from_le_bytes(*from),
            to: u64::from_le_bytes(*to),
            amount: i64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// The tables of a database.
pub(super) struct Ledger {
    /// Balances. Accounts are numbered from 0.
    pub(super) accounts: Table<u64, i64>,
    /// Payments, by id.
    pub(super) payments: Table<u64, Payment>,
}

impl Ledger {
    pub(super) fn open(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            accounts: db.table("accounts")?,
            payments: db.table_with_room("payments", PAYMENT_BYTES)?,
        })
    }

    /// Moves money and records the payment, or does neither. Returns false without any effect if
    /// the balance of the paying account is too small.
    pub(super) fn pay(
        &self,
        tx: &mut Transaction,
        id: u64,
        payment: &Payment,
    ) -> Result<bool, Error> {
        let Some(from) = tx.get(&self.accounts, &payment.from)? else {
            return tx.abort(format!("there is no account {}", payment.from));
        };
        if from < payment.amount {
            return Ok(false);
        }
        let Some(to) = tx.get(&self.accounts, &payment.to)? else {
            return tx.abort(format!("there is no account {}", payment.to));
        };
        tx.put(&self.accounts, &payment.from, &(from - payment.amount))?;
        tx.put(&self.accounts, &payment.to, &(to + payment.amount))?;
        tx.insert(&self.payments, &id, payment)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_moves_money_once_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let ledger = Ledger::open(&db).unwrap();
        db.transact(|tx| {
            tx.put(&ledger.accounts, &0, &50)?;
            tx.put(&ledger.accounts, &1, &0)
        })
        .unwrap();
        let payment = Payment {
            from: 0,
            to: 1,
            amount: 30,
        };
        assert!(db.transact(|tx| ledger.pay(tx, 7, &payment)).unwrap());
        assert!(!db.transact(|tx| ledger.pay(tx, 8, &payment)).unwrap());
        let again = db.transact(|tx| {
            ledger.pay(
                tx,
                7,
                &Payment {
                    amount: 1,
                    ..payment
                },
            )
        });
        assert!(matches!(again, Err(Error::Duplicate { .. })), "{again:?}");
        let to_no_account = Payment { to: 9, ..payment };
        let refused = db.transact(|tx| {
            ledger.pay(
                tx,
                9,
                &Payment {
                    amount: 1,
                    ..to_no_account
                },
            )
        });
        assert!(matches!(refused, Err(Error::Aborted(_))), "{refused:?}");
        db.transact(|tx| {
            assert_eq!(tx.scan(&ledger.accounts, ..)?, [(0, 20), (1, 30)]);
            assert_eq!(tx.scan(&ledger.payments, ..)?, [(7, payment)]);
            Ok(())
        })
        .unwrap();
    }
}
