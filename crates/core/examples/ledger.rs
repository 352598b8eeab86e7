//! A ledger: accounts, payments, an index by hand, and messages to be sent. `cargo run -p namiki --example ledger`
//!
//! Keys and values are types of its own. A payment without sufficient funds is refused and changes
//! nothing.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;

use namiki::{Database, Error, Key, Serde, Table, Transaction, Value};
use serde::{Deserialize, Serialize};

/// As long as an `u64` in the table, and not to be mistaken for another number.
#[derive(Key, Value, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AccountId(u64);

#[derive(Value, Clone, Debug, PartialEq)]
struct Account {
    owner: String,
    kind: AccountKind,
    /// The most that it may owe.
    limit: Option<u64>,
}

#[derive(Value, Clone, Copy, Debug, PartialEq)]
enum AccountKind {
    Current,
    Savings { percent: u8 },
}

/// The rows of an account lie together, by their number.
#[derive(Key, Clone, Debug, PartialEq)]
struct EntryKey {
    account: AccountId,
    number: u64,
}

#[derive(Value, Clone, Debug, PartialEq)]
enum Entry {
    Opened,
    Paid { to: AccountId, amount: u64 },
    Received { from: AccountId, amount: u64 },
}

/// Whatever serde can write is a value inside `Serde`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Message {
    to: String,
    lines: Vec<String>,
}

/// Why a payment was not made.
#[derive(Debug)]
enum PaymentError {
    NoAccount(AccountId),
    NotEnough { missing: u64 },
    Database(Error),
}

/// Lets the payment's code use `?` on the database's calls.
impl From<Error> for PaymentError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl std::fmt::Display for PaymentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAccount(AccountId(number)) => write!(f, "there is no account {number}"),
            Self::NotEnough { missing } => write!(f, "{missing} are missing"),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl StdError for PaymentError {}

/// The tables. A handle is good as long as the database is open.
struct Ledger {
    db: Database,
    accounts: Table<AccountId, Account>,
    balances: Table<AccountId, i64>,
    entries: Table<EntryKey, Entry>,
    /// An index: the accounts of each owner, without a value.
    by_owner: Table<(String, AccountId), ()>,
    outbox: Table<u64, Serde<Message>>,
    remarks: Table<AccountId, str>,
}

impl Ledger {
    fn open(dir: &str) -> Result<Self, Box<dyn StdError>> {
        let db = Database::open(dir)?;
        Ok(Self {
            accounts: db.table("accounts")?,
            balances: db.table("balances")?,
            entries: db.table("entries")?,
            by_owner: db.table("by_owner")?,
            outbox: db.table("outbox")?,
            remarks: db.table("remarks")?,
            db,
        })
    }

    /// Opens an account: its row, its place in the index and its first entry, or none of them.
    fn open_account(&self, account: &Account, balance: i64) -> Result<AccountId, Error> {
        self.db.transact(|tx| {
            let last = tx.last(&self.accounts)?;
            let id = AccountId(last.map_or(1, |(AccountId(number), _)| number + 1));
            tx.insert(&self.accounts, &id, account)?;
            tx.put(&self.balances, &id, &balance)?;
            // A tuple of references stands for the key.
            tx.put(&self.by_owner, &(&account.owner, id), &())?;
            self.add_entry(tx, id, &Entry::Opened)?;
            Ok(id)
        })
    }

    /// Pays, or refuses with an error of its own: any `Err` rolls back what was written before it.
    fn pay(&self, from: AccountId, to: AccountId, amount: u64) -> Result<(), PaymentError> {
        self.db.transact_with(|tx| {
            let Some(payer) = tx.get(&self.accounts, &from)? else {
                return Err(PaymentError::NoAccount(from));
            };
            self.add_entry(tx, from, &Entry::Paid { to, amount })?;
            let balance = tx.get(&self.balances, &from)?.unwrap_or(0) - amount as i64;
            let limit = payer.limit.unwrap_or(0) as i64;
            if balance < -limit {
                let missing = (-limit - balance) as u64;
                return Err(PaymentError::NotEnough { missing });
            }
            let Some(payee) = tx.get(&self.accounts, &to)? else {
                return Err(PaymentError::NoAccount(to));
            };
            tx.put(&self.balances, &from, &balance)?;
            tx.add(&self.balances, &to, amount as i64)?; // no conflict with others that pay there
            self.add_entry(tx, to, &Entry::Received { from, amount })?;
            let number = tx.last(&self.outbox)?.map_or(0, |(number, _)| number + 1);
            let message = Message {
                to: payee.owner,
                lines: vec![format!("{amount} from {}", payer.owner)],
            };
            tx.put(&self.outbox, &number, &Serde(message))?;
            Ok(())
        })
    }

    /// The next number of an account is that behind its last entry: one row is read for it.
    fn add_entry(&self, tx: &mut Transaction, id: AccountId, entry: &Entry) -> Result<(), Error> {
        let last = tx.prefix(&self.entries, &(id,)).next_back().transpose()?;
        let number = last.map_or(0, |(key, _)| key.number + 1);
        // As good as `&EntryKey { account: id, number }`.
        tx.insert(&self.entries, &(id, number), entry)
    }

    /// The accounts of an owner with their balances.
    fn accounts_of(&self, owner: &str) -> Result<Vec<(AccountId, Account, i64)>, Error> {
        self.db.transact(|tx| {
            let mut ids = Vec::new();
            for row in tx.prefix(&self.by_owner, &(owner,)) {
                let ((_, id), ()) = row?;
                ids.push(id);
            }
            let (mut accounts, mut balances) = (Vec::new(), Vec::new());
            tx.get_many(&self.accounts, &ids, &mut accounts)?;
            tx.get_many(&self.balances, &ids, &mut balances)?;
            let rows = ids.into_iter().zip(accounts).zip(balances);
            let rows = rows
                .filter_map(|((id, account), balance)| Some((id, account?, balance.unwrap_or(0))));
            Ok(rows.collect())
        })
    }

    /// The latest entries of an account, newest first.
    fn statement(&self, id: AccountId, entries: usize) -> Result<Vec<(u64, Entry)>, Error> {
        self.db.transact(|tx| {
            let rows = tx.range(&self.entries, (id, 0)..=(id, u64::MAX)).rev();
            let rows = rows.take(entries);
            rows.map(|row| row.map(|(key, entry)| (key.number, entry)))
                .collect()
        })
    }

    /// Takes the oldest message. It is deleted when this returns, and not before.
    fn take_message(&self) -> Result<Option<Message>, Error> {
        self.db.transact(|tx| {
            let taken = tx.pop_first(&self.outbox)?;
            Ok(taken.map(|(_, Serde(message))| message))
        })
    }

    /// Forgets the openings of accounts; returns how many entries there were and how many there are.
    fn forget_openings(&self) -> Result<(usize, usize), Error> {
        self.db.transact(|tx| {
            let before = tx.count(&self.entries, ..)?;
            let removed = tx.retain(&self.entries, .., |_, entry| entry != Entry::Opened)?;
            Ok((before, before - removed))
        })
    }
}

fn main() -> Result<(), Box<dyn StdError>> {
    let ledger = Ledger::open("ledger")?;
    let (db, remarks) = (&ledger.db, &ledger.remarks);

    let account = |owner: &str, kind, limit| Account {
        owner: owner.to_owned(),
        kind,
        limit,
    };
    let alice = ledger.open_account(&account("Alice", AccountKind::Current, Some(50)), 100)?;
    let saved = AccountKind::Savings { percent: 2 };
    let saving = ledger.open_account(&account("Alice", saved, None), 0)?;
    let bob = ledger.open_account(&account("Bob", AccountKind::Current, None), 0)?;

    ledger.pay(alice, bob, 120)?; // within her limit
    ledger.pay(bob, saving, 30)?;
    match ledger.pay(alice, bob, 40) {
        Err(PaymentError::NotEnough { missing }) => println!("refused: {missing} are missing"),
        other => other?,
    }

    for (AccountId(number), account, balance) in ledger.accounts_of("Alice")? {
        println!("account {number} of Alice, {:?}: {balance}", account.kind);
    }
    for (number, entry) in ledger.statement(bob, 10)? {
        println!("entry {number} of Bob: {entry:?}");
    }
    while let Some(message) = ledger.take_message()? {
        println!("to {}: {}", message.to, message.lines.join(", "));
    }

    db.transact(|tx| tx.put(remarks, &bob, "pays on time"))?;
    let (known, words) = db.transact(|tx| {
        let known = tx.contains_key(remarks, &alice)?;
        // Read where it lies.
        let words = tx.get_with(remarks, &bob, |remark| remark.split(' ').count())?;
        Ok((known, words))
    })?;
    println!("a remark on Alice: {known}; words on Bob: {words:?}");

    let (before, after) = ledger.forget_openings()?;
    println!("{before} entries, and {after} without the openings");
    db.close()?;
    Ok(())
}
